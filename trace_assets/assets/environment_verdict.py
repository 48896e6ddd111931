"""The assets `environment_verdict`, what training may know of an audit, and `curriculum`, what is taught.

Both are cut-offs: computed again in milliseconds whenever an audit or the selection changes, and what trains
or plays adapters runs again only if their content changed.
"""

from __future__ import annotations

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.selected_capabilities import trainable
from trace_assets.environments.audit.battery import verdict_of
from trace_assets.environments.learnability import only_dead, why_warm_start
from trace_assets.errors import InputError
from trace_assets.records import (
    Capability,
    CapabilitySpec,
    Environment,
    EnvironmentCheck,
    EnvironmentVerdict,
    Lesson,
    Pilot,
    SeedOutcome,
    UnconfirmedReward,
)
from trace_assets.resources.sandbox import require_made
from trace_assets.study import Study


@asset(
    "environment_verdict",
    group="synthesis",
    records=(EnvironmentVerdict,),
    deps=["environment", "environment_audit", "config/training"],
    partitions="capability",
    checks={"no_override": "No rejected environment is trained on by an override in the settings."},
    light=True,
)
def write_verdict(study: Study, capability_id: str) -> StageResult:
    """A cut-off: whether the environment was accepted, and all that training may know of its audit.

    Raises:
        InputError: `training.accept_rejected` names what is no capability, or there is nothing to judge yet.
    """
    require_made(study, capability_id, Environment, "environment")
    require_made(study, capability_id, EnvironmentCheck, "environment_audit")
    override = _override(study, capability_id)
    unconfirmed: list[UnconfirmedReward] = []
    written = study.store.read(Environment, capability_id)
    checks = study.store.read(EnvironmentCheck, capability_id)
    if not written:
        accepted, reasons = False, ["no environment was written"]
    elif not checks:
        accepted, reasons = False, ["it was not audited"]
    else:
        accepted, found = verdict_of(checks)
        reasons = list(found)
        if unconfirmed := study.store.read(UnconfirmedReward, written[0].environment_id):
            accepted, reasons = (
                False,
                [*(f"rewards_recomputed: {one.detail}" for one in unconfirmed), *reasons],
            )
    section = study.settings.training
    hopeless = _hopeless(study, capability_id, written)
    shown = section.begins_warm or section.demonstrate
    if hopeless and shown and checks and not accepted and only_dead(checks) and not unconfirmed:
        accepted, reasons = True, []  # what is wrong with it is what demonstrations are for
    warm = hopeless if section.warm_start == "when_dead" else ""
    row = EnvironmentVerdict(
        capability_id=capability_id,
        environment_id=written[0].environment_id if written else "",
        accepted=accepted,
        reasons=tuple(reasons),
        overridden_by=override if checks and written and not accepted else "",
        warm_start=bool(warm) and section.begins_warm,
        warm_reason=warm,
    )
    version = study.store.write([row], EnvironmentVerdict, capability_id)
    return StageResult(
        version,
        1,
        {
            "accepted": accepted,
            "warm_start": bool(row.warm_start),
            **({"overridden_by": row.overridden_by} if row.overridden_by else {}),
        },
        checks=(
            StageCheck(
                "no_override",
                not row.overridden_by,
                f"trained on although rejected ({'; '.join(reasons)}): {row.overridden_by}."
                if row.overridden_by
                else "the audit's verdict stands.",
                "warning",
            ),
        ),
    )


def _hopeless(study: Study, capability_id: str, written: list[Environment]) -> str:
    """Return why GRPO alone would learn next to nothing; empty where it would, or nobody demonstrates."""
    section = study.settings.training
    if not written or (section.warm_start == "never" and not section.demonstrate):
        return ""
    outcomes = [
        one
        for one in study.store.read(SeedOutcome, capability_id)
        if one.environment_id == written[0].environment_id
    ]
    return why_warm_start(outcomes)


def _override(study: Study, capability_id: str) -> str:
    """Return why a capability's environment is trained on whatever its audit says; empty when it is not."""
    asked = study.settings.training.accept_rejected
    if not asked:
        return ""
    specs = study.store.read(CapabilitySpec)
    named = [(one.capability_id, one.name) for one in study.store.read(Capability)]
    named += [(one.capability_id, one.name) for one in specs]
    names = {name for both in named for name in both}
    for name in asked:
        if name not in names:
            raise InputError(
                f"training.accept_rejected names '{name}', which is neither the id nor the name of a "
                "capability; `trace sql gap_table` lists them."
            )
    own = {capability_id, *(one.name for one in specs if one.capability_id == capability_id)}
    return next((reason for name, reason in asked.items() if name in own), "")


def read_verdict(study: Study, capability_id: str) -> EnvironmentVerdict:
    """Return the verdict on one capability's environment.

    Raises:
        InputError: There is none yet.
    """
    rows = study.store.read(EnvironmentVerdict, capability_id)
    if not rows:
        raise InputError(f"there is no verdict on '{capability_id}' yet; run `trace sync` first.")
    return rows[0]


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
