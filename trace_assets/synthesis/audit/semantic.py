"""Whether the reward means what it should: all for the oracle, nothing for idleness, more for more."""

from __future__ import annotations

import itertools
from collections import Counter
from statistics import fmean

from trace_assets.statistics.wilson import wilson
from trace_assets.synthesis.audit.attackers import calls_in, say
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject

NO_WRITE = "no change"


def oracle_max(subject: Subject) -> Finding:
    """The oracle earns 1 and succeeds on every seed."""
    played = [subject.probe.best(seed) for seed in subject.seeds]
    short = [one for one in played if one.reward < 1.0 or not one.success]
    mean = fmean(one.reward for one in played)
    bound = "reward 1 and success on every seed"
    if short:
        failed = [check["name"] for check in short[0].verdict["checks"] if not check["passed"]]
        seen = (
            f"seed {short[0].seed} earns {short[0].reward:.3g} (not passed: {', '.join(failed) or 'none'}); "
        )
        return Finding(
            "fail", f"{seen}{len(short)} of {len(played)} seeds fall short", mean, len(played), bound
        )
    return Finding("pass", f"mean {mean:.3g}", mean, len(played), bound)


def floor_gap(subject: Subject) -> Finding:
    """An agent that says goodbye at once, or nothing at all, earns next to nothing."""
    probe, rules = subject.probe, subject.rules
    best = fmean(probe.best(seed).reward for seed in subject.seeds)
    seeds = subject.seeds[: subject.sizes.floor]
    silent = [probe.play(seed, []).reward for seed in seeds]
    polite = [probe.play(seed, [say("Goodbye.")]).reward for seed in seeds]
    floor = max(fmean(silent), fmean(polite))
    bound = f"floor <= {rules.max_floor}, oracle above it by >= {rules.min_floor_gap}"
    passed = floor <= rules.max_floor and best - floor >= rules.min_floor_gap
    evidence = f"silence {fmean(silent):.3g}, goodbye {fmean(polite):.3g}, oracle {best:.3g}"
    return Finding("pass" if passed else "fail", evidence, floor, 2 * len(silent), bound)


def partial_credit(subject: Subject) -> Finding:
    """The reward never falls along the oracle's path: more of the work never earns less."""
    probe, levels = subject.probe, set()
    seeds = subject.seeds[: subject.sizes.attack]
    bound = "rewards of the oracle's first 0, 1, ... messages never fall"
    for seed in seeds:
        script = probe.oracle(seed)
        rewards = [probe.play(seed, script[:k]).reward for k in range(len(script) + 1)]
        levels |= {round(reward, 6) for reward in rewards}
        for k, (before, after) in enumerate(itertools.pairwise(rewards), start=1):
            if after < before - 1e-9:
                seen = f"seed {seed}: message {k} lowers the reward from {before:.3g} to {after:.3g}"
                return Finding("fail", seen, after - before, len(seeds), bound)
    shown = ", ".join(f"{level:.3g}" for level in sorted(levels)[:8])
    return Finding("pass", f"{len(levels)} levels of reward: {shown}", len(levels), len(seeds), bound)


def balance(subject: Subject) -> Finding:
    """Where seeds call for different changes, or for none, no kind prevails: guessing does not pay."""
    probe, n = subject.probe, len(subject.seeds)
    kinds = Counter(
        next((c["name"] for c in reversed(calls_in(probe.oracle(s))) if probe.writes(c["name"])), NO_WRITE)
        for s in subject.seeds
    )
    bound = f"no last change on more than {subject.rules.max_same_kind:.0%} of seeds"
    shown = ", ".join(f"{name} {count}" for name, count in kinds.most_common(6))
    if len(kinds) == 1:
        return Finding("pass", f"every seed calls for the same: {shown}", None, n, bound)
    count = kinds.most_common(1)[0][1]
    low, high = wilson(count, n)
    passed = count / n <= subject.rules.max_same_kind
    return Finding("pass" if passed else "fail", shown, count / n, n, bound, low=low, high=high)


CHECKS = (
    AuditCheck(
        "semantic.oracle_max", "semantic", oracle_max, ("runtime.episode_isolation", "trace.oracle_ends")
    ),
    AuditCheck("semantic.floor_gap", "semantic", floor_gap, ("semantic.oracle_max",)),
    AuditCheck("trace.partial_credit", "semantic", partial_credit, ("semantic.floor_gap",)),
    AuditCheck("trace.balance", "semantic", balance, ("semantic.oracle_max",)),
)
