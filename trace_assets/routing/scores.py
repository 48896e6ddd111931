"""What following a router gains or loses against an oracle, one adapter, no adapter and chance."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from trace_assets.errors import InputError
from trace_assets.records import (
    NO_ADAPTER,
    Evaluation,
    Label,
    Route,
    RouterRegret,
    RouterScore,
    RoutingTrial,
    Task,
    Triage,
)
from trace_assets.routing.router import UNNEEDED_COST, RoutingExample, members_of, opening, routing_examples
from trace_assets.stats.intervals import wilson
from trace_assets.stats.paired import Ints, compare
from trace_assets.stats.ranking import expected_calibration_error

Outcomes = dict[str, dict[str, tuple[int, int]]]
"""Choice -> task id -> (passed, judged) trials."""


def outcomes_by_choice(evaluations: Iterable[Evaluation], choices: Sequence[str]) -> Outcomes:
    """Sum the judged trials of the arms `base` and `adapter:<name>`, or `<name>` for one adapter for all.

    Args:
        evaluations: Rows of any arms.
        choices: Adapter names, sums of them and `none`; arms of others are ignored.
    """
    arms = {"base" if choice == NO_ADAPTER else f"adapter:{choice}": choice for choice in choices}
    arms |= {f"sum:{choice}": choice for choice in choices if len(members_of(choice)) > 1}
    arms |= {choice: choice for choice in choices if choice != NO_ADAPTER}
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
        oracle: Task id -> best choice, found on validation tasks (`trace_assets.evaluation.arms`).
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


# How good a router is: accuracy, calibration and confusion against a known right choice.


def score(routes: Iterable[Route], truth: Mapping[str, str], split: str = "test") -> RouterScore:
    """Score one router's routes against the choice that each task calls for.

    Args:
        routes: Routes of one router. Tasks without a known choice are left out of the count.
        truth: Task id -> choice.
        split: Where the tasks come from, such as `test` or `discovery (held out)`.

    Returns:
        The score; figures are null when no task is in both.

    Raises:
        ValueError: The routes are of several routers, or a task is routed twice.
    """
    every = list(routes)
    if len({route.router for route in every}) > 1:
        raise ValueError(f"routes of several routers: {sorted({route.router for route in every})}")
    if len({route.task_id for route in every}) < len(every):
        raise ValueError("a task is routed twice")
    known = [route for route in every if route.task_id in truth]
    n, right = len(known), [route.choice == truth[route.task_id] for route in known]
    low, high = wilson(sum(right), n)
    most = max(Counter(truth[route.task_id] for route in known).values(), default=0)
    confidence = [float(route.probabilities[route.choice]) for route in known]
    return RouterScore(
        router=every[0].router if every else "",
        split=split,
        n=n,
        accuracy=sum(right) / n if n else None,
        accuracy_low=low if n else None,
        accuracy_high=high if n else None,
        calibration_error=expected_calibration_error(confidence, right),
        majority_share=most / n if n else None,
    )


def confusion(routes: Iterable[Route], truth: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """Count choices by what the task called for.

    Args:
        routes: Routes of one router.
        truth: Task id -> choice.

    Returns:
        Called for -> chosen -> tasks; square, both in sorted order with `none` last, zeros included.

    >>> confusion([], {})
    {}
    """
    pairs = Counter((truth[route.task_id], route.choice) for route in routes if route.task_id in truth)
    names = sorted({name for pair in pairs for name in pair}, key=lambda name: (name == NO_ADAPTER, name))
    return {row: {column: pairs[row, column] for column in names} for row in names}


# What discovery trials lacked of what is taught: all that routers may know of the diagnosis.


def routing_trials(
    tasks: Iterable[Task], labels: Iterable[Label], triage: Iterable[Triage], taught: Collection[str]
) -> list[RoutingTrial]:
    """Gather what each discovery trial lacked.

    Args:
        tasks: Tasks of the live target; those outside the split `discovery` are ignored.
        labels: Labels of any trajectories and capabilities.
        triage: One row a judged trajectory; those whose failure is not the agent's are left out.
        taught: Capabilities that are taught; labels of others are left out.

    Returns:
        One row a usable trial, sorted by trajectory id.
    """
    discovery = {task.task_id: task for task in tasks if task.split == "discovery"}
    task_of = {
        row.trajectory_id: row.task_id
        for row in triage
        if row.task_id in discovery and row.fault in (None, "agent")
    }
    lacking: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for label in labels:
        if label.trajectory_id in task_of and label.capability_id in taught:
            found = lacking[label.trajectory_id].setdefault(str(label.labelling_pass), [])
            if label.label == "LACKING":
                found.append(label.capability_id)
    return [
        RoutingTrial(
            trajectory_id=name,
            task_id=task_id,
            text=opening(discovery[task_id]),
            lacking={number: sorted(found) for number, found in sorted(lacking[name].items())},
        )
        for name, task_id in sorted(task_of.items())
    ]


def examples_of_trials(
    trials: Iterable[RoutingTrial], choices: Sequence[str], unneeded_cost: float = UNNEEDED_COST
) -> list[RoutingExample]:
    """Return the training examples of a router; see `routing_examples`.

    Args:
        trials: What was lacked.
        choices: Capabilities whose adapter a task may be sent to.
        unneeded_cost: In (0, 1].
    """
    tasks: dict[str, Task] = {}
    triage: list[Triage] = []
    labels: list[Label] = []
    for row in trials:
        tasks[row.task_id] = Task(task_id=row.task_id, target="", task_batch="", instruction=row.text)
        triage.append(
            Triage(
                trajectory_id=row.trajectory_id,
                target="",
                task_id=row.task_id,
                outcome="failed",
                fault="agent",
                rule="",
            )
        )
        labels += [
            Label(
                trajectory_id=row.trajectory_id,
                capability_id=choice,
                labelling_pass=int(number),
                labeller="",
                label="LACKING" if choice in found else "PRESENT",
            )
            for number, found in row.lacking.items()
            for choice in choices
        ]
    return routing_examples(tasks.values(), labels, triage, choices, None, unneeded_cost)
