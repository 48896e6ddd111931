"""Whether the base policy can learn from the environment: it sometimes succeeds, and not always."""

from __future__ import annotations

from statistics import fmean

from trace_assets.records import Trajectory
from trace_assets.statistics.wilson import wilson
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.learnability.dead_groups import forecast, seed_outcomes


def signal(p: float, k: int) -> float:
    """Return the chance that a group of k rollouts holds both a success and a failure.

    >>> round(signal(0.05, 8), 2)
    0.34
    """
    return 1 - p**k - (1 - p) ** k


def _judged(subject: Subject) -> tuple[list[Trajectory], str]:
    """Return the rollouts that were judged, and words on those that broke."""
    judged = [t for t in subject.rollouts if t.success is not None and t.reward is not None]
    broken = [t for t in subject.rollouts if t.fault is not None]
    words = f"; {len(broken)} broke, such as: {broken[0].error}" if broken else ""
    return judged, words


def pass_band(subject: Subject) -> Finding:
    """The base policy's pass rate leaves room on both sides."""
    if subject.policy is None:
        return Finding("skip", subject.no_policy)
    low, high = subject.section.pass_low, subject.section.pass_high
    bound = f"in [{low}, {high}]"
    judged, words = _judged(subject)
    if not judged:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    passed = sum(t.success is True for t in judged)
    rate = passed / len(judged)
    left, right = wilson(passed, len(judged))
    evidence = f"{passed} of {len(judged)} succeed, 95 % interval [{left:.3f}, {right:.3f}]{words}"
    inside = low <= rate <= high
    return Finding("pass" if inside else "fail", evidence, rate, len(judged), bound, low=left, high=right)


def _groups(judged: list[Trajectory]) -> list[list[Trajectory]]:
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in judged:
        groups.setdefault(trajectory.task_id, []).append(trajectory)
    return list(groups.values())


def dead_groups(subject: Subject) -> Finding:
    """Not too many groups of rollouts have one and the same reward: those carry no gradient."""
    if subject.policy is None:
        return Finding("skip", subject.no_policy)
    judged, words = _judged(subject)
    groups = _groups(judged)
    bound = f"<= {subject.section.max_dead_groups}"
    if not groups:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    rewards = [[t.reward or 0.0 for t in group] for group in groups]
    dead = sum(max(group) - min(group) < 1e-9 for group in rewards)
    share = dead / len(groups)
    low, high = wilson(dead, len(groups))
    counted = f"{dead} of {len(groups)} groups of {fmean(map(len, groups)):.3g} are constant"
    evidence = f"{counted}, 95 % interval [{low:.3f}, {high:.3f}]{words}"
    passed = share <= subject.section.max_dead_groups
    return Finding("pass" if passed else "fail", evidence, share, len(groups), bound, low=low, high=high)


def predicted_signal(subject: Subject) -> Finding:
    """Enough groups are expected to hold a success and a failure.

    The share is that of a beta-binomial fitted to the seeds' counts: 1 - E[p^K] - E[(1 - p)^K]. The formula
    at the overall p is what it would be were all seeds equally hard; a share far below it says that some
    kinds of seeds never (or always) succeed.
    """
    if subject.policy is None:
        return Finding("skip", subject.no_policy)
    bound = f">= {subject.rules.min_signal}"
    judged, words = _judged(subject)
    k = subject.section.audit_rollouts
    outcomes = seed_outcomes("", "", judged)
    foretold = forecast(outcomes, k)
    if foretold is None:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    fit, value, low, high = foretold.success, *foretold.signal_interval()
    mixed = sum(0 < one.passed < one.n for one in outcomes)
    evidence = (
        f"Beta({fit.alpha:.3g}, {fit.beta:.3g}) by {fit.method}, 95 % interval [{low:.3f}, {high:.3f}] over "
        f"{fit.n_seeds} seeds; {mixed} of {len(outcomes)} groups held both outcomes; "
        f"{signal(fit.mean, k):.3f} were all seeds equally hard (p = {fit.mean:.3f}, K = {k}){words}"
    )
    passed = value >= subject.rules.min_signal
    return Finding("pass" if passed else "fail", evidence, value, fit.n_rollouts, bound, low=low, high=high)


_SOUND = ("semantic.floor_gap",)
CHECKS = (
    AuditCheck("trace.pass_band", "statistical", pass_band, _SOUND),
    AuditCheck("trace.dead_groups", "statistical", dead_groups, ("trace.pass_band",)),
    AuditCheck("trace.predicted_signal", "statistical", predicted_signal, ("trace.dead_groups",)),
)
