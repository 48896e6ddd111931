"""Duplicates: candidates that say one thing twice, and which of them stands for the others.

A model that reads in several passes, or beside detectors, names one lack in several ways. Detectors' own
findings are merged before they become candidates (`Pool.findings`); what a model names is known to be the
same only once all runs are labelled. Outcomes do not enter, so what is tested is known without them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.candidates import SAME_PLACE
from trace_assets.diagnosis.label_matrix import LACKING, NA, NO_EVIDENCE, LabelMatrix
from trace_assets.records import Capability
from trace_assets.stats.tests import at_least

ALIKE = 0.75
"""Share of the runs that either is relevant to, and of those that lack either, on which labels must agree:
one label of eight may be wrong on either side."""
NEAR = 0.75
"""Share of the runs that lack both where both show it by neighbouring messages."""
RARE = 0.01
"""Chance that any two of the candidates are lacking so much together, below which it is no chance."""
LIKE_WORDS = 0.2
"""Cosine of two candidates' rarer words from which they speak of one thing. Of proposals that a model put
together 9 of 9 pairs reach it (0.28 and more), of 64 other pairs none (0.11 at most)."""
_STEM = 6
_SAID_ANYWHERE = (
    "and are but before does each for from has have into its not only than that the them then there this "
    "those until when where which while who with without any every all agent user task tasks need needs lack "
    "lacks lacking exercise exercising capability"
)


def duplicates(matrix: LabelMatrix, capabilities: Sequence[Capability]) -> dict[str, str]:
    """Return of each candidate that another one stands for, by id, which one that is.

    Two are one where nearly the same runs lack and show them, far beyond chance, by neighbouring messages,
    and their words are alike. A broader one and its cases are two levels, not two names. Of several that are
    one that stands which more runs lack, then which more need, then a detector's, which is exact; what it is
    called decides only between equals.

    Args:
        matrix: Labels of one target.
        capabilities: Its candidates; others are ignored.
    """
    known = {one.capability_id: one for one in capabilities}
    names = [name for name in matrix.capabilities if name in known]
    place = {name: matrix.capabilities.index(name) for name in names}
    models = [name for name in names if known[name].detector is None]
    pairs = [
        (one, other)
        for one, other in combinations(names, 2)
        if known[one].detector is None or known[other].detector is None
    ]
    words = _weights([known[name] for name in names]) if models else {}
    same: dict[str, set[str]] = {name: set() for name in names}
    for one, other in pairs:
        if (
            not _related(one, other, known)
            and _are_one(matrix, place[one], place[other], len(pairs))
            and _like(words[one], words[other]) >= LIKE_WORDS
        ):
            same[one].add(other)
            same[other].add(one)

    def first(name: str) -> tuple[int, int, bool, str, str, bytes, bytes, str]:
        row, one = place[name], known[name]
        codes, shown = matrix.codes[row], matrix.evidence[row].tobytes()
        lacking, relevant = int((codes == LACKING).sum()), int((codes > NA).sum())
        model = one.detector is None
        return -lacking, -relevant, model, one.name, one.description, codes.tobytes(), shown, name

    standing: list[str] = []
    found: dict[str, str] = {}
    for name in sorted(names, key=first):
        others = [one for one in standing if one in same[name]]
        if others:
            found[name] = others[0]
        else:
            standing.append(name)
    return found


def _related(one: str, other: str, known: Mapping[str, Capability]) -> bool:
    """Tell whether one is a case of the other, over any number of levels."""
    for below, above in ((one, other), (other, one)):
        seen: set[str] = set()
        at: str | None = below
        while at is not None and at in known and at not in seen:
            seen.add(at)
            at = known[at].parent
            if at == above:
                return True
    return False


def _are_one(matrix: LabelMatrix, one: int, other: int, pairs: int) -> bool:
    """Tell whether nearly the same runs lack two rows and show them, at the same places, beyond chance."""
    first, second = matrix.codes[one], matrix.codes[other]
    lacking = first == LACKING, second == LACKING
    both = lacking[0] & lacking[1]
    shared, either = int(both.sum()), int((lacking[0] | lacking[1]).sum())
    relevant = (first > NA) | (second > NA)
    if not shared or shared < ALIKE * either:
        return False
    if (first[relevant] == second[relevant]).mean() < ALIKE:
        return False
    n = int(((first >= NA) & (second >= NA)).sum())
    many = int(lacking[0].sum()), int(lacking[1].sum())
    if at_least(shared, many[0], many[1] - shared, max(n - many[0], many[1] - shared)) * pairs > RARE:
        return False
    return _near(matrix.evidence[one, both], matrix.evidence[other, both])


def _near(one: NDArray[np.int32], other: NDArray[np.int32]) -> bool:
    """Tell whether places are neighbours; where neither has one, an absence shows it, which is nowhere."""
    shown = (one != NO_EVIDENCE) | (other != NO_EVIDENCE)
    if not shown.any():
        return False
    apart = np.abs(one[shown].astype(np.int64) - other[shown])
    return bool((apart <= SAME_PLACE).mean() >= NEAR)


def _stems(capability: Capability) -> frozenset[str]:
    common = _SAID_ANYWHERE.split()
    said = re.findall(r"[^\W\d_]{3,}", f"{capability.name} {capability.description}".lower())
    return frozenset(word[:_STEM] for word in said if word not in common)


def _weights(capabilities: Sequence[Capability]) -> dict[str, dict[str, float]]:
    """Return by id the words of each candidate with their weights: what fewer of them say weighs more."""
    stems = {one.capability_id: _stems(one) for one in capabilities}
    often = Counter(word for own in stems.values() for word in own)
    return {
        name: {word: log(1 + len(capabilities) / often[word]) for word in sorted(own)}
        for name, own in stems.items()
    }


def _like(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the cosine of two weighted sets of words.

    >>> round(_like({"a": 1.0, "b": 1.0}, {"b": 1.0}), 3), _like({}, {"b": 1.0})
    (0.707, 0.0)
    """
    shared = sum(weight * other[word] for word, weight in one.items() if word in other)
    sizes = [sum(weight**2 for weight in own.values()) for own in (one, other)]
    return shared / sqrt(sizes[0] * sizes[1]) if all(sizes) else 0.0


def said_twice(matrix: LabelMatrix, one: str, other: str, names: Mapping[str, str]) -> str:
    """Say of a candidate which other one stands for it, and by how many runs."""
    lacking = [matrix.codes[matrix.capabilities.index(name)] == LACKING for name in (one, other)]
    both, either = int((lacking[0] & lacking[1]).sum()), int((lacking[0] | lacking[1]).sum())
    return (
        f"said twice: '{names.get(other, other)}' stands for it: {both} of the {either} runs that lack "
        "either lack both, shown by neighbouring messages, and their words are alike"
    )
