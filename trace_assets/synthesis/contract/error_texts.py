"""Error texts as templates: what changes from call to call becomes a slot."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from trace_assets.records import Record

MAX_TEMPLATES = 12
MAX_CHARACTERS = 500
VALUE = "{value}"
"""The slot of something that is no argument of the call."""


class ErrorText(Record):
    """An error that a tool answers."""

    text: str
    """The call's arguments are `{argument}`; `{value}` is anything else that changes."""
    n: int


def templates_of(texts: Mapping[str, int]) -> list[ErrorText]:
    """Merge texts that differ in identifiers or numbers only; the most frequent come first.

    Args:
        texts: Text, with arguments as slots already, to how often it was answered.

    >>> templates_of({"no flight on 2024-05-01": 1, "no flight on 2024-05-02": 2, "too late": 1})
    [ErrorText(text='no flight on {value}', n=3), ErrorText(text='too late', n=1)]
    >>> templates_of({"at most 5 items": 4})
    [ErrorText(text='at most 5 items', n=4)]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        groups[generalized(text[:MAX_CHARACTERS])].append(text)
    counts: Counter[str] = Counter()
    for template, members in groups.items():
        counts[template if len(members) > 1 else members[0][:MAX_CHARACTERS]] += sum(
            texts[text] for text in members
        )
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [ErrorText(text=text, n=n) for text, n in common[:MAX_TEMPLATES]]


def generalized(text: str) -> str:
    """Replace every word that holds a digit by `{value}`.

    >>> generalized("Error: no seat 12A on HAT001, {date}.")
    'Error: no seat {value} on {value}, {date}.'
    """
    pieces = re.split(r"(\{\w{1,80}\})", text)
    return "".join(piece if place % 2 else _WORD.sub(_value, piece) for place, piece in enumerate(pieces))


_WORD = re.compile(r"#?\w[\w-]*(?:\.\d+)?")


def _value(match: re.Match[str]) -> str:
    return VALUE if any(character.isdigit() for character in match.group(0)) else match.group(0)
