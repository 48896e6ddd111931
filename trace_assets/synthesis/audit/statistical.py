"""Whether the base policy can learn from the environment: it sometimes succeeds, and not always."""

from __future__ import annotations

from statistics import fmean

from trace_assets.records import Trajectory
from trace_assets.statistics.wilson import wilson
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject

NO_POLICY = "no base policy was given to roll out"


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
        return Finding("skip", NO_POLICY)
    low, high = subject.section.pass_low, subject.section.pass_high
    bound = f"in [{low}, {high}]"
    judged, words = _judged(subject)
    if not judged:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    passed = sum(t.success is True for t in judged)
    rate = passed / len(judged)
    left, right = wilson(passed, len(judged))
    evidence = f"{passed} of {len(judged)} succeed, 95 % interval [{left:.3f}, {right:.3f}]{words}"
    return Finding("pass" if low <= rate <= high else "fail", evidence, rate, len(judged), bound)


def _groups(judged: list[Trajectory]) -> list[list[Trajectory]]:
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in judged:
        groups.setdefault(trajectory.task_id, []).append(trajectory)
    return list(groups.values())


def dead_groups(subject: Subject) -> Finding:
    """Not too many groups of rollouts have one and the same reward: those carry no gradient."""
    if subject.policy is None:
        return Finding("skip", NO_POLICY)
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
    return Finding("pass" if passed else "fail", evidence, share, len(groups), bound)


def predicted_signal(subject: Subject) -> Finding:
    """Enough groups hold a success and a failure.

    The share seen among groups of K estimates the mean of 1 - p^K - (1 - p)^K over seeds without bias,
    however unequal the seeds; the formula at the overall p is what it would be were they equally hard, and a
    value far below it says that some kinds of seeds never (or always) succeed.
    """
    if subject.policy is None:
        return Finding("skip", NO_POLICY)
    bound = f">= {subject.rules.min_signal}"
    judged, words = _judged(subject)
    groups = _groups(judged)
    if not groups:
        return Finding("fail", f"no rollout was judged{words}", None, 0, bound)
    mixed = sum(len({t.success for t in group}) == 2 for group in groups)
    share = mixed / len(groups)
    low, high = wilson(mixed, len(groups))
    p, k = fmean(t.success is True for t in judged), subject.section.audit_rollouts
    seen = f"{mixed} of {len(groups)} groups hold both outcomes, 95 % interval [{low:.3f}, {high:.3f}]"
    evidence = f"{seen}; {signal(p, k):.3f} were all seeds equally hard (p = {p:.3f}, K = {k}){words}"
    return Finding(
        "pass" if share >= subject.rules.min_signal else "fail", evidence, share, len(groups), bound
    )


_SOUND = ("semantic.floor_gap",)
CHECKS = (
    AuditCheck("trace.pass_band", "statistical", pass_band, _SOUND),
    AuditCheck("trace.dead_groups", "statistical", dead_groups, ("trace.pass_band",)),
    AuditCheck("trace.predicted_signal", "statistical", predicted_signal, ("trace.dead_groups",)),
)
