"""What discovery trials lacked of what is taught: all that routers may know of the diagnosis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from trace_assets.records import Label, RoutingTrial, Task, Triage
from trace_assets.routing.examples import UNNEEDED_COST, RoutingExample, routing_examples
from trace_assets.routing.protocol import opening


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
