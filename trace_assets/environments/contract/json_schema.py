"""JSON schemas from examples, as summaries that merge in any order.

A `Shape` is a summary of JSON values: adding values one by one, or merging the summaries of parts, gives the
same summary in whatever order and grouping that is done, so that a contract does not depend on how its
trajectories were stored. All that is kept is bounded: of many distinct strings the ones with the smallest
hashes stay (a bottom-k sketch, whose union is again one), objects with many different keys become maps.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

MAX_ENUM = 60
"""Strings with at most this many distinct values are described by their values."""
MAX_LENGTH = 200
"""Longer strings are never listed."""
MAX_PATTERNS = 6
"""Strings of at most so many builds are described by them, where they are too many to list."""
MAX_KEYS = 200
"""Objects with more different keys than this between them are maps from the start."""
FEW_KEYS = 8
"""With more keys than this, none of which half of the objects have, they are maps too."""
MAX_DEPTH = 24

FORMATS = {
    "date": re.compile(r"\d{4}-\d{2}-\d{2}"),
    "date-time": re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})"),
    "local-date-time": re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?(\.\d+)?"),
    "local-time": re.compile(r"\d{2}:\d{2}(:\d{2})?"),
    "email": re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"),
    "uri": re.compile(r"https?://\S+"),
}
"""Name to what every value of it looks like. Those that begin with `local-` are not JSON Schema's own, which
knows no time without a zone."""


@lru_cache(maxsize=65_536)
def _rank(text: str) -> tuple[bytes, str]:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), text


def smallest(texts: Iterable[str], size: int) -> frozenset[str]:
    """Return the texts with the smallest hashes: a sample that depends on nothing but the set of texts."""
    return frozenset(sorted(set(texts), key=_rank)[:size])


def build_of(text: str) -> str:
    r"""Return a regular expression for strings that are built alike: runs of capitals, letters, digits.

    >>> build_of("W-1234"), build_of("credit_card_77")
    ('[A-Z]+\\-\\d+', '[a-z]+_[a-z]+_\\d+')
    """

    def piece(match: re.Match[str]) -> str:
        run = match.group(0)
        if run[0].isdecimal():
            return r"\d+"
        return "[A-Z]+" if run[0].isupper() else "[a-z]+"

    parts, end = [], 0
    for match in re.finditer(r"[0-9]+|[A-Z]+|[a-z]+", text):
        parts += [re.escape(text[end : match.start()]), piece(match)]
        end = match.end()
    return "".join([*parts, re.escape(text[end:])])


@dataclass
class Shape:
    """What some JSON values have in common.

    Attributes:
        kinds: JSON type to the number of values of it.
        strings: A sketch of the distinct strings, one more than can be listed; empty from a long one on.
        long: A string was longer than `MAX_LENGTH`.
        formats: Formats that every string has; None before the first string.
        builds: How the strings are built; None when in too many ways.
        lengths: Least and greatest length of strings.
        numbers: Least and greatest finite number.
        finite: No NaN and no infinity was met, which JSON does not have and Python reads.
        sizes: Least and greatest length of arrays.
        items: The elements of all arrays.
        properties: Key to the values under it; empty once the objects are a map.
        places: Key to the sum of its places in the objects, which gives an order to the properties.
        values: The values of all objects, once they are a map.
        keys: A sketch of a map's keys.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    strings: frozenset[str] = frozenset()
    long: bool = False
    formats: frozenset[str] | None = None
    builds: frozenset[str] | None = frozenset()
    lengths: tuple[int, int] | None = None
    numbers: tuple[float, float] | None = None
    finite: bool = True
    sizes: tuple[int, int] | None = None
    items: Shape | None = None
    properties: dict[str, Shape] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    values: Shape | None = None
    keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, values: Iterable[Any]) -> Shape:
        """Summarize JSON values."""
        shape = cls()
        for value in values:
            shape.add(value)
        return shape

    @property
    def n(self) -> int:
        """How many values were seen."""
        return self.kinds.total()

    def add(self, value: Any, depth: int = 0) -> None:
        """Take one more value in."""
        kind = kind_of(value)
        self.kinds[kind] += 1
        if kind == "string":
            self._add_string(value)
        elif kind == "integer" or (kind == "number" and math.isfinite(value)):
            self.numbers = _span(self.numbers, (value, value))
        elif kind == "number":
            self.finite = False
        elif kind == "array":
            self.sizes = _span(self.sizes, (len(value), len(value)))
            if depth < MAX_DEPTH:
                self.items = self.items or Shape()
                for item in value:
                    self.items.add(item, depth + 1)
        elif kind == "object" and depth < MAX_DEPTH and self.values is not None:
            self.keys = smallest(self.keys | set(value), MAX_ENUM)
            for held in value.values():
                self.values.add(held, depth + 1)
        elif kind == "object" and depth < MAX_DEPTH:
            for place, (name, held) in enumerate(value.items()):
                self.places[name] += place
                self.properties.setdefault(name, Shape()).add(held, depth + 1)
            self._collapse()

    def merge(self, other: Shape) -> Shape:
        """Return the summary of what both have seen; neither is changed."""
        merged = Shape(
            kinds=self.kinds + other.kinds,
            long=self.long or other.long,
            formats=_both(self.formats, other.formats),
            builds=None if self.builds is None or other.builds is None else self.builds | other.builds,
            lengths=_span(self.lengths, other.lengths),
            numbers=_span(self.numbers, other.numbers),
            finite=self.finite and other.finite,
            sizes=_span(self.sizes, other.sizes),
            items=_merged(self.items, other.items),
            values=_merged(self.values, other.values),
            keys=smallest(self.keys | other.keys, MAX_ENUM),
        )
        merged.strings = frozenset() if merged.long else smallest(self.strings | other.strings, MAX_ENUM + 1)
        if merged.builds is not None and len(merged.builds) > MAX_PATTERNS:
            merged.builds = None
        for one in (self, other):
            for name, held in one.properties.items():
                merged.properties[name] = held.merge(merged.properties.get(name, Shape()))
                merged.places[name] += one.places[name]
        merged._collapse()
        return merged

    def _add_string(self, value: str) -> None:
        self.lengths = _span(self.lengths, (len(value), len(value)))
        if len(value) > MAX_LENGTH:
            self.long, self.strings = True, frozenset()
        elif not self.long and value not in self.strings:
            self.strings = smallest(self.strings | {value}, MAX_ENUM + 1)
        if len(value) > MAX_LENGTH:
            self.formats = frozenset()
        elif self.formats is None:
            self.formats = frozenset(name for name, regex in FORMATS.items() if regex.fullmatch(value))
        elif self.formats:
            self.formats = frozenset(name for name in self.formats if FORMATS[name].fullmatch(value))
        if self.builds is not None:
            self.builds = None if len(value) > MAX_LENGTH else self.builds | {build_of(value)}
            if self.builds is not None and len(self.builds) > MAX_PATTERNS:
                self.builds = None

    def _collapse(self) -> None:
        """Turn objects with too many different keys into a map, for good."""
        if self.values is None and len(self.properties) <= MAX_KEYS:
            return
        self.keys = smallest(self.keys | set(self.properties), MAX_ENUM)
        for held in self.properties.values():
            self.values = held.merge(self.values or Shape())
        self.properties, self.places = {}, Counter()

    def schema(self) -> dict[str, Any]:
        """Return a JSON schema that every value seen satisfies; `{}` when none was."""
        kinds = set(self.kinds)
        if "number" in kinds:
            kinds.discard("integer")
        if not kinds:
            return {}
        names = sorted(kinds)
        schema: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
        if "object" in kinds:
            schema |= self._object()
        if "array" in kinds and self.sizes is not None:
            schema |= {"minItems": self.sizes[0], "maxItems": self.sizes[1]}
            if self.items is not None and self.items.n:
                schema["items"] = self.items.schema()
        if "string" in kinds:
            schema |= self._string(kinds)
        if kinds & {"integer", "number"} and self.numbers is not None and self.finite:
            schema |= {"minimum": _plain(self.numbers[0]), "maximum": _plain(self.numbers[1])}
        return schema

    def _string(self, kinds: set[str]) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        listed = not self.long and len(self.strings) <= MAX_ENUM
        if listed and kinds <= {"string", "null"}:
            schema["enum"] = [*sorted(self.strings), *([None] if "null" in kinds else [])]
        elif self.strings:
            schema["examples"] = sorted(smallest(self.strings, MAX_ENUM))
        if self.formats:
            schema["format"] = min(self.formats)
        if not listed:
            if self.builds:
                schema["pattern"] = "^(?:" + "|".join(sorted(self.builds)) + ")$"
            if self.lengths is not None:
                schema |= {"minLength": self.lengths[0], "maxLength": self.lengths[1]}
        return schema

    def _object(self) -> dict[str, Any]:
        n = self.kinds["object"]
        if self.values is None and not self._is_map(n):
            names = sorted(self.properties, key=lambda k: (self.places[k] / self.properties[k].n, k))
            return {
                "properties": {name: self.properties[name].schema() for name in names},
                "required": [name for name in names if self.properties[name].n == n],
            }
        values = self.values or Shape()
        for held in self.properties.values():
            values = values.merge(held)
        keys = sorted(smallest(self.keys | set(self.properties), MAX_ENUM))
        return {"additionalProperties": values.schema(), "propertyNames": {"examples": keys}}

    def _is_map(self, n: int) -> bool:
        """Tell whether the keys are data, such as ids, rather than names of fields."""
        if not self.properties:
            return False
        most = max(held.n for held in self.properties.values())
        if len(self.properties) > FEW_KEYS and 2 * most < n:
            return True
        alike = len({tuple(sorted(held.kinds)) for held in self.properties.values()}) == 1
        digits = all(sum(c.isdigit() for c in name) >= 2 for name in self.properties)
        return digits and alike


def infer_schema(values: Sequence[Any]) -> dict[str, Any]:
    """Return a JSON schema that all the values satisfy, with `enum` for strings of few values.

    >>> infer_schema([{"n": 1}, {"n": 2, "s": "a"}])["required"]
    ['n']
    >>> infer_schema([None, "a"])
    {'type': ['null', 'string'], 'enum': ['a', None]}
    >>> infer_schema([{"card_11": {"last": 1}}, {"card_27": {"last": 2}}])["additionalProperties"]["required"]
    ['last']
    """
    return Shape.of(values).schema()


def kind_of(value: Any) -> str:
    """Return the JSON type of a value; integers have one of their own.

    >>> kind_of(True), kind_of(1), kind_of(1.0), kind_of(None)
    ('boolean', 'integer', 'number', 'null')
    """
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    for kind, python in (("integer", int), ("number", float), ("string", str), ("array", list | tuple)):
        if isinstance(value, python):
            return kind
    return "object"


def _span(one: tuple[Any, Any] | None, other: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _plain(number: float) -> float:
    """Write 1.0 as 1: which of the two was met first must not show."""
    return int(number) if number == int(number) else number


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _merged(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None:
        return one or other
    return one.merge(other)
