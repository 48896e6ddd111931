"""Operators that change an oracle's script, and which of them do harm: decided by rule, never by the reward.

Harmful are operators after which another state, or another answer, stands than was asked for: a change is
missing, hits another object, has another amount or value, is another change, or one that nobody asked for is
added. Harmless are those after which the same changes were made and the same was said: reads added, repeated
or in another order, other call ids, another order of arguments, politer words.

A mutant that turns out to be equivalent is counted as neither: an added change that the environment refuses
with an error leaves the state as it was, and a mutant that equals the script is none.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from trace_assets.environments.audit.added_changes import (
    changes_in,
    extra_write,
    other_object,
    other_writes,
    paid_twice,
    was_refused,
    with_another_tool,
    wrong_first,
)
from trace_assets.environments.audit.allowed_ways import (
    as_good,
    corrections_count,
    gives_the_form,
    refused_in_words,
    told_to_agents,
)
from trace_assets.environments.audit.bypass_checks import judged
from trace_assets.environments.audit.check import MAX_TURNS, AuditCheck, Finding, Subject
from trace_assets.environments.audit.operators import (
    late_read,
    moves,
    other_amount,
    other_digits,
    other_figure,
    other_items,
    other_order,
    other_words,
    passes_time,
    repeat_read,
    says_figure,
    says_order,
    says_yes,
    swap_reads,
    unasked,
)
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Probe,
    calls_in,
    closing,
    numbered,
    properties,
    say,
    thing_of,
)
from trace_assets.stats.intervals import score_interval

Effect = Literal["harmful", "harmless"]
Operator = Callable[[Probe, int, random.Random], Iterator[list[Action]]]
MOST_A_SEED = 2
"""Mutants of one operator on one seed: more of them would tell the same again."""
NEIGHBOURS = 12
"""Other seeds that ids and values are taken from."""
BY_ITSELF = "other_amount"
"""Held to the bound of an operator alone: what it has killed must not outweigh what another spares."""
_ID = re.compile(r"\d")


@dataclass(frozen=True)
class Mutation:
    """An operator and what its mutants deserve.

    Attributes:
        adds: Tool calls that its mutants add; refused ones change nothing, which makes them equivalent.
        reads: Its mutants look at other times. Where that is answered otherwise, time passes with it, or what
            was looked at is gone: then it is not the same that is done.
        where: Whether it is tried on an environment.
    """

    name: str
    effect: Effect
    apply: Operator
    adds: bool = False
    reads: bool = False
    where: Callable[[Subject], bool] = lambda subject: True


def _edited(script: list[Action], at: tuple[int, int], **fields: Any) -> list[Action]:
    """Return a script with one call changed."""
    edited = copy.deepcopy(script)
    edited[at[0]]["tool_calls"][at[1]].update(copy.deepcopy(fields))
    return edited


def drop_write(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Leaves a change out."""
    script = probe.oracle(seed)
    for i, j in changes_in(probe, script):
        left = copy.deepcopy(script)
        del left[i]["tool_calls"][j]
        yield [a for a in left if a.get("tool_calls") or a.get("content")]


def _changed_argument(
    probe: Probe, seed: int, other: Callable[[str, str, Any], list[Any]]
) -> Iterator[list[Action]]:
    script = probe.oracle(seed)
    for at in changes_in(probe, script):
        one = script[at[0]]["tool_calls"][at[1]]
        for key, value in one["arguments"].items():
            for new in other(one["name"], key, value):
                if json.dumps(new) != json.dumps(value):
                    yield _edited(script, at, arguments={**one["arguments"], key: new})


def swap_id(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change to another object: another of the episode, or one of another seed."""

    def others(name: str, key: str, value: Any) -> list[Any]:
        if not isinstance(value, str) or not _ID.search(value) or " " in value.strip():
            return []  # words that hold a number are no name of an object
        near = [seed, *range(seed + 1, seed + NEIGHBOURS)]
        found = [c["arguments"].get(key) for s in near for c in calls_in(probe.oracle(s))]
        return [v for v in dict.fromkeys(v for v in found if isinstance(v, str)) if v != value][:1]

    return _changed_argument(probe, seed, others)


def off_by_one(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with an amount that is one too high or too low."""

    def others(name: str, key: str, value: Any) -> list[Any]:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return [value + rng.choice((-1, 1))] if number else []

    return _changed_argument(probe, seed, others)


def other_value(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change with another of the values that the schema lists, or with the other truth value.

    Only where the value depends on the episode: one that the oracle gives on every seed is a convention,
    which a verifier may demand or not.
    """
    known = [c for s in range(seed, seed + NEIGHBOURS) for c in calls_in(probe.oracle(s))]

    def others(name: str, key: str, value: Any) -> list[Any]:
        if len({json.dumps(c["arguments"].get(key)) for c in known if c["name"] == name}) < 2:
            return []
        if isinstance(value, bool):
            return [not value]
        tool = next((t for t in probe.tools() if t["function"]["name"] == name), None)
        schema = properties(tool).get(key, {}) if tool else {}
        listed = [v for v in schema.get("enum", ()) if v != value]
        return [rng.choice(listed)] if listed else []

    return _changed_argument(probe, seed, others)


def other_tool(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes another change to the same object instead."""
    script = probe.oracle(seed)
    for at in changes_in(probe, script):
        one = script[at[0]]["tool_calls"][at[1]]
        for name, arguments in other_writes(probe, seed, thing_of(one), {one["name"]}, rng)[:1]:
            yield _edited(script, at, name=name, arguments=arguments)


def wrong_answer(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Says another number where the answer is all that there is to do."""
    script = probe.oracle(seed)
    words = closing(script)
    number = re.search(r"(?<![\w.])\d{1,9}(?![\w]|\.\d)", words[:1000])
    if changes_in(probe, script) or number is None:
        return
    wrong = f"{words[: number.start()]}{int(number[0]) + rng.choice((1, 2, 3))}{words[number.end() :]}"
    yield [*script[:-1], say(wrong)]


def other_call_ids(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Gives the calls other ids."""
    script = copy.deepcopy(probe.oracle(seed))
    for number, one in enumerate(calls_in(script)):
        one["id"] = f"chatcmpl-tool-{rng.randrange(16**8):08x}-{number}"
    yield script


def other_key_order(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Gives the arguments in the reverse order."""
    script = copy.deepcopy(probe.oracle(seed))
    for one in calls_in(script):
        one["arguments"] = dict(reversed(one["arguments"].items()))
    if any(len(one["arguments"]) > 1 for one in calls_in(script)):
        yield script


def polite(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Frames the closing words politely."""
    script = probe.oracle(seed)
    if script and script[-1].get("content") and not script[-1].get("tool_calls"):
        words = script[-1]["content"]
        yield [*script[:-1], say(f"Thank you for your patience. {words} Have a nice day!")]


def _wrong_stays_wrong(subject: Subject) -> bool:
    """Whether nothing says that what was wrong may be put right, and then counts as right."""
    return not corrections_count(subject)


def _words_are_free(subject: Subject) -> bool:
    """Whether nothing says with which words alone it is answered."""
    return not gives_the_form(told_to_agents(subject))


MUTATIONS = (
    Mutation("drop_write", "harmful", drop_write),
    Mutation("swap_id", "harmful", swap_id),
    Mutation("off_by_one", "harmful", off_by_one),
    Mutation("other_value", "harmful", other_value),
    Mutation("other_items", "harmful", other_items),
    Mutation("other_words", "harmful", other_words),
    Mutation("other_amount", "harmful", other_amount),
    Mutation("other_digits", "harmful", other_digits),
    Mutation("other_tool", "harmful", other_tool),
    Mutation("extra_write", "harmful", extra_write, adds=True),
    Mutation("wrong_first", "harmful", wrong_first, adds=True, where=_wrong_stays_wrong),
    Mutation("other_object", "harmful", other_object, adds=True),
    Mutation("paid_twice", "harmful", paid_twice, adds=True),
    Mutation("wrong_answer", "harmful", wrong_answer),
    Mutation("other_order", "harmful", other_order, where=says_order),
    Mutation("unasked", "harmful", unasked, where=says_yes),
    Mutation("other_figure", "harmful", other_figure, where=says_figure),
    Mutation("repeat_read", "harmless", repeat_read, reads=True),
    Mutation("late_read", "harmless", late_read, reads=True),
    Mutation("swap_reads", "harmless", swap_reads, reads=True),
    Mutation("other_call_ids", "harmless", other_call_ids),
    Mutation("other_key_order", "harmless", other_key_order),
    Mutation("polite", "harmless", polite, where=_words_are_free),
)


# Verifier mutation: harmful mutants of the oracle's script must lose reward, harmless ones must not.


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
    found = _rate(subject, "harmful", bound, subject.rules.min_kill_rate)
    halves = with_another_tool(subject) if found.status == "pass" else {}
    half = judged(subject, halves) if halves else found
    return half if half.status == "fail" else found


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
    counted = [one for one in mutants if one.operator != BY_ITSELF] or mutants
    right = sum(one.right for one in counted)
    rate, seeds = right / len(counted), len({one.seed for one in mutants})
    # Mutants of one seed stand and fall together: the interval counts seeds, which is the careful side.
    low, high = score_interval(rate, seeds)
    words = _by_operator(mutants)
    words += f"; {equivalent} not counted: equivalent, or too long" if equivalent else ""
    wrong = next((one for one in mutants if not one.right), None)
    if wrong is not None:
        words += f"; such as {wrong.operator} on seed {wrong.seed}: reward {wrong.reward:.3g}"
        words += _what_it_does(wrong.operator)
    worst = min(_shares(mutants).values())
    passed = rate >= least and worst >= subject.rules.min_operator_rate
    bound += f", each operator >= {subject.rules.min_operator_rate:.0%}"
    return Finding("pass" if passed else "fail", words, rate, len(mutants), bound, low=low, high=high)


def _what_it_does(operator: str) -> str:
    """Say what an operator does to a script: by its name alone nobody knows what to change.

    >>> _what_it_does("drop_write")
    ' (it leaves a change out)'
    """
    said = next((str(one.apply.__doc__) for one in MUTATIONS if one.name == operator), "").split(".")[0]
    return f" (it {said[0].lower()}{' '.join(said[1:].split())})" if said else ""


def _mutants(subject: Subject, effect: Effect) -> tuple[list[Mutant], int]:
    """Play the mutants of one kind; return those that count, and how many were equivalent."""
    played: list[Mutant] = []
    equivalent = 0
    for mutation in (one for one in MUTATIONS if one.effect == effect):
        if not mutation.where(subject):
            continue
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
    if mutation.adds and was_refused(script, one):
        return None
    if mutation.reads and moves(best, one):
        return None
    if mutation.name == "drop_write" and one.success and refused_in_words(subject):
        left = calls_in(script)
        if all(probe.hands_over(c["name"]) for c in calls_in(probe.oracle(seed)) if c not in left):
            return None
    if mutation.name == "other_tool" and _leaves_the_choice(subject, probe.oracle(seed), script):
        return None
    if mutation.effect == "harmful":
        right = one.reward <= best.reward - subject.rules.min_mutant_loss and not one.success
    else:
        right = one.reward >= best.reward - 1e-9 and one.success
        if not right and mutation.reads and _passes_time(subject, seed, script):
            return None
    return Mutant(mutation.name, seed, one.reward, right)


def _passes_time(subject: Subject, seed: int, script: Sequence[Action]) -> bool:
    return passes_time(subject.probe, subject.seeds[: subject.sizes.mutated], seed, script)


def _leaves_the_choice(subject: Subject, script: Sequence[Action], other: Sequence[Action]) -> bool:
    """Whether the texts leave the choice between the two tools that a mutant and the oracle differ in."""
    pairs = zip(calls_in(script), calls_in(other), strict=False)
    differ = [(one["name"], two["name"]) for one, two in pairs if one["name"] != two["name"]]
    return bool(differ) and all(as_good(told_to_agents(subject), *pair) for pair in differ)


def _shares(mutants: Sequence[Mutant]) -> dict[str, float]:
    names = dict.fromkeys(one.operator for one in mutants)
    return {name: fmean(one.right for one in mutants if one.operator == name) for name in names}


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
