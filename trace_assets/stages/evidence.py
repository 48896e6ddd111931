"""What a contrast rests on, target by target: candidates, labels and outcomes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from trace_assets.diagnosis.contrast import estimation_share
from trace_assets.records import Capability, Label, Triage
from trace_assets.stages.suspect_tasks import aside_tasks
from trace_assets.study import Study


@dataclass(frozen=True)
class Evidence:
    """What one target's contrast rests on."""

    target: str
    capabilities: list[Capability]
    labels: list[Label]
    triage: list[Triage]


def evidence_by_target(study: Study) -> list[Evidence]:
    """Return candidates, labels and outcomes by target.

    Outcomes of the half that proposed are left out, and those of tasks that are put aside.
    """
    candidates: dict[str, list[Capability]] = defaultdict(list)
    for row in study.store.read(Capability):
        candidates[row.target].append(row)
    target_of = {row.capability_id: row.target for own in candidates.values() for row in own}
    labels: dict[str, list[Label]] = defaultdict(list)
    for label in study.store.read(Label):
        if label.capability_id in target_of:
            labels[target_of[label.capability_id]].append(label)
    aside = aside_tasks(study)
    triage = [row for row in study.store.read(Triage) if row.task_id not in aside]
    return [
        Evidence(
            target,
            candidates[target],
            labels[target],
            estimation_share((row for row in triage if row.target == target), candidates[target]),
        )
        for target in sorted(labels)
    ]
