"""Operators that add a change nobody asked for: before the right one, behind it, or to another object."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves, tells_error
from trace_assets.environments.audit.allowed_ways import as_good, told_to_agents
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Call,
    Played,
    Probe,
    arguments_for,
    calls_in,
    shown_like,
    thing_of,
)
from trace_assets.environments.audit.trials import other_changes

ADDED = "mutant"
"""Id of a call that a mutant adds."""


def changes_in(probe: Probe, script: Sequence[Action]) -> list[tuple[int, int]]:
    """Return where a script's changes are: message and call."""
    return [
        (i, j)
        for i, action in enumerate(script)
        for j, one in enumerate(action.get("tool_calls") or ())
        if probe.writes(one["name"])
    ]


def extra_write(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes one more change to an object, before closing."""
    script = probe.oracle(seed)
    for thing in dict.fromkeys(thing_of(one) for one in calls_in(script)):
        used = {one["name"] for one in calls_in(script) if thing_of(one) == thing}
        others = other_writes(probe, seed, thing, used, rng)
        for name, arguments in [one for one in others if not probe.leaves_words(one[0])][:1]:
            if probe.hands_over(name) and not changes_in(probe, script):
                continue  # a refusal that is handed over is a refusal
            yield before_closing(script, _added(name, arguments))


def wrong_first(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a wrong change to the object before the right one: with another value, or another change."""
    script = probe.oracle(seed)
    for i, j in changes_in(probe, script)[:1]:
        for other in other_changes(probe, seed):
            if thing_of(other) == thing_of(script[i]["tool_calls"][j]):
                yield [*script[:i], _added(other["name"], other["arguments"]), *script[i:]]


def other_object(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Makes a change a second time, to another object that the episode shows."""
    script = probe.oracle(seed)
    for i, j in changes_in(probe, script):
        one = script[i]["tool_calls"][j]
        for key, value in one["arguments"].items():
            like = shown_like(probe, seed, value) if isinstance(value, str) else []
            others = [other for other in like if other not in _named_in(script)]
            if others:
                added = _added(one["name"], {**one["arguments"], key: others[0]})
                yield [*script[: i + 1], added, *script[i + 1 :]]
                break


_PAYS = re.compile(r"(?:pay|refund|reimburse|charge|order|buy)(?:_|$)")
_ENTERS = re.compile(r"(?:post|enter|transfer|credit|debit|deposit)(?:_|$)")
"""Enters something: a sum of money, where the tool's argument says so."""
_MONEY = re.compile(r"amount|sum|price|fee|cents|euros?|dollars?", re.IGNORECASE)


def paid_twice(probe: Probe, seed: int, rng: random.Random) -> Iterator[list[Action]]:
    """Pays, orders or enters the same once more: set twice it stands as before, paid twice it is gone."""
    script = probe.oracle(seed)
    for i, j in changes_in(probe, script):
        one = script[i]["tool_calls"][j]
        money = any(_MONEY.search(key) and isinstance(v, int | float) for key, v in one["arguments"].items())
        pays = _PAYS.match(one["name"]) or (_ENTERS.match(one["name"]) and money)
        if pays and not probe.hands_over(one["name"]):
            yield [*script[: i + 1], _added(one["name"], one["arguments"]), *script[i + 1 :]]


def _named_in(script: Sequence[Action]) -> set[str]:
    """Return all that a script's calls name: what belongs to the object that is meant is no other one."""
    return {str(value) for one in calls_in(script) for _, value in leaves(one["arguments"])}


def _added(name: str, arguments: dict[str, Any]) -> Action:
    return {"role": "assistant", "tool_calls": [{"id": ADDED, "name": name, "arguments": arguments}]}


def was_refused(script: Sequence[Action], one: Played) -> bool:
    """Whether the change that a mutant adds was refused, or never made: then it is no mutant."""
    place = next(n for n, a in enumerate(script) if any(c["id"] == ADDED for c in calls_in((a,))))
    told = one.answers[place]["messages"] if place < len(one.answers) else []
    return not told or any(
        m.get("is_error")
        or m.get("error")
        or (m["role"] == "tool" and tells_error(str(m.get("content") or "")))
        for m in told
    )


def other_writes(
    probe: Probe, seed: int, thing: str, used: set[str], rng: random.Random
) -> list[tuple[str, dict[str, Any]]]:
    """Return other changes that could be made to a thing, in some order."""
    found = [
        (tool["function"]["name"], arguments)
        for tool in probe.tools()
        if probe.writes(tool["function"]["name"]) and tool["function"]["name"] not in used
        for arguments in arguments_for(tool, probe, seed, rng)
        if str(next(iter(arguments.values()), "")) == thing
    ]
    rng.shuffle(found)
    return found


def before_closing(script: list[Action], added: Action) -> list[Action]:
    """Return a script with one more message, before its last words."""
    end = len(script) - (1 if script and not script[-1].get("tool_calls") else 0)
    return [*script[:end], added, *script[end:]]


# Where a change is wrong by one half of a rule: it goes unpaid there, however seldom that half decides.


MIN_SEEDS, MOST_SEEDS = 4, 6
"""Seeds of one reason that are held to the bounds by themselves, and that are played."""


def with_another_tool(subject: Subject) -> dict[str, list[Played]]:
    """Make another change in place of the oracle's only one, and hold each reason for that to the bounds.

    The reason is the oracle's tool, with those of its values that other seeds share. A change that is refused
    changes nothing, and what the texts leave to choose is not wrong.

    Returns:
        Episodes by the tool that is used and the reason against it.
    """
    probe, found = subject.probe, defaultdict[str, list[Played]](list)
    last: dict[int, Call] = {}
    for seed in subject.seeds_of(2 * subject.sizes.attack):
        made = [one for one in calls_in(probe.oracle(seed)) if probe.writes(one["name"])]
        if len(made) == 1:
            last[seed] = made[0]
    shared = Counter(
        (one["name"], key, str(v)) for one in last.values() for key, v in one["arguments"].items()
    )
    for seed, one in last.items():
        script = probe.oracle(seed)
        [(place, _)] = changes_in(probe, script)
        values = [f"{key} {v}" for key, v in one["arguments"].items() if shared[one["name"], key, str(v)] > 1]
        rng = probe.chance(f"half_rules/{seed}")
        for name, given in other_writes(probe, seed, thing_of(one), {one["name"]}, rng):
            words = f"{name} where the oracle's is {' '.join([one['name'], *values])}"
            if probe.hands_over(name) or probe.leaves_words(name) or len(found[words]) == MOST_SEEDS:
                continue
            if as_good(told_to_agents(subject), name, one["name"]):
                continue
            other = {"role": "assistant", "tool_calls": [{"id": ADDED, "name": name, "arguments": given}]}
            edited = [*script[:place], other, *script[place + 1 :]]
            played = probe.play(seed, edited)
            if not was_refused(edited, played):
                found[words].append(played)
    return {words: played for words, played in sorted(found.items()) if len(played) >= MIN_SEEDS}
