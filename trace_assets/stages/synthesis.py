"""The stage `environment_audit`, and what every stage needs that runs environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from trace_assets.errors import InputError
from trace_assets.records import (
    ContractRow,
    Environment,
    EnvironmentCheck,
    SeedOutcome,
    ToolSpec,
    Trajectory,
    UnconfirmedReward,
)
from trace_assets.report.asset_report.training import audit_exhibit
from trace_assets.rollouts.runner import closing_policy
from trace_assets.sandbox import SandboxConfig, open_pool
from trace_assets.sandbox.controls import controls_for
from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.reward_verification import RewardMismatch, Sample
from trace_assets.stages.base_model import open_policy
from trace_assets.stages.contract import look_up_contract, read_contract, rollout_obstacle
from trace_assets.stages.permutations import (
    audited_episodes,
    keep_audited,
    known_permutation,
    permutation_for,
)
from trace_assets.stages.result import StageCheck, StageResult
from trace_assets.store.content import text_version
from trace_assets.store.locks import mark_due
from trace_assets.study import Study
from trace_assets.environments.audit.battery import audit, verdict_of
from trace_assets.environments.audit.scripted_rollouts import Played
from trace_assets.environments.audit.severity import RULES, Rules
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.contract.description import mutation_marked
from trace_assets.environments.learnability import seed_outcomes
from trace_assets.targets.sandboxed import SandboxedTarget


def read_environment(study: Study, capability_id: str) -> Environment:
    """Return one capability's environment.

    Raises:
        InputError: It was not written yet.
    """
    rows = study.store.read(Environment, capability_id)
    if not rows:
        raise InputError(f"there is no environment for '{capability_id}' yet; run `trace sync` first.")
    return rows[0]


def sandbox_config(study: Study) -> SandboxConfig:
    """Return what the section `sandbox` asks for."""
    section = study.settings.sandbox
    return SandboxConfig(
        backend=section.backend,
        memory_mb=section.memory_mb,
        cpus=section.cpus,
        deadline_seconds=section.deadline_seconds,
        recompute_share=section.recompute_share,
    )


@contextmanager
def sandbox_pool(study: Study) -> Iterator[SandboxPool]:
    """Open the sandboxes that the settings ask for."""
    with open_pool(sandbox_config(study)) as pool:
        yield pool


def audit_environment(study: Study, capability_id: str) -> StageResult:
    """Write one environment's findings (`environment_checks`) and the base policy's `seed_outcomes`."""
    section = study.settings.synthesis
    if not study.store.read(Environment, capability_id):
        study.store.write([], SeedOutcome, capability_id)
        version = study.store.write([], EnvironmentCheck, capability_id)
        check = StageCheck("environment_accepted", None, "no environment was written.")
        return StageResult(version, 0, {"accepted": False}, checks=(check,))
    environment = read_environment(study, capability_id)
    permutation = permutation_for(study, environment.environment_id)
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
            recorded=lambda kept: keep_audited(study, environment.environment_id, _samples(kept)),
        )
        isolation = pool.isolation_level
    outcomes = seed_outcomes(capability_id, environment.environment_id, played)
    version = text_version(
        study.store.write(checks, EnvironmentCheck, capability_id),
        study.store.write(outcomes, SeedOutcome, capability_id),
        permutation.fingerprint,  # other seeds are another audit
    )
    accepted, reasons = verdict_of(checks)
    counts = Counter(check.status for check in checks)
    exhibit = audit_exhibit(checks)
    return StageResult(
        version,
        len(checks),
        {
            **dict(sorted(counts.items())),
            **_base_rate(checks),
            "accepted": accepted,
            "isolation_level": isolation,
        },
        pages=exhibit.pages,
        tables=exhibit.tables,
        checks=(
            StageCheck(
                "environment_accepted",
                accepted,
                "all required checks passed." if accepted else f"rejected: {'; '.join(reasons)}.",
            ),
        ),
    )


def audit_source(
    study: Study, source: str, rules: Rules = RULES, target: str | None = None
) -> tuple[list[EnvironmentCheck], bool, list[str]]:
    """Audit a module that is not part of the pipeline; what needs a contract or policy is skipped without.

    Args:
        study: Whose sandbox, settings and target contract are taken.
        source: The module.
        rules: The severity policy.
        target: Whose contract it is held to, as its trajectories show it now; None takes the live target's,
            where it was written.

    Returns:
        The findings, whether they accept the module, and why not.

    Raises:
        InputError: There are no trajectories of that target.
    """
    environment = Environment(
        environment_id=text_version(source),
        capability_id="file",
        target=target or "file",
        writer="file",
        source=source,
    )
    if target is not None:
        contract: TargetContract | None = look_up_contract(study, target)
    else:
        known = {row.target for row in study.store.read(ContractRow)}
        contract = read_contract(study) if study.settings.targets.name in known else None
    permutation = permutation_for(study, environment.environment_id)
    with sandbox_pool(study) as pool:
        checks = audit(
            environment, pool, contract, study.settings.synthesis, rules=rules, permutation=permutation
        )
    accepted, reasons = verdict_of(checks)
    return checks, accepted, list(reasons)


@contextmanager
def training_target(study: Study, environment: Environment) -> Iterator[SandboxedTarget]:
    """Open an environment as a target: training seeds as discovery tasks, held-out ones as validation.

    A mismatch is remembered: the environment's verdict is due, and rejects this text from then on. Some
    episodes of the audit are played again at once, and some of those played here when all is over.

    Raises:
        InputError: The key of its seeds is lost; the audit is due then.
        RewardMismatch: A fresh sandbox did not confirm a reward; raised from an episode, or at the end.
    """
    section = study.settings.training
    held_out = section.validation_seeds + section.validation_episodes
    permutation = known_permutation(study, environment)
    with sandbox_pool(study) as pool:
        target = SandboxedTarget(
            environment,
            pool,
            permutation,
            validation_seeds=held_out,
            controls=controls_for(_changes(study, environment)),
        )
        try:
            target.recomputation.recall(audited_episodes(study, environment.environment_id))
            yield target
            target.recomputation.settle()
        except RewardMismatch as mismatch:
            _remember(study, environment, pool.isolation_level, str(mismatch))
            raise
        finally:
            target.close()


def _changes(study: Study, environment: Environment) -> Callable[[str], bool]:
    """Return what tells of a tool's name whether it changes anything, by the contract or else by the name."""
    known = {row.target for row in study.store.read(ContractRow)}
    tools = read_contract(study, environment.target).tools if environment.target in known else ()
    marks = {tool.name: bool(tool.mutates) for tool in tools if tool.mutates is not None}

    def changes(name: str) -> bool:
        if name not in marks:
            marks[name] = bool(mutation_marked([ToolSpec(name=name)])[0].mutates)
        return marks[name]

    return changes


def _samples(kept: Sequence[Played]) -> list[Sample]:
    return [Sample(one.seed, tuple(one.actions), one.verdict) for one in kept]


def _remember(study: Study, environment: Environment, isolation_level: str, detail: str) -> None:
    row = UnconfirmedReward(
        environment_id=environment.environment_id,
        capability_id=environment.capability_id,
        isolation_level=isolation_level,
        detail=detail,
    )
    study.store.write([row], UnconfirmedReward, environment.environment_id)
    mark_due(study.home, "environment_verdict", environment.capability_id, "a reward was not confirmed")


def _base_rate(checks: list[EnvironmentCheck]) -> dict[str, float | int]:
    """Return the base model's pass rate in the environment, where the audit measured it."""
    for check in checks:
        if check.check_id.endswith("pass_band") and check.value is not None:
            return {"pass_rate": check.value, "n": check.n or 0}
    return {}
