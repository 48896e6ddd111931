"""How customers word a request, in parts whose combinations are split between uses.

A wording is an opening, a core a wish, a closing, and for two wishes a joint. Each combination belongs to
exactly one of the four uses (demonstrations, discovery, validation, test), so no request text is ever
shared between them, while every part occurs in all of them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Literal

from trace_assets.targets.embedded.case import Request, Wish

Use = Literal["demonstrations", "discovery", "validation", "test"]

OPENINGS = ("", "Hi, ", "Hello, ", "Good morning, ", "Hey, ", "Dear desk, ", "Good evening, ", "Excuse me, ")
CLOSINGS = (".", ", thanks.", ", thank you.", ", it is urgent.", ", please be quick.", ". Have a nice day.")
JOINTS = (
    "{0} and {1}",
    "{0}, then {1}",
    "two things: {0}, and {1}",
    "first {0}, second {1}",
    "{0}; also {1}",
)
CORES: dict[Wish, tuple[str, ...]] = {
    "cancel": (
        "please cancel order {order}",
        "i want to cancel order {order}",
        "can you call off order {order}",
        "i do not need order {order} any more, cancel it",
        "order {order} can be cancelled",
    ),
    "window": (
        "please refund the {item} from order {order}",
        "i want my money back for the {item} in order {order}",
        "can you refund the {item} of order {order}",
        "i do not like the {item} from order {order}, refund it",
        "the {item} in order {order} should be refunded",
    ),
    "address": (
        "please send order {order} to {city}",
        "i want order {order} in {city}",
        "can you change the address of order {order} to {city}",
        "i moved, send order {order} to {city}",
        "order {order} should go to {city}",
    ),
    "exchange": (
        "please exchange the {item} in order {order} for a {colour} one",
        "i want the {item} of order {order} in {colour}",
        "can you change the {item} of order {order} to {colour}",
        "i do not like my {item} from order {order}, make it {colour}",
        "the {item} in order {order} should be {colour}",
    ),
    "status": (
        "please tell me the status of order {order}",
        "i want to know where order {order} is",
        "can you tell me about order {order}",
        "i have no news of order {order}, where is it",
        "what is the status of order {order}",
    ),
}

# Shares of 20: the demonstrations are many, the test split must not be starved of wordings.
_SHARES: dict[Use, range] = {
    "demonstrations": range(0, 8),
    "discovery": range(8, 12),
    "validation": range(12, 15),
    "test": range(15, 20),
}


def _belongs(parts: Sequence[object]) -> int:
    text = "|".join(str(part) for part in parts)
    return hashlib.sha256(text.encode()).digest()[0] % 20


def word(requests: Sequence[Request], use: Use, rng: random.Random) -> str:
    """Word one or two requests as one customer message.

    Args:
        requests: What is wanted.
        use: What the text is for; other uses never get the same text.
        rng: Decides the wording.
    """
    while True:
        opening, closing, joint = rng.choice(OPENINGS), rng.choice(CLOSINGS), rng.choice(JOINTS)
        cores = [rng.choice(CORES[request.wish]) for request in requests]
        parts = [opening, *cores, closing] if len(cores) == 1 else [opening, joint, *cores, closing]
        if _belongs(parts) in _SHARES[use]:
            break
    filled = [
        core.format(order=request.order, item=request.item, colour=request.colour, city=request.city)
        for core, request in zip(cores, requests, strict=True)
    ]
    body = filled[0] if len(filled) == 1 else joint.format(*filled)
    return opening + body + closing
