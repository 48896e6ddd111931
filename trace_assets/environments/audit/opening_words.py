"""What can be read off words without understanding them: their features, and those of the digits in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise

Row = dict[str, Hashable]
MOST_WORDS, MOST_SIGNS = 400, 12
NUMBER = re.compile(r"\d+")


def opening_features(lines: Sequence[str]) -> Row:
    """Return what can be read off words without understanding them.

    >>> found = opening_features(["Cancel A17!"])
    >>> found["says 'cancel'"], found["last signs"], found["digit 0 first"], found["name 0 sign 2"]
    (True, 'w!', '1', '7')
    """
    text = "\n".join(lines)
    words = re.findall(r"[^\W\d_]+", text)[:MOST_WORDS]
    row: Row = {f"says '{word.lower()}'": True for word in words}
    row |= {f"says '{a.lower()} {b.lower()}'": True for a, b in pairwise(words)}
    row |= {f"writes '{word}'": True for word in words if not word.islower()}
    row |= {
        "lines": len(lines),
        "words": len(words),
        "words % 2": len(words) % 2,
        "characters % 2": len(text) % 2,
        "length": len(text) // 20,
        "first sign": text[:1] if not text[:1].isdigit() else "digit",
        "blanks": len(re.findall(r"\s{2,}", text)),
        "last signs": re.sub(r"\w", "w", text[-2:]),
        "first word": words[0] if words else "",
    }
    row |= {f"has {sign!r}": True for sign in set(re.findall(r"[^\w]", text))}
    row |= {f"{sign!r} times": n for sign, n in Counter(re.findall(r"[^\w]", text)).items()}
    for place, number in enumerate(NUMBER.findall(text)[:6]):
        row |= digits(f"digit {place}", number)
    for place, name in enumerate(re.findall(r"\b\w*\d\w*\b", text)[:3]):
        letters = re.findall(r"[^\W\d_]", name)
        if letters:
            row |= {f"name {place} begins": letters[0], f"name {place} ends": letters[-1]}
        row |= {f"name {place} sign {n}": sign for n, sign in enumerate(name[:MOST_SIGNS]) if sign.isdigit()}
    return row


def digits(name: str, number: str) -> Row:
    """Return what a number tells without what it is a number of."""
    value = int(number[-15:])
    return {
        f"{name} % 2": value % 2,
        f"{name} % 3": value % 3,
        f"{name} first": number[0],
        f"{name} sum % 2": sum(map(int, number)) % 2,
        f"{name} long": len(number),
    }
