"""What following a router gains or loses against an oracle, one adapter, no adapter and chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Evaluation, Route, RouterRegret
from trace_assets.statistics.paired import Ints, compare

Outcomes = dict[str, dict[str, tuple[int, int]]]
"""Choice -> task id -> (passed, judged) trials."""


def outcomes_by_choice(evaluations: Iterable[Evaluation], choices: Sequence[str]) -> Outcomes:
    """Sum the judged trials of the arms `base` and `adapter:<name>`.

    Args:
        evaluations: Rows of any arms.
        choices: Adapter names and `none`; arms of other adapters are ignored.
    """
    arms = {"base" if choice == NO_ADAPTER else f"adapter:{choice}": choice for choice in choices}
    outcomes: Outcomes = {choice: {} for choice in choices}
    for row in evaluations:
        if row.arm in arms and row.success is not None:
            tasks = outcomes[arms[row.arm]]
            passed, judged = tasks.get(row.task_id, (0, 0))
            tasks[row.task_id] = (passed + row.success, judged + 1)
    return outcomes


def regret(
    evaluations: Iterable[Evaluation],
    routes: Sequence[Route],
    oracle: Mapping[str, str],
    best_single: str,
    *,
    split: str = "test",
    resamples: int = 2000,
    seed: int = 0,
) -> list[RouterRegret]:
    """Compare a router's choices with four references on the same episodes.

    Args:
        evaluations: Must hold the arms `base` and `adapter:<name>` for every choice of the routes.
        routes: One router's decision on each task.
        oracle: Task id -> best choice, found on validation tasks (`trace_assets.evaluation.oracle`).
        best_single: The one choice that is best for all tasks together, found on validation tasks as well:
            the best of several arms on the test tasks themselves would flatter the reference.
        split: Split of the tasks, for the record.
        resamples: Bootstrap draws over tasks.
        seed: The same seed gives the same intervals.

    Returns:
        One row for each of `oracle`, `best_single`, `base` and `random`.

    Raises:
        InputError: A task has no oracle choice, or a choice was never evaluated.
    """
    if not routes:
        return []
    choices = sorted({name for route in routes for name in route.probabilities} | {NO_ADAPTER, best_single})
    outcomes = outcomes_by_choice(evaluations, choices)
    empty = [choice for choice in choices if not outcomes[choice]]
    if empty:
        raise InputError(
            f"no evaluation of choice '{empty[0]}' is there to compare with; evaluate the arms "
            f"{', '.join('base' if name == NO_ADAPTER else f'adapter:{name}' for name in empty)} first."
        )
    missing = [route.task_id for route in routes if route.task_id not in oracle]
    if missing:
        raise InputError(f"task '{missing[0]}' has no oracle choice ({len(missing)} tasks have none).")
    ordered = sorted(routes, key=lambda route: route.task_id)

    def counts(chosen: Sequence[Sequence[str]]) -> tuple[Ints, Ints]:
        pairs = [
            [outcomes[choice].get(route.task_id, (0, 0)) for choice in names]
            for route, names in zip(ordered, chosen, strict=True)
        ]
        sums = np.array([[sum(p for p, _ in row), sum(n for _, n in row)] for row in pairs], dtype=np.int64)
        return sums[:, 0], sums[:, 1]

    followed = counts([[route.choice] for route in ordered])
    Reference = Literal["oracle", "best_single", "base", "random"]
    references: dict[Reference, tuple[str, list[Sequence[str]]]] = {
        "oracle": ("", [[oracle[route.task_id]] for route in ordered]),
        "best_single": (best_single, [[best_single]] * len(ordered)),
        "base": (NO_ADAPTER, [[NO_ADAPTER]] * len(ordered)),
        "random": ("", [choices] * len(ordered)),
    }
    rows = []
    for reference, (choice, chosen) in references.items():
        found = compare(*counts(chosen), *followed, resamples=resamples, seed=seed)
        rows.append(
            RouterRegret(
                router=ordered[0].router,
                split=split,
                reference=reference,
                choice=choice,
                n_tasks=found.n_tasks,
                router_rate=found.base.value,
                reference_rate=found.arm.value,
                regret=found.delta.value,
                regret_low=found.delta.low,
                regret_high=found.delta.high,
            )
        )
    return rows
