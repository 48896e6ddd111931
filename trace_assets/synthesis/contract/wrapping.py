"""Openings and closings of requests: what stands before and after what is asked for.

Found by successor variety (Harris 1955): after `Hello, ` many different words follow, after `i moved, `
always the same, so the first is an opening and the second belongs to the request.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

MIN_VARIETY = 3
MIN_TEXTS = 4


def learn(texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Find the openings and closings of some requests with slots.

    Args:
        texts: Different requests, values replaced by `{slot}`.

    Returns:
        Openings and closings; each has the empty one where some request has none.

    >>> wishes = ["cancel {order}", "i moved, send {order} to {city}", "where is {order}"]
    >>> learn([o + w + c for w in wishes for o in ("", "Hi, ") for c in (".", ", thanks.")])
    (('', 'Hi, '), (', thanks.', '.'))
    """
    after: dict[str, Counter[str]] = defaultdict(Counter)
    before: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for start in _starts(text):
            after[text[:start]][" ".join(text[start:].split()[:2])] += 1
        for end in _ends(text):
            before[text[end:]][" ".join(text[:end].split()[-2:])] += 1
    openings, closings = _varied(after), _varied(before)
    wrapped = [split(text, openings, closings) for text in texts]
    return tuple(sorted({w[0] for w in wrapped})), tuple(sorted({w[2] for w in wrapped}))


def split(text: str, openings: Iterable[str], closings: Iterable[str]) -> tuple[str, str, str]:
    """Split a request into opening, core and closing; the longest opening and closing that fit are taken.

    >>> split("Hi, cancel {order}, thanks.", ["Hi, "], [".", ", thanks."])
    ('Hi, ', 'cancel {order}', ', thanks.')
    """
    opening = max((o for o in openings if text.startswith(o)), key=len, default="")
    text = text[len(opening) :]
    closing = max((c for c in closings if text.endswith(c)), key=len, default="")
    return opening, text[: len(text) - len(closing)], closing


def _starts(text: str) -> list[int]:
    """Positions before the first slot at which a request may begin."""
    head = text[: text.find("{")] if "{" in text else ""
    return [match.end() for match in re.finditer(r"[,.;:!?]\s+", head)]


def _ends(text: str) -> list[int]:
    """Positions behind the last slot at which a request may end."""
    offset = text.rfind("}") + 1
    return [offset + match.start() for match in re.finditer(r"[,.;:!?]", text[offset:])]


def _varied(neighbours: dict[str, Counter[str]]) -> list[str]:
    return [
        piece
        for piece, words in neighbours.items()
        if len(words) >= MIN_VARIETY and sum(words.values()) >= MIN_TEXTS
    ]
