"""Which way to put the adapters together is released: validation tasks decide, and say by how much.

The test split takes no part: what is chosen here is only confirmed there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trace_assets.evaluation.arms import (
    BASE,
    COMPOSED,
    CONSOLIDATED,
    JOINT,
    ROUTED,
    SEQUENTIAL,
    SUM,
    TOGETHER,
)
from trace_assets.records import CompositionChoice, Evaluation
from trace_assets.stats.paired import compare, pass_rate

CANDIDATES = (BASE, ROUTED, TOGETHER, JOINT, SEQUENTIAL, CONSOLIDATED, SUM, COMPOSED)
"""The simplest first: among equals it is chosen. Oracles and GRPO on the target itself are no candidates."""

Ints = NDArray[np.int64]


class Counts(NamedTuple):
    """Passed and judged trials, by task."""

    passed: Ints
    judged: Ints


def choose(
    validation: Sequence[Evaluation],
    refused: Mapping[str, str],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> list[CompositionChoice]:
    """Compare the candidates on validation tasks, and choose the one with the highest pass rate.

    Args:
        validation: Rows of the candidates' arms on the same validation tasks.
        refused: Candidate to why it may not be chosen, such as opposed gradients.
        resamples: Bootstrap draws over tasks.
        seed: The same seed gives the same intervals.

    Returns:
        A row a candidate that was played or refused, in the order of `CANDIDATES`; one of those that were
        played and not refused is chosen. None where no base model was played.
    """
    arms = [arm for arm in CANDIDATES if any(row.arm == arm for row in validation)]
    tasks = sorted({row.task_id for row in validation})
    counts = {arm: _counts(validation, arm, tasks) for arm in arms}
    open_to_choice = [arm for arm in arms if arm not in refused and counts[arm].judged.any()]
    if not open_to_choice:
        return []
    rates = {arm: _mean(counts[arm]) for arm in open_to_choice}
    chosen = max(open_to_choice, key=lambda arm: (rates[arm], -CANDIDATES.index(arm)))
    others = [arm for arm in open_to_choice if arm != chosen]
    second = max(others, key=lambda arm: (rates[arm], -CANDIDATES.index(arm))) if others else ""
    rows = []
    for arm in CANDIDATES:
        if arm not in counts and arm not in refused:
            continue
        own = counts.get(arm, Counts(np.zeros(len(tasks), np.int64), np.zeros(len(tasks), np.int64)))
        rate = pass_rate(own.passed, own.judged, resamples=resamples, seed=seed)
        less = compare(*counts[chosen], *own, resamples=resamples, seed=seed).delta if arm != chosen else None
        rows.append(
            CompositionChoice(
                arm=arm,
                chosen=arm == chosen,
                runner_up=arm == second,
                refused=refused.get(arm, ""),
                n_tasks=int((own.judged > 0).sum()),
                n_trials=int(own.judged.sum()),
                pass_rate=rate.value,
                pass_rate_low=rate.low,
                pass_rate_high=rate.high,
                behind=less.value if less else None,
                behind_low=less.low if less else None,
                behind_high=less.high if less else None,
            )
        )
    return rows


def _counts(rows: Sequence[Evaluation], arm: str, tasks: Sequence[str]) -> Counts:
    place = {task: index for index, task in enumerate(tasks)}
    found = np.zeros((2, len(tasks)), dtype=np.int64)
    for row in rows:
        if row.arm == arm and row.success is not None:
            found[:, place[row.task_id]] += (int(row.success), 1)
    return Counts(found[0], found[1])


def _mean(counts: Counts) -> float:
    seen = counts.judged > 0
    return float(np.mean(counts.passed[seen] / counts.judged[seen]))


def chosen_arm(rows: Sequence[CompositionChoice]) -> str:
    """Return what validation chose; `routed` where nothing was compared."""
    return next((row.arm for row in rows if row.chosen), ROUTED)


def sentence(rows: Sequence[CompositionChoice]) -> str:
    """Say what was chosen, by how much, and what was refused."""
    best = next((row for row in rows if row.chosen), None)
    if best is None:
        return "no candidate was played on validation tasks, so nothing is chosen beyond routing."
    rate = _percent(best.pass_rate, best.pass_rate_low, best.pass_rate_high)
    said = f"validation chooses '{best.arm}': {rate} of {best.n_tasks} tasks"
    for row in rows:
        if row.arm == ROUTED != best.arm or row.runner_up:
            said += f", {_points(row)} points over '{row.arm}'"
    refused = "; ".join(f"'{row.arm}' is refused: {row.refused}" for row in rows if row.refused)
    return f"{said}. {refused}".strip() if refused else f"{said}."


def clear(rows: Sequence[CompositionChoice]) -> bool | None:
    """Whether the chosen one is shown to pass more than the next; None with one candidate alone."""
    low = [row.behind_low for row in rows if row.runner_up]
    return low[0] > 0 if low and low[0] is not None else None


def _percent(value: float | None, low: float | None, high: float | None) -> str:
    bounds = f" [{100 * low:.1f}, {100 * high:.1f}]" if low is not None and high is not None else ""
    return f"{100 * (value or 0):.1f} %{bounds}"


def _points(row: CompositionChoice) -> str:
    if row.behind is None:
        return "unknown"
    bounds = (
        f" [{100 * row.behind_low:+.1f}, {100 * row.behind_high:+.1f}]"
        if row.behind_low is not None and row.behind_high is not None
        else ""
    )
    return f"{100 * row.behind:+.1f}{bounds}"
