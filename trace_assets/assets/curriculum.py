"""The asset `curriculum`: the capabilities that are taught."""

from __future__ import annotations

from trace_assets.assets.asset import StageResult, asset
from trace_assets.assets.selected_capabilities import trainable
from trace_assets.records import (
    EnvironmentVerdict,
    Lesson,
    Pilot,
)
from trace_assets.study import Study


@asset(
    "curriculum",
    group="training",
    records=(Lesson,),
    deps=["environment_verdict", "pilot", "selected_capabilities", "config/targets"],
    light=True,
)
def write_curriculum(study: Study) -> StageResult:
    """A cut-off: the kept capabilities that are taught; their environment and pilot speak for it."""
    verdicts = [row for name in trainable(study) for row in study.store.read(EnvironmentVerdict, name)]
    stopped = {row.capability_id for row in study.store.read(Pilot) if not row.goes_on}
    lessons = [
        Lesson(capability_id=row.capability_id)
        for row in verdicts
        if row.trained_on and row.capability_id not in stopped
    ]
    version = study.store.write(lessons, Lesson)
    return StageResult(version, len(lessons), {"taught": len(lessons), "kept": len(verdicts)})


def taught(study: Study) -> set[str]:
    """Return the ids of the capabilities that are taught."""
    return {row.capability_id for row in study.store.read(Lesson)}
