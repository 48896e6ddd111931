"""Whether one thing tells another, by permutation: features of words and of numbers, against classes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.environments.audit.decision_tree import Decided
from trace_assets.environments.contract.answers import written

Floats = NDArray[np.float64]

PERMUTATIONS = 1000
FOLDS = 5
LEAST = 2
"""A feature that fewer rows than this have, or lack, tells nothing of the next one."""
Row = dict[str, Hashable]
MOST_WORDS, MOST_SIGNS = 400, 12
NUMBER = re.compile(r"\d+")
MOST_NUMBERS, MIN_SPREAD = 6, 8
MANY_NAMES = 3
"""So many words are in both spellings where these go by seeds, and not by how two sentences are put."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_SENTENCE = re.compile(r"[.!?\n\"“]")
BY_SIZE = 0.7
"""Balanced share of decisions that a number's size tells, from which on the rule may well go by it."""


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


def told_by(rows: Sequence[Mapping[str, Hashable]], classes: Sequence[bool]) -> Told | None:
    """Say how well rows of features tell their classes; None where there is nothing to tell.

    The null is that classes are dealt to rows at random, and the statistic the best of all features: so many
    features do not make an accident of one of them (Westfall & Young 1993, "Resampling-based multiple
    testing"). Naive Bayes beside it sees what many features tell a little of each.

    Args:
        rows: Feature -> value; every value of a feature is a feature of two values.
        classes: Of the rows.

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
    rng = np.random.default_rng(0)
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


def spellings(texts: Sequence[str]) -> list[Row]:
    """Return of each text whether it writes names small, or large, that other texts write otherwise.

    The same word with and without a capital is the same wish. The first words of sentences are left out, and
    fewer than `MANY_NAMES` words in both spellings say nothing: another wish has another sentence.

    Args:
        texts: Requests.

    >>> towns = ["Rome", "Oslo", "Bonn"]
    >>> rows = spellings([f"Off to {one} now." for town in towns for one in (town, town.lower())])
    >>> rows[0], rows[1]
    ({'a name has its capital': True}, {'a name has no capital': True})
    >>> spellings(["Off to Rome now.", "Off to rome now."])
    [{}, {}]
    """
    within = [{word for one in _SENTENCE.split(text) for word in _WORD.findall(one)[1:]} for text in texts]
    all_words = set[str]().union(*within)
    both = {word for word in all_words if word.islower() and word.capitalize() in all_words}
    if len(both) < MANY_NAMES:
        return [{} for _ in texts]
    rows: list[Row] = []
    for words in within:
        row: Row = {"a name has no capital": True} if words & both else {}
        if words & {word.capitalize() for word in both}:
            row["a name has its capital"] = True
        rows.append(row)
    return rows


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


def numbers_in(one: Decided) -> dict[str, int]:
    """Return the numbers within the values of what was looked at, by place: a moment has several."""
    found: dict[str, int] = {}
    for path, value in leaves({tool: written(text) for tool, text in one.raw.items()}):
        if not isinstance(value, bool) and isinstance(value, str | int | float):
            numbers = NUMBER.findall(str(value))[:MOST_NUMBERS]
            found |= {f"{path}: number {place}": int(number[-15:]) for place, number in enumerate(numbers)}
    return found


def spread(numbers: Mapping[int, Mapping[str, int]], cases: Sequence[Decided]) -> list[str]:
    """Return the places of which either decision shows many numbers: there low digits say nothing by right.

    Where a rule goes by a number of few values, or by a date, its low digits go with the decision.
    """
    kinds: dict[str, list[int]] = defaultdict(list)
    for one in cases:
        kinds[one.kind].append(one.seed)
    common = set.intersection(*(set(numbers[one.seed]) for one in cases)) if cases else set()
    return sorted(
        place
        for place in common
        if all(is_spread([numbers[seed][place] for seed in seeds]) for seeds in kinds.values())
        if len(kinds) != 2
        or by_size(*([numbers[seed][place] for seed in seeds] for seeds in kinds.values())) < BY_SIZE
    )


def by_size(some: Sequence[int], others: Sequence[int]) -> float:
    """Return how well the size of a number tells two decisions apart, by the best limit.

    Where a rule goes by it, numbers stand near the limit, whose low digits then go with the decision too.

    >>> by_size([1, 2, 3, 9], [7, 8, 9, 10]), by_size([1, 3], [1, 3])
    (0.875, 0.5)
    """
    limits = sorted({*some, *others})
    below = [
        (sum(n <= at for n in some) / len(some), sum(n <= at for n in others) / len(others)) for at in limits
    ]
    return max(0.5 + abs(one - two) / 2 for one, two in below)


def is_spread(numbers: Sequence[int]) -> bool:
    """Whether numbers are many, and none stands for a large part: a limit is tried again and again."""
    counts = Counter(numbers)
    return len(counts) >= max(MIN_SPREAD, len(numbers) // 4) and max(counts.values()) <= len(numbers) // 4


def lowdigits(place: str, number: int) -> Row:
    """Return what the low digits of a number could tell.

    >>> lowdigits("n", 314)
    {'n % 2': 0, 'n % 3': 2, 'n sum % 2': 0}
    """
    return {
        f"{place} % 2": number % 2,
        f"{place} % 3": number % 3,
        f"{place} sum % 2": sum(map(int, str(number))) % 2,
    }
