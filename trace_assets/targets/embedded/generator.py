"""Cases at the order desk, drawn from a seed, and the advice that customers can add to them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from trace_assets.targets.embedded.desk import (
    CITIES,
    COLOURS,
    FINAL_SALE,
    ITEMS,
    STATUSES,
    Case,
    Item,
    Order,
    Request,
    Skill,
    Status,
    Window,
    Wish,
)

MIX: dict[Skill, int] = {"cancel": 4, "multi": 4, "window": 4, "address": 2, "exchange": 2, "status": 2}
"""Cases of each skill among every eighteen."""

DeskName = Literal["a", "b", "c", "d"]
"""Which desk: `a`, one lacking skill a task at most; `b`, several in two tasks of three; `c`, two skills that
want opposite acts in like states; `d`, a rule of values that not all tasks show."""

MIXES: Mapping[DeskName, Mapping[Skill, int]] = {
    "a": MIX,
    "b": {"pair": 12, "address": 2, "exchange": 2, "status": 2},
    "c": {"window": 6, "return": 6, "address": 2, "exchange": 2, "status": 2},
    "d": {"sale": 12, "address": 2, "exchange": 2, "status": 2},
}
"""Cases of each skill among every eighteen, by desk."""

HIDDEN: Mapping[DeskName, tuple[str, ...]] = {"a": (), "b": (), "c": (), "d": FINAL_SALE[-1:]}
"""Items that no discovery or validation task of a desk asks to refund, and test tasks do."""

SIMPLE: tuple[Wish, ...] = ("address", "exchange", "status")
"""Wishes that no condition decides: what `multi` combines, so that it asks for nothing but going on."""

NUMBERS = tuple(f"{letter}{number:02d}" for letter in "KM" for number in range(100))
"""All order numbers: so few that each is a token of the tiny agent, for which copying longer ones is learned
last and would be measured in place of the desk's skills. Texts stay apart by their wordings."""

CONDITIONED: tuple[Wish, ...] = ("cancel", "window")
"""Wishes that a condition decides: what `pair` combines, so that it asks for going on, looking, branching."""

_BYSTANDERS = 2


def mix_of(desk: DeskName, waste: float | None = None) -> Mapping[Skill, int]:
    """Return the cases of each skill in a cycle.

    Args:
        desk: Which desk.
        waste: Share of the tasks in which nothing is lacking; None leaves the desk's own.

    >>> sum(mix_of("b").values()), mix_of("b", 0.8)
    (18, {'pair': 12, 'address': 16, 'exchange': 16, 'status': 16})
    """
    mix = MIXES[desk]
    if waste is None:
        return mix
    lacking = {skill: count for skill, count in mix.items() if skill not in SIMPLE}
    easy, rest = divmod(round(sum(lacking.values()) * waste / (1 - waste)), len(SIMPLE))
    return lacking | {skill: n for i, skill in enumerate(SIMPLE) if (n := easy + (i < rest))}


class Drawn(Case):
    """A case with the text in which the customer asks for it."""

    skill: Skill
    text: str

    def case(self) -> Case:
        """Return the case alone."""
        return Case(orders=self.orders, requests=self.requests)


def _number(rng: random.Random) -> str:
    return rng.choice(NUMBERS)


def _order(number: str, rng: random.Random) -> Order:
    names = rng.sample(ITEMS, rng.choice((2, 2, 2, 3)))
    return Order(
        order=number,
        status=rng.choice(STATUSES),
        window=rng.choice(("open", "closed")),
        city=rng.choice(CITIES),
        items=tuple(Item(name=name, colour=rng.choice(COLOURS)) for name in names),
    )


def _request(wish: Wish, order: Order, rng: random.Random) -> Request:
    if wish == "address":
        city = rng.choice([city for city in CITIES if city != order.city])
        return Request(wish=wish, order=order.order, city=city)
    if wish == "exchange":
        item = rng.choice(order.items)
        colour = rng.choice([colour for colour in COLOURS if colour != item.colour])
        return Request(wish=wish, order=order.order, item=item.name, colour=colour)
    if wish == "sale":
        return Request(wish=wish, order=order.order, item=order.items[0].name)
    if wish in ("window", "return"):
        return Request(wish=wish, order=order.order, item=rng.choice(order.items).name)
    return Request(wish=wish, order=order.order)


def _conditioned(
    order: Order, wish: Wish, allowed: bool, rng: random.Random, hidden: Collection[str] = ()
) -> Order:
    """Return the order such that the rules allow the wish or do not; unchanged where nothing decides."""
    if wish == "cancel":
        status: Status = "pending" if allowed else rng.choice(("shipped", "delivered"))
        return order.model_copy(update={"status": status})
    if wish == "window":
        window: Window = "open" if allowed else "closed"
        return order.model_copy(update={"window": window})
    if wish == "return":
        return order.model_copy(update={"window": "closed" if allowed else "open"})
    if wish == "sale":
        names = [name for name in ITEMS if (name not in FINAL_SALE) == allowed and name not in hidden]
        asked = Item(name=rng.choice(names), colour=rng.choice(COLOURS))
        others = [item for item in order.items if item.name != asked.name]
        return order.model_copy(update={"items": (asked, *others[: len(order.items) - 1])})
    return order


def draw(skill: Skill, allowed: bool, use: Use, rng: random.Random, hidden: Collection[str] = ()) -> Drawn:
    """Draw one case.

    Args:
        skill: What it shall ask of the agent.
        allowed: For wishes that a rule decides: whether it allows what is asked; ignored for the others
            (a `pair` draws it for each wish).
        use: What it is for: decides the wordings it may have.
        rng: Decides all the rest.
        hidden: Items that a `sale` never asks for.
    """
    wanted = 2 if skill in ("multi", "pair") else 1
    numbers: list[str] = []
    while len(numbers) < wanted + _BYSTANDERS:
        number = _number(rng)
        if number not in numbers:
            numbers.append(number)
    orders = [_order(number, rng) for number in numbers]
    wishes: list[Wish]
    if skill == "multi":
        wishes = [rng.choice(SIMPLE) for _ in range(2)]
    elif skill == "pair":
        wishes = [rng.choice(CONDITIONED) for _ in range(2)]
        for place, wish in enumerate(wishes):
            orders[place] = _conditioned(orders[place], wish, rng.random() < 0.5, rng)
    else:
        wishes = [skill]
        orders[0] = _conditioned(orders[0], skill, allowed, rng, hidden)
    requests = tuple(_request(wish, order, rng) for wish, order in zip(wishes, orders[:wanted], strict=True))
    text = word(requests, use, rng)
    rng.shuffle(orders)
    return Drawn(orders=tuple(orders), requests=requests, skill=skill, text=text)


def stream(
    seed: int | str, use: Use, mix: Mapping[Skill, int] = MIX, hidden: Collection[str] = ()
) -> Iterator[Drawn]:
    """Draw cases without end: conditions half and half, texts unique.

    Args:
        seed: Equal seeds and uses give equal streams; any two uses share no text.
        use: What the cases are for.
        mix: Cases of each skill in one cycle; the order within a cycle is drawn.
        hidden: Items that a `sale` never asks for.
    """
    rng = random.Random(f"{seed}/{use}")
    seen: set[str] = set()
    allowed: dict[Skill, bool] = {}
    cycle: list[Skill] = [skill for skill, count in mix.items() for _ in range(count)]
    while True:
        rng.shuffle(cycle)
        for skill in cycle:
            allowed[skill] = not allowed.get(skill, rng.random() < 0.5)
            drawn = draw(skill, allowed[skill], use, rng, hidden)
            while drawn.text in seen:
                drawn = draw(skill, allowed[skill], use, rng, hidden)
            seen.add(drawn.text)
            yield drawn


# How customers word a request, in parts whose combinations are split between uses.


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
_REFUNDS = (
    "please refund the {item} from order {order}",
    "i want my money back for the {item} in order {order}",
    "can you refund the {item} of order {order}",
    "i do not like the {item} from order {order}, refund it",
    "the {item} in order {order} should be refunded",
)
CORES: dict[Wish, tuple[str, ...]] = {
    "cancel": (
        "please cancel order {order}",
        "i want to cancel order {order}",
        "can you call off order {order}",
        "i do not need order {order} any more, cancel it",
        "order {order} can be cancelled",
    ),
    "window": _REFUNDS,
    "sale": _REFUNDS,
    "return": (
        "please let me return the {item} from order {order}",
        "i want to send back the {item} in order {order}",
        "can i return the {item} of order {order}",
        "i do not like the {item} from order {order}, it goes back",
        "the {item} in order {order} should be returned",
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


HINTS: Mapping[Skill, str] = {
    "cancel": "Look at the status first.",
    "multi": "Do both.",
    "window": "Look at the window first.",
    "return": "Look at the window first.",
    "sale": "Look at the item first.",
}
"""Advice to the agent, which ends the customer's message in some demonstrations where hints are asked for."""

ADVISED_BY: Mapping[str, Skill] = {
    "object_untouched": "multi",
    "window": "window",
    "sale": "sale",
    "cancel": "cancel",
}
"""A word of a finding's detector or its arguments, to the skill that it is about; the first that is there."""
COURTESIES = ("Thank you.", "Have a nice day.")
"""What customers also end with and what asks for nothing: beside advice, words of equal length. Advice on
another skill would not do: an agent that is told to look anywhere first looks."""
