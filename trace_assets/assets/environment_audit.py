"""The assets `environment_audit`, `environment_verdict`, what training knows of it, and `curriculum`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.assets.selected_capabilities import trainable
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.audit.scripted_rollouts import Played
from trace_assets.environments.judge.asking import NO_VERDICT
from trace_assets.environments.learnability import only_dead, seed_outcomes, why_warm_start
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
    Trajectory,
    UnconfirmedReward,
)
from trace_assets.report.asset_report.training import audit_report
from trace_assets.resources.analysts import JudgeDesk, open_judge
from trace_assets.resources.contract import purpose_of, read_contract, rollout_obstacle
from trace_assets.resources.divided_audit import divided_rollouts
from trace_assets.resources.policy import open_policy
from trace_assets.resources.sandbox import (
    keep_audited,
    permutation_for,
    read_environment,
    require_made,
    sandbox_pool,
)
from trace_assets.rollouts.runner import closing_policy
from trace_assets.sandbox.reward_verification import Sample
from trace_assets.store.content import text_version
from trace_assets.study import Study


@asset(
    "environment_audit",
    group="synthesis",
    records=(EnvironmentCheck, SeedOutcome),
    deps=[
        "environment",
        "capability_spec",
        "decision_patterns",
        "target_contract",
        "base_model",
        "config/synthesis",
        "config/sandbox",
        "config/rollouts",
    ],
    partitions="capability",
    checks={
        "environment_accepted": "No required check of the audit failed; a rejected one trains nothing.",
        "environment_judged": "The model that judges environments, where one is set, left no verdict open.",
    },
    kinds=("parquet", "docker"),
    pool="gpu",
    by_policy=True,
    shown_on="environment",
)
def audit_environment(study: Study, capability_id: str) -> StageResult:
    """Whether the environment can be trusted: run only in the sandbox, attacked, and played by the base.

    Raises:
        InputError: The environment was never tried to be written; one that no writer could write has no rows.
    """
    section = study.settings.synthesis
    require_made(study, capability_id, Environment, "environment")
    if not study.store.read(Environment, capability_id):
        study.store.write([], SeedOutcome, capability_id)
        version = study.store.write([], EnvironmentCheck, capability_id)
        check = StageCheck("environment_accepted", None, "no environment was written.")
        return StageResult(version, 0, {"accepted": False}, checks=(check,))
    environment = read_environment(study, capability_id)
    permutation = permutation_for(study, environment.environment_id)
    judge = open_judge(study, capability_id, "environment_audit")
    with sandbox_pool(study) as pool, ExitStack() as stack:
        obstacle = rollout_obstacle(study, environment.target)
        policy = None if obstacle else stack.enter_context(closing_policy(open_policy(study)))
        played: list[Trajectory] = []
        checks = audit(
            environment,
            pool,
            read_contract(study, environment.target),
            section,
            base_policy=policy,
            rolled_out=played.extend,
            no_policy=obstacle or "no base policy was given to roll out",
            permutation=permutation,
            purpose=purpose_of(study, capability_id),
            judge=judge,
            elsewhere=divided_rollouts(study),
            recorded=lambda kept: keep_audited(study, environment.environment_id, samples_of(kept)),
        )
        isolation = pool.isolation_level
    outcomes = seed_outcomes(capability_id, environment.environment_id, played)
    version = text_version(
        study.store.write(checks, EnvironmentCheck, capability_id),
        study.store.write(outcomes, SeedOutcome, capability_id),
        permutation.fingerprint,  # other seeds are another audit
    )
    accepted, _ = verdict_of(checks)
    counts = Counter(check.status for check in checks)
    asset_report = audit_report(checks)
    return StageResult(
        version,
        len(checks),
        {
            **dict(sorted(counts.items())),
            **_base_rate(checks),
            **(judge.figures if judge else {}),
            "accepted": accepted,
            "isolation_level": isolation,
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=(
            accepted_check(study, checks),
            _judged(judge, checks),
        ),
    )


def accepted_check(study: Study, checks: Sequence[EnvironmentCheck]) -> StageCheck:
    """Return whether the environment may be trained on.

    In a later round one that is rejected only because the agent passes it too often, or never, is no failure:
    that little is left to teach is how rounds end.
    """
    name, (accepted, reasons) = "environment_accepted", verdict_of(checks)
    if accepted:
        return StageCheck(name, True, "all required checks passed.")
    if study.round > 1 and only_dead(checks):
        left = f"nothing is left to teach here in round {study.round}"
        return StageCheck(name, False, f"{left}: {'; '.join(reasons)}.", "warning")
    return StageCheck(name, False, f"rejected: {'; '.join(reasons)}.")


def samples_of(kept: Sequence[Played]) -> list[Sample]:
    """Return an audit's episodes as they are kept, to be played again wherever the environment is used."""
    return [Sample(one.seed, tuple(one.actions), one.verdict) for one in kept]


def _judged(judge: JudgeDesk | None, checks: Sequence[EnvironmentCheck]) -> StageCheck:
    """Return whether the model that was asked gave its verdicts: where it gave none, that is no pass."""
    name = "environment_judged"
    if judge is None:
        return StageCheck(name, None, "no model is set that judges environments (synthesis.judge).")
    without = [one for one in checks if one.level == "judged" and one.evidence.startswith(NO_VERDICT)]
    if not without and not judge.unanswered:
        return StageCheck(name, True, f"{judge.model} answered all that it was asked.")
    said = [f"{one.check_id}: {one.evidence}" for one in without]
    if judge.unanswered:
        said.append(
            f"{len(judge.unanswered)} questions stayed open; what was answered is kept, and `trace sync "
            "--again environment_audit` asks the rest"
        )
    return StageCheck(name, False, f"{'; '.join(said)}.", "warning")


def _base_rate(checks: list[EnvironmentCheck]) -> dict[str, float | int]:
    """Return the base model's pass rate in the environment, where the audit measured it."""
    for check in checks:
        if check.check_id.endswith("pass_band") and check.value is not None:
            return {"pass_rate": check.value, "n": check.n or 0}
    return {}


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
