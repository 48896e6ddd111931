"""Words of policies and of records: what asks for something, forms of each other, bounds of figures.

A bound (`at most 14 days`, `30 minutes or longer`, `under six`) says on which side the figure itself lies, or
leaves it open (`within`, `up to`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.environments.contract.answers import SAYS

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
_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    "twelve",
)
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80}
_NUMBERS = {word: n for n, word in enumerate(_WORDS)} | _TENS | {"ninety": 90, "hundred": 100}
_FIGURE = rf"(?:\d{{1,3}}(?:[, ]\d{{3}})+|\d+(?:\.\d+)?|{'|'.join(_NUMBERS)})"
_N = rf"(?P<n>{_FIGURE})"
_UNIT = r"(?P<unit>(?:[ -](?!or\b|and\b|if\b|is\b|are\b|to\b|of\b|in\b|on\b|for\b|when\b|ago\b)[a-z%]+)?)"
_LESS = (
    r"(?:less|fewer|younger|shorter|lighter|smaller|lower|cheaper|colder|cooler|earlier|sooner|newer|nearer|"
    r"thinner|narrower|slower)"
)
_MORE = (
    r"(?:more|longer|older|heavier|greater|larger|bigger|higher|warmer|hotter|dearer|later|farther|further|"
    r"taller|wider|faster|deeper|stronger|worse)"
)

_LATELY = r"in the (?:past|last)|during the (?:past|last)"


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


@dataclass(frozen=True)
class Bound:
    """One bound.

    Attributes:
        side: `least` or `most`; `only` for the figure itself; `better` where it hangs on what is counted.
        number: The figure.
        within: Whether the figure itself is inside; None where the words leave that open.
        unit: The word behind the figure, singular, where there is one.
        start: Where it stands in the text.
        end: Where it ends.
        words: How it is worded.
        also: Another figure that is allowed, where the words list two.
    """

    side: str
    number: float
    within: bool | None
    unit: str
    start: int
    end: int
    words: str
    also: float | None = None

    def holds(self, value: float) -> bool | None:
        """Tell whether a value keeps to it; None for the figure itself where the words leave it open."""
        if value == self.number:
            return self.within
        if self.side == "better":
            return None
        if self.side == "only":
            return value == self.also
        return value > self.number if self.side == "least" else value < self.number


_Side = tuple[str, bool | None]
_FORMS: tuple[tuple[re.Pattern[str], _Side], ...] = tuple(
    (re.compile(form.replace("N_", _N + _UNIT), re.IGNORECASE), side)
    for form, side in (
        (rf"\b(?:not|no) {_MORE} than N_", ("most", True)),
        (rf"\b(?:not|no) {_LESS} than N_", ("least", True)),
        (r"\bat (?:the )?least N_", ("least", True)),
        (r"\bat (?:the )?most N_", ("most", True)),
        (rf"\b{_MORE} than N_", ("least", False)),
        (rf"\b{_LESS} than N_", ("most", False)),
        (rf"\bN_ (?:or|and) (?:{_MORE}|over|above|upwards?)\b", ("least", True)),
        (rf"\bN_ (?:or|and) (?:{_LESS}|under|below)\b", ("most", True)),
        (r"\bN_ (?:or|and) better\b", ("better", True)),
        (rf"\b(?P<also>{_FIGURE}) or N_(?<!\d)", ("only", True)),
        (r"\b(?:aged |from )N_ (?:on|onwards|upwards?)\b", ("least", True)),
        (r"\b(?:above|exceeds|exceeding|in excess of) N_", ("least", False)),
        (r"\b(?:over) N_", ("least", False)),
        (r"\b(?:under|below) N_", ("most", False)),
        (rf"\b(?:within|up to|inside|{_LATELY}) (?:the (?:past|last) )?N_", ("most", None)),
    )
)


def number_of(text: str) -> float:
    """Return a figure, in digits or as a word.

    >>> number_of("1,500"), number_of("six"), number_of("0.2")
    (1500.0, 6.0, 0.2)
    """
    return float(_NUMBERS[text.lower()]) if text.lower() in _NUMBERS else float(re.sub(r"[, ]", "", text))


def bounds_in(text: str) -> list[Bound]:
    """Return the bounds of a text in order; where two forms read the same words, the first one counts.

    >>> [(b.side, b.number, b.within, b.unit) for b in bounds_in("at most 14 days ago, no more than 2 times")]
    [('most', 14.0, True, 'day'), ('most', 2.0, True, 'time')]
    >>> [(b.side, b.number, b.within) for b in bounds_in("30 minutes or longer, under six, within 3 days")]
    [('least', 30.0, True), ('most', 6.0, False), ('most', 3.0, None)]
    """
    found: list[Bound] = []
    for form, (side, within) in _FORMS:
        for one in form.finditer(text):
            if any(one.start() < other.end and other.start < one.end() for other in found):
                continue
            unit = one["unit"].strip(" -").lower()
            also = number_of(one["also"]) if "also" in form.groupindex else None
            found.append(
                Bound(side, number_of(one["n"]), within, singular(unit), one.start(), one.end(), one[0], also)
            )
    return sorted(found, key=lambda bound: bound.start)


def singular(word: str) -> str:
    """Return a noun without the ending of many.

    >>> singular("days"), singular("boxes"), singular("class"), singular("entries")
    ('day', 'box', 'class', 'entry')
    """
    rules: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("ies", lambda w: w[:-3] + "y"),
        ("xes", lambda w: w[:-2]),
        ("ss", lambda w: w),
        ("s", lambda w: w[:-1]),
    )
    return next((cut(word) for end, cut in rules if word.endswith(end) and len(word) > 3), word)
