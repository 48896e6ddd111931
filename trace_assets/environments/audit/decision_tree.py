"""A small decision tree: by which fields of a record an oracle, or a real agent, decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.detectors.values import time_of

MAX_DEPTH, MIN_LEAF, MIN_GAIN = 4, 2, 0.02
MOST_VALUES, MOST_CUTS, FOLDS, DEALS = 12, 24, 5, 39
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """One question about a record.

    Attributes:
        value: That the field equals or, where it is a list, holds; or the limit that it stays below.
        limit: Whether it is a limit.
    """

    field: str
    value: Any
    limit: bool = False

    def holds(self, row: Row) -> bool | None:
        """Answer it; None where the record does not show the field."""
        held = row.get(self.field)
        if held is None and self.field not in row:
            return None
        if self.limit:
            return isinstance(held, int | float) and not isinstance(held, bool) and held <= self.value
        return self.value in held if isinstance(held, list) else same(held, self.value)

    def __str__(self) -> str:
        return f"{self.field} {'<=' if self.limit else '='} {self.value}"


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are one; True is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@dataclass(frozen=True)
class Tree:
    """A tree: a leaf with its usual class, or a test and two trees."""

    usual: Hashable
    test: Question | None = None
    yes: Tree | None = None
    no: Tree | None = None

    def leaf(self, row: Row, way: str = "") -> tuple[str, Hashable] | None:
        """Return the way to a record's leaf, and what is usual there; None where a field is missing."""
        if self.test is None or self.yes is None or self.no is None:
            return way, self.usual
        answer = self.test.holds(row)
        if answer is None:
            return None
        here = f"{self.test}" if answer else f"not {self.test}"
        return (self.yes if answer else self.no).leaf(row, f"{way} and {here}" if way else here)


def grow(
    rows: Sequence[Row], classes: Sequence[Hashable], depth: int = MAX_DEPTH, least: int = MIN_LEAF
) -> Tree:
    """Grow a tree, always splitting where the Gini impurity falls most (Breiman et al. 1984, "CART").

    >>> tree = grow([{"cabin": c, "insured": i} for c in "be" for i in ("yes", "no")] * 2, [1, 1, 1, 0] * 2)
    >>> tree.leaf({"cabin": "e", "insured": "no"})
    ('not cabin = b and insured = no', 0)
    """
    return _Asked.of(rows).grow(np.arange(len(rows)), classes, depth, least)


@dataclass(frozen=True)
class _Asked:
    """Questions about records, and all their answers: shape `(rows, questions)`."""

    questions: Sequence[Question]
    answers: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> _Asked:
        asked = sorted(questions(rows), key=str)
        answers = [[one.holds(row) is True for one in asked] for row in rows]
        return cls(asked, np.array(answers, dtype=bool).reshape(len(rows), len(asked)))

    def grow(
        self, kept: NDArray[np.int64], classes: Sequence[Hashable], depth: int, least: int = MIN_LEAF
    ) -> Tree:
        """Grow a tree from some of the rows."""
        counts = Counter(classes[n] for n in kept)
        usual = min(counts, key=lambda one: (-counts[one], repr(one)))
        if depth == 0 or len(counts) == 1 or not self.questions:
            return Tree(usual)
        own = np.array([[classes[n] == one for one in counts] for n in kept], dtype=float)
        yes = self.answers[kept].astype(float).T @ own
        after, sizes = np.zeros(len(self.questions)), []
        for side in (yes, own.sum(axis=0) - yes):
            sizes.append(side.sum(axis=1))
            after += sizes[-1] - (side**2).sum(axis=1) / np.maximum(sizes[-1], 1)
        after = np.where(np.minimum(*sizes) < least, np.inf, np.round(after, 9))
        best = int(np.argmin(after))
        before = len(kept) - sum(n * n for n in counts.values()) / len(kept)
        if not before - after[best] >= MIN_GAIN * len(kept):
            return Tree(usual)
        held = self.answers[kept, best]
        sides = (self.grow(kept[side], classes, depth - 1, least) for side in (held, ~held))
        return Tree(usual, self.questions[best], *sides)


def questions(rows: Sequence[Row]) -> Iterator[Question]:
    """Yield what can be asked of some records: limits of numbers, and values where there are few."""
    for field in sorted({name for row in rows for name in row}):
        held = [row[field] for row in rows if field in row]
        numbers = sorted({v for v in held if isinstance(v, int | float) and not isinstance(v, bool)})
        cuts = [(a + b) / 2 for a, b in pairwise(numbers)]
        for cut in cuts[:: max(1, math.ceil(len(cuts) / MOST_CUTS))]:
            yield Question(field, cut, limit=True)
        values: dict[str, Any] = {}
        for one in held:
            for value in one if isinstance(one, list) else (one,):
                if value is None or isinstance(value, str | bool):
                    values[repr(value)] = value
        if len(values) <= MOST_VALUES:
            yield from (Question(field, value) for _, value in sorted(values.items()))


def foretold(rows: Sequence[Row], classes: Sequence[Hashable]) -> float:
    """Return the share of rows whose class trees tell that have not seen them, each grown on four fifths."""
    return _foretold(_Asked.of(rows), rows, classes)


def beats_chance(rows: Sequence[Row], classes: Sequence[Hashable]) -> float | None:
    """Return the share of classes that trees foretell, None where chance or the usual class does as well."""
    asked, rng = _Asked.of(rows), np.random.default_rng(0)
    right = _foretold(asked, rows, classes)
    dealt = [
        _foretold(asked, rows, [classes[i] for i in rng.permutation(len(classes))]) for _ in range(DEALS)
    ]
    usual = Counter(classes).most_common(1)[0][1] / len(classes)
    return right if right > max(*dealt, usual) else None


def _foretold(asked: _Asked, rows: Sequence[Row], classes: Sequence[Hashable]) -> float:
    right, places = 0, np.arange(len(rows))
    for fold in range(FOLDS):
        learn = places[places % FOLDS != fold]
        if not len(learn):
            continue
        tree = asked.grow(learn, classes, MAX_DEPTH)
        for n in places[places % FOLDS == fold].tolist():
            leaf = tree.leaf(rows[n])
            right += (leaf[1] if leaf else tree.usual) == classes[n]
    return right / len(rows) if rows else 0.0


def with_ages(row: Row, now: datetime | None) -> dict[str, Any]:
    """Return a record with hours before now for every moment it shows; of a list of moments, for the latest.

    >>> with_ages({"get.made": "2024-05-15T13:00:00"}, datetime(2024, 5, 15, 15))
    {'get.made ~ hours ago': 2.0}
    """
    found: dict[str, Any] = {}
    for field, value in row.items():
        listed = [time_of(one) for one in value] if isinstance(value, list) else []
        known = [one for one in listed if one is not None]
        moment = max(known) if known and len(known) == len(listed) else time_of(value)
        if moment is None:
            found[field] = value
        elif now is not None:
            found[f"{field} ~ hours ago"] = (now - moment).total_seconds() / 3600
    return found
