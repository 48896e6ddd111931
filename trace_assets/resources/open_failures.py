"""Failures that no candidate explains: which there are, and which of them are to be read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_assets.errors import InputError
from trace_assets.records import Capability, FurtherReading, Label, LackCause, TrajectoryHead
from trace_assets.settings import Discovery
from trace_assets.study import Study

# Every sync asks whether there are any; where rules alone read, the analysts need not be imported for that.
if TYPE_CHECKING:
    from trace_assets.diagnosis.llm.further import Open


@dataclass(frozen=True)
class OpenFailures:
    """What one target's failures still ask for.

    Attributes:
        to_read: Those that are to be read again.
        reading: The number that this reading would have.
    """

    to_read: Open
    reading: int


def asked_as(section: Discovery) -> str:
    """Return a hash of who reads failures again, and how."""
    said = [section.model, section.size, section.temperature, section.transcript_tokens, section.failures]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def open_failures(
    study: Study, target: str, failures: Sequence[str], candidates: Sequence[Capability]
) -> OpenFailures:
    """Return what some failures of the agent still ask for.

    Args:
        study: Its labels and causes are those of the last diagnosis.
        target: Of the failures.
        failures: Ids of those that may be read.
        candidates: All of the target, whoever named them.
    """
    from trace_assets.diagnosis.llm.further import Open, unexplained

    section = study.settings.discovery
    done = [
        row
        for row in study.store.read(FurtherReading)
        if row.target == target and row.asked_as == asked_as(section)
    ]
    own = {one.capability_id for one in candidates}
    labels = [row for row in study.store.read(Label) if row.capability_id in own]
    causes = [row for row in study.store.read(LackCause) if row.capability_id in own]
    found = unexplained(failures, labels, causes, candidates)
    times = {name: sum(name in row.trajectories for row in done) for name in found.harmless}
    fruitless = {name for row in done if not row.n_new for name in row.trajectories}
    again = {
        name: lacks
        for name, lacks in found.harmless.items()
        if times[name] < section.further and name not in fruitless
    }
    number = 1 + max(
        (row.reading for row in study.store.read(FurtherReading) if row.target == target), default=1
    )
    return OpenFailures(Open(again), number)


def usable_runs(study: Study) -> dict[str, str]:
    """Return the runs that discovery may read with their outcomes: passes and failures of the agent."""
    from trace_assets.resources.analysts import counted_outcomes

    return {
        row.trajectory_id: row.outcome
        for row in counted_outcomes(study)
        if row.outcome == "passed" or (row.outcome == "failed" and row.fault == "agent")
    }


def asks_again(study: Study) -> str:
    """Say how many failures are to be read again now, empty where none are or no model reads them."""
    settings = study.settings
    section = settings.discovery
    if section.analyst == "detectors" or not section.further or not settings.labels.model:
        return ""
    from trace_assets.diagnosis.contrast import in_first_half

    try:
        failed = {name for name, outcome in usable_runs(study).items() if outcome == "failed"}
    except InputError:  # no such policy: the dictionary itself says so
        return ""
    heads = study.store.frame(TrajectoryHead).select("trajectory_id", "task_id", "target")
    half = section.split == "half"
    by_target: dict[str, list[str]] = {}
    for name, task, target in heads.iter_rows():
        if name in failed and (not half or in_first_half(task)):
            by_target.setdefault(target, []).append(name)
    known = study.store.read(Capability)
    n = 0
    for target, failures in by_target.items():
        candidates = [one for one in known if one.target == target]
        n += len(open_failures(study, target, failures, candidates).to_read)
    if not n:
        return ""
    return f"no candidate explains {n} failure{'s' if n > 1 else ''}, to be read again (discovery.further)"
