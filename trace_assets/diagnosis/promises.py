"""Promises: what a candidate that is not kept still promises, and what would decide over it, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.label_matrix import LACKING, LabelMatrix
from trace_assets.diagnosis.thresholds import Alone, alone, fewest, is_promising
from trace_assets.records import Contrast
from trace_assets.settings import Selection

WITHIN = 0.8
"""Share of the failures of something narrow that lie among those of what is broader than it."""


def promise(
    row: Contrast, matrix: LabelMatrix, section: Selection
) -> tuple[Literal["promising", "seen once"], Alone | None] | None:
    """Say whether what fails on its own is promising, and by which policy's runs alone, or was seen once.

    Failures of one task are no two observations of each other.
    """
    wide = is_promising(row, section)
    by_one = None if wide else alone(matrix, row.capability_id, section)
    if not wide and by_one is None:
        return None
    return ("promising" if len(np.unique(matrix.tasks[_lacking(matrix, row)])) > 1 else "seen once", by_one)


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
    promising: Mapping[str, tuple[str, Alone | None]],
) -> Mapping[str, list[str]]:
    """Return of what is kept the promising ones that say more exactly what is lacking in its failures.

    Their failures lie among its own, and are fewer. That they are not kept is for want of successes that
    need them: an umbrella has those, as it is needed everywhere.
    """
    deciding = matrix.deciding & matrix.failed
    line = {name: deciding[place] for place, name in enumerate(matrix.capabilities)}
    few = [
        row.capability_id
        for row in own
        if promising.get(row.capability_id, ("",))[0] == "promising"
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
    words = "promising, and more exactly what some of these lack: " + quoted(narrower[:3], names)
    return f"{first}; {words}{mark}{rest}"


def quoted(capabilities: Sequence[str], names: Mapping[str, str]) -> str:
    """List capabilities by name."""
    return ", ".join(f"'{names.get(one, one)}'" for one in capabilities)


def what_decides(row: Contrast, section: Selection, more: int | None, trials: int | None) -> str:
    """Say what would decide over a promising candidate: tasks, trials, or neither."""
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
