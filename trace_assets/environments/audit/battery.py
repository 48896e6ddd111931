"""The audit: every check in order, each failure on its own account, and one verdict on the environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trace_assets.environments.audit import (
    allowed_ways,
    bypass_checks,
    false_looks,
    fidelity,
    mutation,
    needed_looks,
    policy_rule,
    policy_sentences,
    runtime,
    semantic,
    static,
    told,
    trials,
)
from trace_assets.environments.audit import (
    purpose as purpose_checks,
)
from trace_assets.environments.audit.check import (
    AuditCheck,
    Elsewhere,
    Finding,
    Judge,
    Purpose,
    Sizes,
    Subject,
)
from trace_assets.environments.audit.scripted_rollouts import Played
from trace_assets.environments.audit.severity import RULES, Rules
from trace_assets.environments.contract.description import TargetContract
from trace_assets.environments.judge import agents, partial, review, solutions
from trace_assets.errors import InputError
from trace_assets.policies.protocol import Policy
from trace_assets.records import Environment, EnvironmentCheck, Trajectory
from trace_assets.sandbox import SandboxError, SandboxPool, SandboxUnavailable
from trace_assets.sandbox.reward_verification import RewardMismatch
from trace_assets.settings import Synthesis
from trace_assets.system.progress import progress
from trace_assets.targets.seeds import SeedPermutation
from trace_assets.untrusted.printable import one_line

CONFUSED = (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError)
"""What a check raises that is handed values of a kind that nobody foresaw."""

CHECKS: tuple[AuditCheck, ...] = (
    *static.STATIC_CHECKS,
    *bypass_checks.BYPASS_CHECKS,
    *runtime.RUNTIME_CHECKS,
    *runtime.DETERMINISM_CHECKS,
    *runtime.CONDITION_CHECKS,
    *static.DECLARED_CHECKS,
    *semantic.SEMANTIC_CHECKS,
    *fidelity.FIDELITY_CHECKS,
    *semantic.LEAKAGE_CHECKS,
    *purpose_checks.PURPOSE_CHECKS[:2],
    *policy_rule.RULE_CHECKS,
    *policy_rule.BREACH_CHECKS,
    *policy_sentences.SENTENCE_CHECKS,
    *purpose_checks.PURPOSE_CHECKS[2:],
    *needed_looks.NEEDED_CHECKS,
    *told.TOLD_CHECKS,
    *bypass_checks.PANEL_CHECKS,
    *false_looks.FALSE_LOOK_CHECKS,
    *trials.TRIAL_CHECKS,
    *mutation.CHECKS,
    *allowed_ways.REWORDING_CHECKS,
    *semantic.STATISTICAL_CHECKS,
    *review.REVIEW_CHECKS,
    *solutions.SOLUTION_CHECKS,
    *partial.PARTIAL_CHECKS,
    *agents.AGENT_CHECKS,
)
"""In an order in which what a check needs comes before it."""


def audit(
    environment: Environment,
    pool: SandboxPool,
    contract: TargetContract | None,
    section: Synthesis,
    base_policy: Policy | None = None,
    rules: Rules = RULES,
    sizes: Sizes | None = None,
    no_policy: str = "no base policy was given to roll out",
    rolled_out: Callable[[Sequence[Trajectory]], None] | None = None,
    permutation: SeedPermutation | None = None,
    recorded: Callable[[Sequence[Played]], None] | None = None,
    purpose: Purpose | None = None,
    judge: Judge | None = None,
    late_policy: Callable[[], Policy | None] | None = None,
    elsewhere: Elsewhere | None = None,
) -> list[EnvironmentCheck]:
    """Audit an environment.

    A check whose prerequisite did not pass is a skip that names it: one fault is reported once. What the
    environment does wrong (an exception, a hang, a malformed answer) fails the check that met it.

    Args:
        environment: The module; it runs in the pool's sandboxes only.
        pool: Sandboxes.
        contract: Of the target, to compare tools with; None skips that.
        section: How many seeds and rollouts, and the band.
        base_policy: Rolled out for the statistical checks; None skips them. It is not closed.
        rules: The severity policy: what each check demands and weighs.
        sizes: How many seeds each check looks at; None takes the defaults.
        no_policy: Why there is no base policy: what the statistical checks that are skips say.
        rolled_out: Told of the base policy's episodes, where a check had any played.
        permutation: What the environment is given for a seed wherever it is used; None draws one.
        recorded: Told of a few of the audit's episodes, drawn of all of them.
        purpose: The capability that it is for, with labelled real runs; None skips what asks for it.
        judge: A model that judges environments; it is asked only where nothing else rejects this one. None
            skips what it would be asked.
        late_policy: Opens the base policy, in place of `base_policy`; called only where nothing before the
            statistical checks rejects this one.
        elsewhere: Has others play the base policy's episodes too; None has all played in this process.

    Returns:
        One finding a check, in the order of `CHECKS`.

    Raises:
        SandboxUnavailable: There is no sandbox to run it in: nothing can be said of the environment.
        Unavailable: The base policy broke.
    """
    subject = Subject(
        environment,
        pool,
        section,
        contract,
        permutation or SeedPermutation.draw(),
        base_policy,
        no_policy,
        rules,
        sizes or Sizes(),
        purpose,
        judge,
        late_policy=late_policy,
        elsewhere=elsewhere,
    )
    findings: dict[str, Finding] = {}
    with progress(f"audit {environment.capability_id}", len(CHECKS)) as bar:
        for check in CHECKS:
            findings[check.check_id] = _run(check, subject, findings)
            bar.advance(note=check.check_id)
    if rolled_out is not None:
        rolled_out(subject.played)
    if recorded is not None:
        recorded(subject.probe.record.kept)
    return [
        EnvironmentCheck(
            environment_id=environment.environment_id,
            capability_id=environment.capability_id,
            check_id=check.check_id,
            level=check.level,
            status=findings[check.check_id].status,
            severity=rules.severities[check.check_id],
            value=findings[check.check_id].value,
            low=findings[check.check_id].low,
            high=findings[check.check_id].high,
            n=findings[check.check_id].n,
            bound=findings[check.check_id].bound,
            evidence=one_line(findings[check.check_id].evidence),
            timing=findings[check.check_id].timing,
            sandbox_version=pool.version,
            isolation_level=pool.isolation_level,
            policy_version=rules.version,
        )
        for check in CHECKS
    ]


def _rejected(findings: dict[str, Finding], rules: Rules) -> str:
    """Return the first check that rejects an environment: what is paid for or slow would change nothing."""
    failed = (name for name, one in findings.items() if one.status == "fail")
    return next((name for name in failed if rules.severities[name] == "error"), "")


def _run(check: AuditCheck, subject: Subject, findings: dict[str, Finding]) -> Finding:
    for needed in check.needs:
        if findings[needed].status != "pass":
            state = "failed" if findings[needed].status == "fail" else "was skipped"
            return Finding("skip", f"{needed} {state}")
    for earlier in check.after:
        if findings[earlier].status == "fail":
            return Finding("skip", f"{earlier} failed")
    if check.level == "statistical" and subject.late_policy is not None:
        if why := _rejected(findings, subject.rules):
            return Finding("skip", f"the base policy was not rolled out: {why} failed")
        subject.policy, subject.late_policy = subject.late_policy(), None
    if check.level == "judged" and subject.judge and (why := _rejected(findings, subject.rules)):
        return Finding("skip", f"the model was not asked: {why} failed")
    if subject.probe.budget.over:
        return Finding("skip", "the time for this environment was up")
    try:
        return check.run(subject)
    except SandboxUnavailable:
        raise
    except SandboxError as fault:
        return Finding("fail", f"{fault.kind}: {fault}")
    except (InputError, *CONFUSED) as fault:
        # The module decides what the checks are handed: whatever it makes them stumble over is its fault.
        return Finding("fail", f"no sense could be made of it: {type(fault).__name__}: {str(fault)[:500]}")
    except RewardMismatch as mismatch:
        return Finding("fail", str(mismatch))


def verdict_of(checks: Sequence[EnvironmentCheck]) -> tuple[bool, tuple[str, ...]]:
    """Say whether an environment may be trained on.

    Returns:
        Whether no check of severity `error` failed and the audit reached its end, and the reasons why not.
    """
    failed = [c for c in checks if c.status == "fail" and c.severity == "error"]
    reasons = [f"{c.check_id}: {c.evidence}" + (f" (required: {c.bound})" if c.bound else "") for c in failed]
    if not checks:
        reasons.append("it was not audited")
    elif not failed:
        # Skips follow from failures or from what the caller left out (a policy, a contract); an audit in
        # which the reward itself was never looked at says nothing.
        seen = {c.check_id for c in checks if c.status == "pass"}
        reasons += [
            f"{name} was not checked"
            for name in ("semantic.oracle_max", "semantic.floor_gap")
            if name not in seen
        ]
    return not reasons, tuple(reasons)
