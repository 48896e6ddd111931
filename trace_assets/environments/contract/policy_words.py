"""Words of policies and of records: which of them ask for something, and which are forms of each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trace_assets.environments.contract.policy_bounds import singular
from trace_assets.environments.contract.written import SAYS

_WORD = re.compile(r"[a-z]+")
DENIES = re.compile(r"\b(?:not|no|never|without|nobody|none|neither|nothing|lacks?|lacking)\b|n't\b")
_PARTICLES = """
a an the this that these those it its they them their he she his her him who whom whose which what
of in on at by for to from with as and or if when where while once than then so be is are was were
been being am has have had do does did will would shall can could may might must should there here
any all some each every either both also still yet already only just else other others one ago long
old later day today date time says say said shown shows show stands stand marked holds hold held
carries carry brings bring bears bear gets get got goes go went come comes came lies lie lying lain
asked ask asks caused cause made make makes taken take takes put set used use not no never without
nobody none nothing neither whatever even more less most least same again yearly annual monthly
weekly daily average total whole full current present instead up out back down off over under into
onto about after before since until within during case person people somebody someone anybody anyone
standing amount number figure kept keep keeps left
"""
PARTICLES = frozenset(_PARTICLES.split())
"""Words that ask for nothing by themselves."""


def is_alike(word: str, name: str) -> bool:
    """Tell whether a word is a form of a name: `delivery` and `delivered`, `days` and `day`.

    >>> is_alike("delivery", "delivered"), is_alike("day", "date"), is_alike("used", "use")
    (True, False, True)
    """
    if word == name:
        return True
    stem = min(len(word), len(name))
    shared = next((n for n, (a, b) in enumerate(zip(word, name, strict=False)) if a != b), stem)
    return shared >= max(3, stem - 2) and shared >= 0.6 * max(len(word), len(name)) and shared >= 3


def known_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of some texts, singular."""
    return frozenset(singular(word) for text in texts for word in _WORD.findall(text.lower()))


def told_apart(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records with what lists of one entry hold, and which words sentences have or have not.

    >>> told_apart([{"a[].x": [3], "b.says[]": ["is broken"]}, {"a[].x": [4], "b.says[]": ["is sound"]}])
    [{'a[].x': 3, 'b~broken': True, 'b~sound': False}, {'a[].x': 4, 'b~broken': False, 'b~sound': True}]
    """
    single = {path for row in rows for path in row if "[]" in path and not path.endswith(f".{SAYS}[]")}
    single -= {path for row in rows for path in row if isinstance(row[path], list) and len(row[path]) != 1}
    found: list[dict[str, Any]] = []
    for row in rows:
        own: dict[str, Any] = {}
        for path, value in row.items():
            if path.endswith(f".{SAYS}[]") and isinstance(value, list):
                own |= _words_of(path.partition(".")[0], value)
            elif path.endswith("#"):
                continue
            else:
                own[path] = value[0] if path in single and isinstance(value, list) else value
        found.append(own)
    words = sorted({path for row in found for path in row if "~" in path})
    return [
        {path: value for path, value in row.items() if "~" not in path}
        | ({path: row.get(path, False) for path in words} if any("~" in path for path in row) else {})
        for row in found
    ]


def _words_of(tool: str, wordings: Sequence[Any]) -> dict[str, bool | None]:
    """Return the words of some sentences; of one that is denied it is not known what it says."""
    found: dict[str, bool | None] = {}
    for one in map(str, wordings):
        for word in _WORD.findall(one.lower()):
            if len(word) > 3 and word not in PARTICLES:
                path = f"{tool}~{word}"
                found[path] = None if DENIES.search(one.lower()) or found.get(path, True) is None else True
    return found


def frequent(text: str) -> frozenset[str]:
    """Return the words that stand in several sentences of a text: what all of it is about.

    >>> sorted(frequent("A child gets a card. A tall child gets two."))
    ['child', 'get']
    """
    counts = Counter(word for one in re.split(r"[.!?]\s|\n", text) for word in known_words([one]))
    return frozenset(word for word, n in counts.items() if n > 1 and len(word) > 2)
