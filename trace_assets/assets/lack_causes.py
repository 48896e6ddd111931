"""The asset `lack_causes`: which of a failed run's lacks decided its end."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.assets.labels import capabilities_of
from trace_assets.diagnosis.llm.causes import Judged, judge_lacks
from trace_assets.records import Label, LackCause, Triage
from trace_assets.resources.analysts import by_target, known_of, model_figures, open_model
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study


@asset(
    "lack_causes",
    group="diagnosis",
    records=(LackCause,),
    deps=["tasks", "trajectories", "triage", "batch_capabilities", "labels", "config/labels"],
    partitions="task_batch",
    checks={"causes_complete": "Of every lack of a failed run the model said whether it decided the end."},
    unfinished=["causes_complete"],
)
def judge_batch(study: Study, batch: str) -> StageResult:
    """Whether exercising what a failed run lacked would have changed its end, where a model labels."""
    section, done = study.settings.labels, Judged()
    figures: dict[str, Figure] = {}
    if section.model and section.causes:
        failed = {row.trajectory_id for row in study.store.read(Triage, batch) if row.fault == "agent"}
        runs = [one for one in read_trajectories(study.store, batch) if one.trajectory_id in failed]
        labels, capabilities = study.store.read(Label, batch), capabilities_of(study, batch)
        with open_model(study, "lack_causes", batch) as (_, server):
            for target, group in by_target(runs).items():
                own = [one for one in capabilities if one.target == target]
                came = judge_lacks(server, section, group, labels, own, known_of(study, target, group, batch))
                done.causes += came.causes
                done.missing |= came.missing
                done.complete &= came.complete
                if not came.complete:
                    break
        figures = model_figures(server)
    version = study.store.write(done.causes, LackCause, batch)
    counts = Counter(f"decisive_{row.decisive}" for row in done.causes)
    n = len(done.causes)
    return StageResult(
        version, n, {**dict(sorted(counts.items())), "n": n, **figures}, checks=(_complete(done),)
    )


def _complete(done: Judged) -> StageCheck:
    if done.complete and not done.missing:
        return StageCheck("causes_complete", True, f"{len(done.causes)} lacks were judged.")
    said = f"{len(done.missing)} failed runs are not judged in full"
    if done.missing:
        said += f": {'; '.join(sorted({reason[:120] for reason in done.missing.values()})[:3])}"
    severity: Literal["error", "warning"] = "warning"
    if not done.complete:
        said += (
            ". The cap on spending was reached: raise analyst.cap_usd or analyst.cap_calls and run the same "
            "command again"
        )
    return StageCheck("causes_complete", False, f"{said}.", severity)
