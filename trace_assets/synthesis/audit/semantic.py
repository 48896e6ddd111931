"""Whether the reward means what it should: all for the oracle, nothing for idleness, little for tricks."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from trace_assets.synthesis.audit.attackers import ATTACKERS, Attacker, messy, same_tool, say
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.probe import Probe


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
    probe = subject.probe
    best = fmean(probe.best(seed).reward for seed in subject.seeds)
    seeds = subject.seeds[: subject.sizes.floor]
    silent = [probe.play(seed, []).reward for seed in seeds]
    polite = [probe.play(seed, [say("Goodbye.")]).reward for seed in seeds]
    floor = max(fmean(silent), fmean(polite))
    bound = f"floor <= {subject.rules.max_floor}, oracle above it by >= {subject.rules.min_floor_gap}"
    passed = floor <= subject.rules.max_floor and best - floor >= subject.rules.min_floor_gap
    evidence = f"silence {fmean(silent):.3g}, goodbye {fmean(polite):.3g}, oracle {best:.3g}"
    return Finding("pass" if passed else "fail", evidence, floor, 2 * len(silent), bound)


def verifier_determinism(subject: Subject) -> Finding:
    """The reward of recorded actions is the same when a fresh sandbox computes it."""
    probe = subject.probe
    seeds = subject.seeds[: subject.sizes.replayed]
    played = [probe.play(seed, script(probe, seed)) for seed in seeds for script in (Probe.oracle, messy)]
    bound = "reward, success and checks equal in a fresh sandbox"
    with probe.fresh() as box:
        for one in played:
            again = box.play(one.seed, one.actions)
            if again.verdict != one.verdict:
                seen = f"seed {one.seed}: {one.reward!r}, then {again.reward!r} for the same actions"
                return Finding("fail", seen, None, len(played), bound)
    return Finding("pass", "all agree", None, len(played), bound)


def _attack(subject: Subject, attacker: Attacker) -> tuple[float, float, int]:
    """Return an attacker's mean reward, its success rate, and the number of seeds."""
    seeds = subject.seeds[: subject.sizes.attack]
    played = [subject.probe.play(seed, attacker(subject.probe, seed)) for seed in seeds]
    return fmean(one.reward for one in played), fmean(one.success for one in played), len(played)


def _judged(subject: Subject, results: dict[str, tuple[float, float, int]]) -> Finding:
    best = fmean(subject.probe.best(seed).reward for seed in subject.seeds)
    worst = max(results, key=lambda name: (results[name][0], name))
    reward, success, n = results[worst]
    broken = [
        name
        for name, (mean, rate, _) in results.items()
        if best - mean < subject.rules.min_attack_margin or rate > subject.rules.max_attack_success
    ]
    bound = (
        f"<= oracle - {subject.rules.min_attack_margin}, success <= {subject.rules.max_attack_success:.0%}"
    )
    name = f"{worst}: " if worst else ""
    evidence = f"{name}mean reward {reward:.3g}, success {success:.0%}, oracle {best:.3g}"
    return Finding("fail" if broken else "pass", evidence, reward, n, bound)


def _scripted(attacker: Attacker) -> Callable[[Subject], Finding]:
    def run(subject: Subject) -> Finding:
        return _judged(subject, {"": _attack(subject, attacker)})

    return run


def always_the_same(subject: Subject) -> Finding:
    """No single tool, used always, does well: the worst tool counts."""
    names = [tool["function"]["name"] for tool in subject.probe.tools()]
    return _judged(subject, {f"always {name}": _attack(subject, same_tool(name)) for name in names})


_SOUND = ("semantic.floor_gap",)
CHECKS = (
    AuditCheck(
        "semantic.verifier_determinism", "semantic", verifier_determinism, ("runtime.episode_isolation",)
    ),
    AuditCheck("semantic.oracle_max", "semantic", oracle_max, ("semantic.verifier_determinism",)),
    AuditCheck("semantic.floor_gap", "semantic", floor_gap, ("semantic.oracle_max",)),
    *(
        AuditCheck(f"trace.attacker.{name}", "adversarial", _scripted(attacker), _SOUND)
        for name, attacker in ATTACKERS.items()
    ),
    AuditCheck("trace.attacker.same_tool", "adversarial", always_the_same, _SOUND),
)
