"""Whether one thing tells another: features against classes, by permutation."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PERMUTATIONS = 1000
FOLDS = 5
LEAST = 2
"""A feature that fewer rows than this have, or lack, tells nothing of the next one."""


@dataclass(frozen=True)
class Told:
    """How well features tell a class of two.

    Attributes:
        accuracy: Balanced, of the better of two classifiers: the best single feature, and naive Bayes on all
            of them out of fold.
        p: Chance of as much where classes are dealt anew: of the better of the two, twice the smaller p.
        feature: The best single feature.
        n: Rows.
    """

    accuracy: float
    p: float
    feature: str
    n: int


def told_by(rows: Sequence[Mapping[str, Hashable]], classes: Sequence[bool], seed: int = 0) -> Told | None:
    """Say how well rows of features tell their classes; None where there is nothing to tell.

    The null is that classes are dealt to rows at random, and the statistic the best of all features: so many
    features do not make an accident of one of them (Westfall & Young 1993, "Resampling-based multiple
    testing"). Naive Bayes beside it sees what many features tell a little of each.

    Args:
        rows: Feature -> value; every value of a feature is a feature of two values.
        classes: Of the rows.
        seed: Of the permutations.

    >>> rows = [{"word": "late" if n % 2 else "early", "size": n // 2 % 3} for n in range(24)]
    >>> told = told_by(rows, [n % 2 == 1 for n in range(24)])
    >>> told.accuracy, told.p < 0.01, told.feature
    (1.0, True, 'word = early')
    >>> told_by(rows, [n % 4 < 2 for n in range(24)]).p > 0.05
    True
    """
    y = np.asarray(classes, dtype=float)
    names, x = _matrix(rows)
    if not names or min(y.sum(), len(y) - y.sum()) < LEAST:
        return None
    rng = np.random.default_rng(seed)
    dealt = np.stack([y, *(rng.permutation(y) for _ in range(PERMUTATIONS))])
    single = _balanced(dealt @ x, x.sum(axis=0), y.sum(), len(y))
    best = single.max(axis=1)
    bayes = _bayes(x, dealt, rng.permutation(len(y)) % FOLDS)
    p = min(1.0, 2 * min(float(np.mean(best >= best[0] - 1e-12)), float(np.mean(bayes >= bayes[0] - 1e-12))))
    return Told(float(max(best[0], bayes[0])), p, names[int(single[0].argmax())], len(y))


def _matrix(rows: Sequence[Mapping[str, Hashable]]) -> tuple[list[str], Floats]:
    counts: dict[tuple[str, Hashable], list[int]] = {}
    for number, row in enumerate(rows):
        for name, value in row.items():
            counts.setdefault((name, value), []).append(number)
    columns: dict[tuple[int, ...], str] = {}
    for (name, value), held in sorted(counts.items(), key=lambda item: (item[0][0], repr(item[0][1]))):
        if LEAST <= len(held) <= len(rows) - LEAST:
            columns.setdefault(tuple(held), name if value is True else f"{name} = {value}")
    x = np.zeros((len(rows), len(columns)))
    for column, where in enumerate(columns):
        x[list(where), column] = 1.0
    return list(columns.values()), x


def _balanced(both: Floats, held: Floats, ones: float, n: int) -> Floats:
    """Return the balanced accuracy of every feature for every deal; a feature may speak for either class."""
    right = (both / ones + 1 - (held - both) / (n - ones)) / 2
    return np.asarray(np.maximum(right, 1 - right))


def _bayes(x: Floats, dealt: Floats, folds: NDArray[np.int64]) -> Floats:
    """Return the balanced accuracy of naive Bayes out of fold for every deal."""
    right = np.zeros((2, len(dealt)))
    for fold in range(FOLDS):
        held, kept = folds == fold, folds != fold
        y, z = dealt[:, kept], 1 - dealt[:, kept]
        ones, zeros = y.sum(axis=1, keepdims=True), z.sum(axis=1, keepdims=True)
        yes, no = (y @ x[kept] + 0.5) / (ones + 1), (z @ x[kept] + 0.5) / (zeros + 1)
        weights = np.log(yes / no) - np.log((1 - yes) / (1 - no))
        base = np.log((1 - yes) / (1 - no)).sum(axis=1, keepdims=True)
        said = weights @ x[held].T + base > 0
        right[0] += (said & (dealt[:, held] == 1)).sum(axis=1)
        right[1] += (~said & (dealt[:, held] == 0)).sum(axis=1)
    total = dealt.sum(axis=1)
    return np.asarray((right[0] / total + right[1] / (dealt.shape[1] - total)) / 2)
