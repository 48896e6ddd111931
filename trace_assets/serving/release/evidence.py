"""What the tables say about one adapter: the facts behind its card."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trace_assets.records import (
    Adapter,
    ArmSummary,
    Capability,
    Contrast,
    Environment,
    EnvironmentCheck,
    Label,
    NoHarm,
    Triage,
)


@dataclass(frozen=True)
class Labelled:
    """How a capability was labelled.

    Attributes:
        labellers: Who labelled.
        counts: Outcome -> label -> trajectories; a trajectory whose passes differ counts as `mixed`.
        n: Trajectories with a label.
        n_tasks: Their tasks.
    """

    labellers: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]
    n: int
    n_tasks: int


@dataclass(frozen=True)
class Evidence:
    """All that a card shows.

    Attributes:
        adapter: Its record.
        served_as: Its name on the server.
        capability: What it teaches.
        environment: Where it was trained; None on the target itself.
        checks: The environment's audit.
        harm: What it does to other skills; None where it was not validated.
        tested: Its own arm on the test tasks, all and by skill; empty where the test split was not opened.
        contrast: Why it was taught; None where it was not diagnosed here.
        labelled: What the diagnosis rests on.
    """

    adapter: Adapter
    served_as: str
    capability: Capability
    environment: Environment | None
    checks: Sequence[EnvironmentCheck]
    harm: NoHarm | None
    tested: Sequence[ArmSummary]
    contrast: Contrast | None
    labelled: Labelled


def count_labels(capability_id: str, labels: Iterable[Label], triage: Iterable[Triage]) -> Labelled:
    """Count the trajectories behind a capability.

    Args:
        capability_id: Whose labels count.
        labels: Labels of any capability.
        triage: Gives outcome and task of a trajectory; a label without one counts as `unjudged`.
    """
    judged = {row.trajectory_id: row for row in triage}
    values: dict[str, set[str]] = defaultdict(set)
    labellers = set()
    for label in labels:
        if label.capability_id == capability_id:
            values[label.trajectory_id].add(label.label)
            labellers.add(label.labeller)
    counts: dict[str, Counter[str]] = {}
    for name, found in values.items():
        outcome = judged[name].outcome if name in judged else "unjudged"
        counts.setdefault(outcome, Counter())["mixed" if len(found) > 1 else next(iter(found))] += 1
    return Labelled(
        labellers=tuple(sorted(labellers)),
        counts={outcome: dict(sorted(row.items())) for outcome, row in sorted(counts.items())},
        n=len(values),
        n_tasks=len({judged[name].task_id for name in values if name in judged}),
    )
