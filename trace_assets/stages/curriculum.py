"""The stages `environment_verdict` and `curriculum`: what is taught, and nothing beside it.

Both are firewalls. They are re-computed in milliseconds whenever an audit or the selection changes, and what
trains or plays adapters runs again only if their content changed.
"""

from __future__ import annotations

from trace_assets.errors import InputError
from trace_assets.records import Environment, EnvironmentCheck, EnvironmentVerdict, Lesson
from trace_assets.stages.diagnosis import trainable
from trace_assets.stages.result import StageResult
from trace_assets.study import Study
from trace_assets.synthesis.audit.battery import verdict_of


def write_verdict(study: Study, capability_id: str) -> StageResult:
    """Write the table `environment_verdicts` of one capability from its audit's findings."""
    written = study.store.read(Environment, capability_id)
    checks = study.store.read(EnvironmentCheck, capability_id)
    if not written:
        accepted, reasons = False, ["no environment was written"]
    elif not checks:
        accepted, reasons = False, ["it was not audited"]
    else:
        accepted, found = verdict_of(checks)
        reasons = list(found)
    row = EnvironmentVerdict(
        capability_id=capability_id,
        environment_id=written[0].environment_id if written else "",
        accepted=accepted,
        reasons=tuple(reasons),
    )
    version = study.store.write([row], EnvironmentVerdict, capability_id)
    return StageResult(version, 1, {"accepted": accepted})


def read_verdict(study: Study, capability_id: str) -> EnvironmentVerdict:
    """Return the verdict on one capability's environment.

    Raises:
        InputError: There is none yet.
    """
    rows = study.store.read(EnvironmentVerdict, capability_id)
    if not rows:
        raise InputError(f"there is no verdict on '{capability_id}' yet; run `trace sync` first.")
    return rows[0]


def write_curriculum(study: Study) -> StageResult:
    """Write the table `curriculum`: kept capabilities of the live target with an accepted environment."""
    verdicts = [row for name in trainable(study) for row in study.store.read(EnvironmentVerdict, name)]
    lessons = [Lesson(capability_id=row.capability_id) for row in verdicts if row.accepted]
    version = study.store.write(lessons, Lesson)
    return StageResult(version, len(lessons), {"taught": len(lessons), "kept": len(verdicts)})


def taught(study: Study) -> set[str]:
    """Return the ids of the capabilities that are taught."""
    return {row.capability_id for row in study.store.read(Lesson)}
