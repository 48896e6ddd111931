"""Are lucky passes poor witnesses? What was read of passed runs, beside what is said of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.formats.reading import Imported
from tests.truth.readings import PassedReading
from tests.truth.scores import Share, share
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.diagnosis.expected.doubts import lucky_passes
from trace_assets.diagnosis.expected.facts import Facts
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.records import LuckyPass, Trajectory
from trace_assets.settings import Discovery

NONE = "none of these"


@dataclass(frozen=True)
class LuckScore:
    """One kind of lucky pass.

    Attributes:
        kind: Which; `NONE` stands for the passes that are called lucky in no way.
        n: Passed runs of it.
        runs: Of those that were read, the runs of which the reading says that something is lacking.
        labels: Of the readings' labels on them, those that say LACKING.
    """

    kind: str
    n: int
    runs: Share
    labels: Share


def found_lucky(imported: Imported) -> list[LuckyPass]:
    """Return the lucky passes as the asset `lucky_passes` finds them, target by target."""
    tasks = {task.task_id: task for task in imported.tasks}
    targets: dict[str, list[Trajectory]] = defaultdict(list)
    for one in imported.trajectories:
        targets[one.target].append(one)
    rows: list[LuckyPass] = []
    for runs in targets.values():
        facts = Facts(runs, tasks)
        corpus = DetectorAnalyst(Discovery(), policy=facts.policy.text).corpus(runs)
        rows += lucky_passes(facts, corpus, suspect_tasks(runs, tasks))
    return rows


def score_luck(
    passed: Iterable[str], lucky: Sequence[LuckyPass], readings: Sequence[PassedReading]
) -> list[LuckScore]:
    """Compare lucky passes, and the others, with what was read.

    Args:
        passed: Ids of all passed runs.
        lucky: What is said of some of them.
        readings: Labels that a person gave.
    """
    kinds: Mapping[str, set[str]] = defaultdict(set)
    for row in lucky:
        kinds[row.trajectory_id].add(row.kind)
    labels: Mapping[str, list[bool]] = defaultdict(list)
    for one in readings:
        if one.label in ("LACKING", "PRESENT"):
            labels[one.trajectory_id].append(one.label == "LACKING")
    runs: dict[str, list[str]] = defaultdict(list)
    for name in passed:
        for kind in kinds[name] or {NONE}:
            runs[kind].append(name)
    return [
        LuckScore(
            kind=kind,
            n=len(own),
            runs=share(any(labels[name]) for name in own if labels[name]),
            labels=share(lacks for name in own for lacks in labels[name]),
        )
        for kind, own in sorted(runs.items(), key=lambda item: (item[0] == NONE, item[0]))
    ]
