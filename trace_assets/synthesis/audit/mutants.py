"""Verifier mutation: harmful mutants of the oracle's script must lose reward, harmless ones must not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_assets.statistics.wilson import score_interval, wilson
from trace_assets.synthesis.audit.attackers.script import numbered
from trace_assets.synthesis.audit.check import MAX_TURNS, AuditCheck, Finding, Subject
from trace_assets.synthesis.audit.mutation import MUTATIONS, Effect, Mutation
from trace_assets.synthesis.audit.probe import Action

MOST_A_SEED = 2
"""Mutants of one operator on one seed: more of them would tell the same again."""


@dataclass(frozen=True)
class Mutant:
    """One played mutant.

    Attributes:
        right: It lost reward as a harmful one must, or kept all of it as a harmless one must.
    """

    operator: str
    seed: int
    reward: float
    right: bool


def kill_rate(subject: Subject) -> Finding:
    """Harmful mutants of the oracle's script lose reward: dropped, misdirected, wrong and added changes."""
    lost = subject.rules.min_mutant_loss
    bound = f">= {subject.rules.min_kill_rate:.0%} lose at least {lost} and succeed no more"
    return _rate(subject, "harmful", bound, subject.rules.min_kill_rate)


def harmless_kept(subject: Subject) -> Finding:
    """Harmless mutants of the oracle's script keep the whole reward: reads, ids, order, polite words."""
    return _rate(
        subject,
        "harmless",
        f">= {subject.rules.min_spared_rate:.0%} keep reward and success",
        subject.rules.min_spared_rate,
    )


def _rate(subject: Subject, effect: Effect, bound: str, least: float) -> Finding:
    mutants, equivalent = _mutants(subject, effect)
    if not mutants:
        return Finding("skip", f"no operator makes a {effect} mutant of this oracle")
    right = sum(one.right for one in mutants)
    rate, seeds = right / len(mutants), len({one.seed for one in mutants})
    # Mutants of one seed stand and fall together: the interval counts seeds, which is the careful side.
    low, high = wilson(seeds * int(rate), seeds) if rate in (0.0, 1.0) else score_interval(rate, seeds)
    words = _by_operator(mutants)
    words += f"; {equivalent} not counted: equivalent, or too long" if equivalent else ""
    wrong = next((one for one in mutants if not one.right), None)
    if wrong is not None:
        words += f"; such as {wrong.operator} on seed {wrong.seed}: reward {wrong.reward:.3g}"
    worst = min(_shares(mutants).values())
    passed = rate >= least and worst >= subject.rules.min_operator_rate
    bound += f", each operator >= {subject.rules.min_operator_rate:.0%}"
    return Finding("pass" if passed else "fail", words, rate, len(mutants), bound, low=low, high=high)


def _mutants(subject: Subject, effect: Effect) -> tuple[list[Mutant], int]:
    """Play the mutants of one kind; return those that count, and how many were equivalent."""
    played: list[Mutant] = []
    equivalent = 0
    for mutation in (one for one in MUTATIONS if one.effect == effect):
        for seed in subject.seeds[: subject.sizes.mutated]:
            rng = subject.probe.chance(f"mutation/{mutation.name}/{seed}")
            scripts = list(mutation.apply(subject.probe, seed, rng))
            for script in rng.sample(scripts, min(MOST_A_SEED, len(scripts))):
                mutant = _play(subject, mutation, seed, script)
                if mutant is None:
                    equivalent += 1
                else:
                    played.append(mutant)
    return played, equivalent


def _play(subject: Subject, mutation: Mutation, seed: int, script: Sequence[Action]) -> Mutant | None:
    """Play one mutant; None when it is equivalent to the oracle's script by rule."""
    probe, best = subject.probe, subject.probe.best(seed)
    if mutation.effect == "harmless" and len(script) > MAX_TURNS:
        return None
    keeps_ids = mutation.name == "other_call_ids"
    one = probe.play(seed, script if keeps_ids else numbered(script))
    if mutation.adds and len(one.answers) > 1:
        added = one.answers[-2]["messages"] if one.actions[-1].get("content") else one.answers[-1]["messages"]
        if any(message.get("is_error") or message.get("error") for message in added):
            return None
    if mutation.effect == "harmful":
        right = one.reward <= best.reward - subject.rules.min_mutant_loss and not one.success
    else:
        right = one.reward >= best.reward - 1e-9 and one.success
    return Mutant(mutation.name, seed, one.reward, right)


def _shares(mutants: Sequence[Mutant]) -> dict[str, float]:
    names = dict.fromkeys(one.operator for one in mutants)
    return {
        name: sum(one.right for one in mutants if one.operator == name)
        / sum(one.operator == name for one in mutants)
        for name in names
    }


def _by_operator(mutants: Sequence[Mutant]) -> str:
    return ", ".join(
        f"{name} {sum(one.right for one in mutants if one.operator == name)}"
        f"/{sum(one.operator == name for one in mutants)}"
        for name in _shares(mutants)
    )


CHECKS = (
    AuditCheck(
        "trace.mutation.kill_rate",
        "mutation",
        kill_rate,
        ("semantic.floor_gap", "trace.balance"),
        after=("trace.attacker.stop_early", "trace.attacker.overact", "trace.attacker.same_tool"),
    ),
    AuditCheck("trace.mutation.harmless", "mutation", harmless_kept, ("semantic.floor_gap",)),
)
