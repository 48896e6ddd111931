"""Promises: what a candidate that is not kept still promises, and what would decide over it, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.chance import Null, standard_score
from trace_assets.diagnosis.label_matrix import LACKING, LabelMatrix
from trace_assets.diagnosis.thresholds import Alone, alone, fewest, is_evident, is_promising
from trace_assets.records import Contrast
from trace_assets.settings import Selection

WITHIN = 0.8
"""Share of the failures of something narrow that lie among those of what is broader than it."""


MOST_CHANCE = 0.10
"""Share of studies with shuffled outcomes in which something as strong as what is promising may be found."""


@dataclass(frozen=True)
class Promise:
    """What is said of a candidate that shows the gap and the coverage that are asked for, and is not kept.

    Attributes:
        verdict: `promising`: it is evidence by itself, and chance shows as much in few studies. `undecided`:
            chance shows as much. `seen once`: the failures of one task alone lack it, which are no two
            observations of each other.
        by_one: The figures of the policy whose runs alone show it.
        chance: In which share of studies with shuffled outcomes something as strong is found, where known.
    """

    verdict: Literal["promising", "undecided", "seen once"]
    by_one: Alone | None = None
    chance: float | None = None


def promise(
    row: Contrast, matrix: LabelMatrix, section: Selection, by_chance: Null | None = None
) -> Promise | None:
    """Say what a candidate that fails on its own promises; None: its figures are not what is asked for.

    Args:
        row: Its figures.
        matrix: Labels beside outcomes.
        section: Thresholds.
        by_chance: What shuffled outcomes come to, where known.
    """
    wide = is_promising(row, section)
    by_one = None if wide else alone(matrix, row.capability_id, section)
    if not wide and by_one is None:
        return None
    if len(np.unique(matrix.tasks[_lacking(matrix, row)])) < 2:
        return Promise("seen once", by_one)
    if by_one is not None:  # held against chance by itself
        return Promise("promising", by_one)
    chance = None
    if by_chance is not None:
        chance = by_chance.share_as_strong(standard_score(matrix, row.capability_id))
    clear = is_evident(row) and (chance is None or chance <= MOST_CHANCE)
    return Promise("promising" if clear else "undecided", None, chance)


def chance_words(row: Contrast, found: Promise) -> str:
    """Say how easily chance shows as much as an undecided candidate."""
    if found.chance is not None and found.chance > MOST_CHANCE:
        return (
            f"with outcomes shuffled something as clear is found in {100 * found.chance:.0f} % of studies, "
            f"{100 * MOST_CHANCE:g} % at most is promising"
        )
    return f"chance shows so wide a gap in {100 * (row.p_value or 1.0):.0f} of 100 cases"


def _lacking(matrix: LabelMatrix, row: Contrast) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = matrix.codes[matrix.capabilities.index(row.capability_id)] == LACKING
    return found & matrix.failed


def seen_once(matrix: LabelMatrix, row: Contrast) -> str:
    """Say how many failures of one task lack it."""
    n = int(_lacking(matrix, row).sum())
    return "one failure lacks it" if n == 1 else f"{n} failures lack it, all of one task"


def possibly_decided(matrix: LabelMatrix, row: Contrast) -> str:
    """Say how many of the failures that lack it something may have decided, where these are fewer."""
    lacking = _lacking(matrix, row)
    n = int((lacking & matrix.deciding[matrix.capabilities.index(row.capability_id)]).sum())
    return (
        ""
        if n == lacking.sum()
        else f"it may have decided {n} of the {lacking.sum()} failures that lack it; "
    )


def narrower_ones(
    own: Sequence[Contrast],
    matrix: LabelMatrix,
    section: Selection,
    kept: Sequence[str],
    promises: Mapping[str, Promise],
) -> Mapping[str, list[str]]:
    """Return of what is kept the ones that say more exactly what is lacking in its failures.

    Their failures lie among its own, and are fewer. That they are not kept is for want of successes that
    need them: an umbrella has those, as it is needed everywhere.
    """
    deciding = matrix.deciding & matrix.failed
    line = {name: deciding[place] for place, name in enumerate(matrix.capabilities)}
    few = [
        row.capability_id
        for row in own
        if row.capability_id in promises
        and promises[row.capability_id].verdict != "seen once"
        and row.n_passed_relevant < section.min_relevant
    ]
    found: dict[str, list[str]] = {}
    for broad in kept:
        within = [
            (int(line[name].sum()), name)
            for name in few
            if line[name].sum() < line[broad].sum()
            and (line[name] & line[broad]).sum() >= WITHIN * line[name].sum()
        ]
        found[broad] = [name for _, name in sorted(within, key=lambda one: (-one[0], one[1]))]
    return found


def with_narrower(reason: str, narrower: Sequence[str], names: Mapping[str, str]) -> str:
    """Put behind the first grounds for keeping something what says more exactly what to teach."""
    if not narrower:
        return reason
    first, mark, rest = reason.partition("; ")
    words = "too few successes need what says more exactly what some of these lack: "
    words += quoted(narrower[:3], names)
    return f"{first}; {words}{mark}{rest}"


def quoted(capabilities: Sequence[str], names: Mapping[str, str]) -> str:
    """List capabilities by name."""
    return ", ".join(f"'{names.get(one, one)}'" for one in capabilities)


def what_decides(row: Contrast, section: Selection, more: int | None, trials: int | None) -> str:
    """Say what would decide over a candidate that shows gap and coverage: tasks, trials, or neither."""
    if row.n_passed_relevant < fewest(section):
        return (
            f"only {row.n_passed_relevant} of {row.n_passed} successes need it, so more tasks like these "
            "hardly decide: successes in tasks that need it would, or failed runs that pass once it is "
            "repaired"
        )
    much = "more tasks like these" if more is None else f"about {more} more tasks like these"
    if trials is not None:
        much += f", or about {trials} more trial{'s' * (trials > 1)} of each of these tasks,"
    return f"{much} would decide"
