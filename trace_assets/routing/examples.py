"""Training examples of a router: what the diagnosis says that each discovery task needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trace_assets.records import NO_ADAPTER, Label, Task, Triage
from trace_assets.routing.protocol import opening


class RoutingExample(NamedTuple):
    """A discovery task, the text it is routed by, and the choice that its labels call for."""

    task_id: str
    text: str
    choice: str


def routing_examples(
    tasks: Iterable[Task],
    labels: Iterable[Label],
    triage: Iterable[Triage],
    kept_capability_ids: Sequence[str],
    openings: Mapping[str, str] | None = None,
) -> list[RoutingExample]:
    """Turn labels of discovery trajectories into one example a task.

    A task needs a capability when at least half of its labels for it (over trials and labelling passes) are
    PRESENT or LACKING rather than NA. Of several needed ones the choice is the one LACKING in the largest
    share of the task's labels, then the one LACKING most where it is needed at all, then the first of
    `kept_capability_ids`. A task that needs none is an example of `none`.

    Outcomes are used in one way only: trajectories whose failure triage puts down to the user simulator, the
    environment or the infrastructure are left out, since they may have ended before anything was needed.
    Whether the agent passed does not enter: the choice follows need, not luck on two trials. The generator's
    tags are not read.

    Args:
        tasks: Any tasks; those outside the split `discovery` are ignored.
        labels: Labels of any trajectories and capabilities.
        triage: One row for each judged trajectory; tells which task it belongs to.
        kept_capability_ids: Capabilities that have an accepted adapter, the only choices beside `none`.
        openings: Task id -> first user message, for targets whose tasks do not carry it as instruction.

    Returns:
        Examples sorted by task id. Tasks without any usable trajectory give none.

    Raises:
        InputError: A task with usable trajectories has no text.
    """
    kept = list(dict.fromkeys(kept_capability_ids))
    discovery = {task.task_id: task for task in tasks if task.split == "discovery"}
    task_of = {
        row.trajectory_id: row.task_id
        for row in triage
        if row.task_id in discovery and row.fault in (None, "agent")
    }
    votes: Counter[tuple[str, str, str]] = Counter()
    lacking: Counter[str] = Counter()
    needed: Counter[str] = Counter()
    for label in labels:
        task_id = task_of.get(label.trajectory_id)
        if task_id is None or label.capability_id not in kept:
            continue
        votes[task_id, label.capability_id, label.label] += 1
        needed[label.capability_id] += label.label != "NA"
        lacking[label.capability_id] += label.label == "LACKING"

    def rank(task_id: str, capability: str) -> tuple[float, float, int] | None:
        count = {value: votes[task_id, capability, value] for value in ("NA", "PRESENT", "LACKING")}
        total, relevant = sum(count.values()), count["PRESENT"] + count["LACKING"]
        if not relevant or 2 * relevant < total:
            return None
        overall = lacking[capability] / needed[capability]
        return count["LACKING"] / total, overall, -kept.index(capability)

    examples = []
    for task_id in sorted(set(task_of.values())):
        ranked = {name: place for name in kept if (place := rank(task_id, name)) is not None}
        choice = max(ranked, key=lambda name: ranked[name]) if ranked else NO_ADAPTER
        text = (openings or {}).get(task_id) or opening(discovery[task_id])
        examples.append(RoutingExample(task_id, text, choice))
    return examples
