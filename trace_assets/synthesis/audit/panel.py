"""The adversarial panel: every scripted attacker must earn clearly less than the honest oracle."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from trace_assets.statistics.wilson import score_interval
from trace_assets.synthesis.audit.attackers import ATTACKERS, Attacker, Unsupported
from trace_assets.synthesis.audit.attackers.busy import same_tool
from trace_assets.synthesis.audit.attackers.hostile import grep
from trace_assets.synthesis.audit.attackers.script import calls_in
from trace_assets.synthesis.audit.attackers.strangers import DEEDS, STYLES, stranger
from trace_assets.synthesis.audit.check import AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.probe import Action, Played

SAME = "its script is the oracle's own on every seed"


def attack(subject: Subject, attacker: Attacker) -> list[Played]:
    """Play an attacker on the seeds of the panel, without those on which it happens to do what is right.

    One that was told what is right did not happen to do it.

    Raises:
        Unsupported: It cannot be tried here.
    """
    probe, played = subject.probe, []
    for seed in subject.seeds[: subject.sizes.attack]:
        script = attacker(probe, seed)
        if attacker is grep or _deeds(script) != _deeds(probe.oracle(seed)):
            played.append(probe.play(seed, script))
    if not played:
        raise Unsupported(SAME)
    return played


def _deeds(script: list[Action]) -> list[object]:
    calls = [[one["name"], one["arguments"]] for one in calls_in(script)]
    return [calls, [action.get("content") for action in script if action.get("content")]]


def judged(subject: Subject, results: dict[str, list[Played]]) -> Finding:
    """Hold the attackers' mean rewards against the oracle's; the worst one is shown."""
    rules = subject.rules
    best = fmean(subject.probe.best(seed).reward for seed in subject.seeds)
    means = {name: fmean(one.reward for one in played) for name, played in results.items()}
    rates = {name: fmean(one.success for one in played) for name, played in results.items()}
    broken = [
        name
        for name in results
        if best - means[name] < rules.min_attack_margin or rates[name] > rules.max_attack_success
    ]
    worst = max(broken or results, key=lambda name: (rates[name], means[name], name))
    top = max(results[worst], key=lambda one: one.reward)
    n = len(results[worst])
    low, high = score_interval(means[worst], n)
    evidence = (
        f"{worst}{': ' if worst else ''}mean reward {means[worst]:.3g}, success {rates[worst]:.0%}, "
        f"oracle {best:.3g}; most on seed {top.seed}: {top.reward:.3g}"
    )
    bound = f"<= oracle - {rules.min_attack_margin}, success <= {rules.max_attack_success:.0%}"
    return Finding("fail" if broken else "pass", evidence, means[worst], n, bound, low=low, high=high)


def _scripted(attacker: Attacker) -> Callable[[Subject], Finding]:
    def run(subject: Subject) -> Finding:
        try:
            return judged(subject, {"": attack(subject, attacker)})
        except Unsupported as reason:
            return Finding("skip", str(reason))

    run.__doc__ = attacker.__doc__
    return run


def always_the_same(subject: Subject) -> Finding:
    """Looks every object up and then always uses the same tool; the tool that earns most counts."""
    results: dict[str, list[Played]] = {}
    for name in (tool["function"]["name"] for tool in subject.probe.tools()):
        try:
            results[f"always {name}"] = attack(subject, same_tool(name))
        except Unsupported:
            continue
    return judged(subject, results) if results else Finding("skip", SAME)


def unknown_agents(subject: Subject) -> Finding:
    """Does and says what no audit has seen before; the kind of deeds and words that earns most counts."""
    results: dict[str, list[Played]] = {}
    for deeds in DEEDS:
        for style in STYLES:
            try:
                results[f"{deeds}, says {style}"] = attack(subject, stranger(deeds, style))
            except Unsupported:
                continue
    return judged(subject, results) if results else Finding("skip", SAME)


_SOUND = ("semantic.floor_gap", "trace.balance")
_NEEDS: dict[str, tuple[str, ...]] = {"grep": ("semantic.no_solution_leakage",)}
CHECKS = (
    *(
        AuditCheck(
            f"trace.attacker.{name}", "adversarial", _scripted(attacker), _SOUND + _NEEDS.get(name, ())
        )
        for name, attacker in ATTACKERS.items()
    ),
    AuditCheck("trace.attacker.same_tool", "adversarial", always_the_same, _SOUND),
    AuditCheck(
        "trace.attacker.stranger",
        "adversarial",
        unknown_agents,
        _SOUND,
        after=tuple(f"trace.attacker.{name}" for name in (*ATTACKERS, "same_tool")),
    ),
)
