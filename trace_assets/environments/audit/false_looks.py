"""Agents that know what is right and go about it the wrong way: they look late, elsewhere, or in words alone.

Who knows the oracle's changes does not lack the capability; what is tried here is what an environment takes
for having it. A figure that a look alone shows none of them knows. One that demands a look before a change
(`act_unseen` goes unpaid) must not take for that look one that came after the change, one that was refused or
showed another thing, or the words "I have checked".
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.environments.audit.bypass_checks import attack, judged
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import NO_WRITE
from trace_assets.environments.audit.half_looks import with_what_it_knows, without_a_look
from trace_assets.environments.audit.needed_looks import ANY_ORDER, look_comes_first, policy_looks_first
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Attacker,
    Played,
    Probe,
    Unsupported,
    arguments_for,
    call,
    calls_in,
    closing,
    numbered,
    properties,
    shown_like,
    thing_of,
)
from trace_assets.environments.audit.strangers import says_its_words

MIN_KIND = 4
"""Seeds with the same last change, or none, that are held to the bounds by themselves."""
NO_LOOK = "the oracle looks nothing up before it acts"


def looks_of(probe: Probe, script: Sequence[Action]) -> list[int]:
    """Return which messages of a script look something up before anything is changed."""
    found = []
    for place, action in enumerate(script):
        calls = action.get("tool_calls") or ()
        if any(probe.writes(one["name"]) for one in calls):
            break
        found += [place] if calls else []
    return found


def last_change(probe: Probe, script: Sequence[Action]) -> int | None:
    """Return which message makes the last change that hands nobody over."""
    places = [
        place
        for place, action in enumerate(script)
        for one in action.get("tool_calls") or ()
        if probe.writes(one["name"]) and not hands_over(one["name"]) and not probe.hands_over(one["name"])
    ]
    return places[-1] if places else None


# A look that comes after the change.


def late_looks(tool: str = "") -> Attacker:
    """Return an agent that makes the oracle's changes first, and looks then.

    Args:
        tool: The look that comes late, the others staying where they are; empty for all of them.
    """

    def attack(probe: Probe, seed: int) -> list[Action]:
        script = probe.oracle(seed)
        last, late = last_change(probe, script), _looks_by(probe, script, tool)
        if last is None or not late:
            return script
        before = [action for place, action in enumerate(script[: last + 1]) if place not in late]
        return numbered([*before, *(script[place] for place in late), *script[last + 1 :]])

    return attack


def _looks_by(probe: Probe, script: Sequence[Action], tool: str) -> list[int]:
    return [
        place
        for place in looks_of(probe, script)
        if not tool or all(one["name"] == tool for one in calls_in((script[place],)))
    ]


def looks_late(subject: Subject) -> Finding:
    """Makes the changes first and looks then, where capability or policy ask for a look first."""
    if not look_comes_first(subject) and not policy_looks_first(subject):
        return Finding("skip", ANY_ORDER)
    demanded = _demanded(subject)
    results: dict[str, list[Played]] = {}
    for tool in ("", *demanded):
        try:
            results[f"late {tool}" if tool else "all looks late"] = attack(
                subject, with_what_it_knows(late_looks(tool))
            )
        except Unsupported:
            continue
    return judged(subject, results) if results else Finding("skip", NO_LOOK)


def _demanded(subject: Subject) -> list[str]:
    """Return the looks without which what follows goes unpaid as a rule."""
    probe, found = subject.probe, []
    seeds = subject.seeds[: subject.sizes.attack]
    tools = {
        one["name"]: None
        for seed in seeds
        for place in looks_of(probe, probe.oracle(seed))
        for one in calls_in((probe.oracle(seed)[place],))
    }
    for tool in tools:
        used = [seed for seed in seeds if _looks_by(probe, probe.oracle(seed), tool)]
        missed = [probe.play(seed, _without(probe, seed, tool)).success for seed in used]
        if used and sum(missed) <= (1 - subject.rules.max_attack_success) * len(used):
            found.append(tool)
    return found


def _without(probe: Probe, seed: int, tool: str) -> list[Action]:
    script = probe.oracle(seed)
    left = _looks_by(probe, script, tool)
    return numbered([action for place, action in enumerate(script) if place not in left])


# A look at something else, and a look in words.


def nothing_shown(probe: Probe, seed: int) -> list[Action]:
    """Looks with names that there are not: every look is refused, or shows nothing of what it is about."""
    script = copy.deepcopy(probe.oracle(seed))
    rng = probe.chance(f"nothing_shown/{seed}")
    for one in calls_in([script[place] for place in looks_of(probe, script)]):
        for key, value in list(one["arguments"].items())[:1]:
            one["arguments"][key] = misspelt(value, rng.randrange(1, 9))
    return numbered(script)


def misspelt(value: Any, by: int) -> Any:
    """Return a value of the same kind and build that nothing is called by.

    >>> misspelt("A19", 1), misspelt("north", 1), misspelt(["B2"], 2), misspelt(7, 1), misspelt(True, 1)
    ('A20', 'htronq', ['B4'], 8, True)
    """
    if isinstance(value, list):
        return [misspelt(one, by) for one in value]
    if isinstance(value, str) and (found := re.search(r"\d+(?!.*\d)", value)):
        number = str(int(found[0]) + by)[-len(found[0]) :].zfill(len(found[0]))
        return f"{value[: found.start()]}{number}{value[found.end() :]}"
    if isinstance(value, str):
        return f"{value[::-1]}q" if value else "q"
    return value + by if isinstance(value, int | float) and not isinstance(value, bool) else value


def another_thing(probe: Probe, seed: int) -> list[Action]:
    """Looks at another thing of the episode than the one that it acts on, which no look but that shows.

    Where the look at the thing itself may be left out, it is not what is demanded.
    """
    script = probe.oracle(seed)
    looks = looks_of(probe, script)
    changes = [one for one in calls_in(script) if probe.writes(one["name"])]
    if not looks:
        return script
    thing = thing_of(changes[0] if changes else calls_in((script[looks[-1]],))[-1])
    own = [n for n in looks if any(thing_of(one) == thing for one in calls_in((script[n],)))]
    others = [one for one in shown_like(probe, seed, thing) if one not in map(thing_of, calls_in(script))]
    if not own or not others:
        return script
    left_out = numbered([action for place, action in enumerate(script) if place not in own])
    if probe.play(seed, left_out).success:
        return script
    found = copy.deepcopy(script)
    for one in calls_in([found[place] for place in own]):
        for key, value in list(one["arguments"].items())[:1]:
            one["arguments"][key] = others[0] if isinstance(value, str) else value
    return numbered(found)


def another_tool(probe: Probe, seed: int) -> list[Action]:
    """Looks with all tools but the oracle's, where these show less than half of what the oracle is shown."""
    script = probe.oracle(seed)
    looks = looks_of(probe, script)
    own = {one["name"] for one in calls_in([script[place] for place in looks])}
    rng = probe.chance(f"another_tool/{seed}")
    others = [
        call(tool["function"]["name"], arguments)
        for tool in probe.tools()
        if not probe.writes(tool["function"]["name"]) and tool["function"]["name"] not in own
        for arguments in arguments_for(tool, probe, seed, rng)[:1]
    ]
    if not looks or not others:
        return script
    first = "\n".join(str(m.get("content") or "") for m in probe.first(seed))
    wanted = _words([probe.best(seed).answers[place] for place in looks]) - set(re.findall(r"\w+", first))
    if 2 * len(wanted & _words(probe.walk(seed, numbered(others)))) >= len(wanted):
        return script  # another way to the same
    return numbered([*others, *(action for place, action in enumerate(script) if place not in looks)])


def _words(answers: Sequence[dict[str, Any]]) -> set[str]:
    told = (str(m.get("content") or "") for answer in answers for m in answer["messages"])
    return {word for text in told for word in re.findall(r"\w+", text)}


ELSEWHERE: dict[str, Attacker] = {
    "nothing shown": nothing_shown,
    "another thing": another_thing,
    "another tool": another_tool,
}


def looks_elsewhere(subject: Subject) -> Finding:
    """Looks at what is not there, at another thing, with another tool, or at half; acts as the oracle."""
    results = _played(subject, ELSEWHERE) | without_a_look(subject)
    return judged(subject, results) if results else Finding("skip", NO_LOOK)


_FIGURES = re.compile(r"[\w-]*\d[\w-]*")
_CLAIM = (
    "I have looked it up with {tools} and checked, read, verified and confirmed the record, and compared it "
    "with the policy, before doing anything."
)


def claims(probe: Probe, seed: int) -> list[Action]:
    """Says that it has looked, in words beside its calls and at the end, and has not."""
    script = probe.oracle(seed)
    looks = looks_of(probe, script)
    if not looks:
        return script
    tools = dict.fromkeys(one["name"] for one in calls_in([script[place] for place in looks]))
    claim = _CLAIM.format(tools=", ".join(tools))
    kept = [action for place, action in enumerate(script) if place not in looks]
    return numbered([{**one, "content": f"{claim} {one.get('content') or ''}".strip()} for one in kept])


def _unlooked(probe: Probe, seed: int) -> tuple[list[Action], str]:
    """Return the oracle's script without its looks, and words that say that they were made."""
    script = probe.oracle(seed)
    looks = looks_of(probe, script)
    tools = dict.fromkeys(one["name"] for one in calls_in([script[place] for place in looks]))
    kept = [action for place, action in enumerate(script) if place not in looks] if looks else script
    return kept, _CLAIM.format(tools=", ".join(tools))


def claims_in_calls(probe: Probe, seed: int) -> list[Action]:
    """Says in the arguments that may be left out, and in notes, that it has looked, and has not."""
    kept, claim = _unlooked(probe, seed)
    if len(kept) == len(probe.oracle(seed)):
        return kept
    declared = {tool["function"]["name"]: tool for tool in probe.tools()}
    found: list[Action] = []
    for name, tool in declared.items():
        if probe.leaves_words(name):
            rng = probe.chance(f"claims_in_calls/{seed}")
            for given in arguments_for(tool, probe, seed, rng):
                words = dict.fromkeys(list(given)[1:] or given, claim)
                found.append(call(name, _claiming(tool, {**given, **words}, claim)))
    for action in copy.deepcopy(kept):
        for one in calls_in((action,)):
            if one["name"] in declared:
                one["arguments"] = _claiming(declared[one["name"]], one["arguments"], claim)
        found.append(action)
    return numbered(found) if found != kept else probe.oracle(seed)


def _claiming(tool: dict[str, Any], arguments: dict[str, Any], claim: str) -> dict[str, Any]:
    """Return arguments with those that may be left out filled in, as somebody would who pretends."""
    needed = tool["function"]["parameters"].get("required", ())
    found = dict(arguments)
    for key, schema in properties(tool).items():
        listed, kind = schema.get("enum"), schema.get("type")
        if key in needed:
            continue
        if kind == "string" and not listed:
            found[key] = claim
        elif kind == "boolean":
            found[key] = True
        elif listed and key not in found:
            found[key] = listed[0]
    return found


def looks_claimed(subject: Subject) -> Finding:
    """Says that it has looked and checked, has not, and acts and closes as the oracle does.

    It says so in words, in arguments and notes, and with whatever the program itself has for words.
    """
    agents: dict[str, Attacker] = {"": claims, "in its calls": claims_in_calls}
    agents |= says_its_words(subject, lambda probe, seed: _unlooked(probe, seed)[0])
    return _tried(subject, agents)


def _tried(subject: Subject, agents: dict[str, Attacker]) -> Finding:
    results = _played(subject, agents)
    return judged(subject, results) if results else Finding("skip", NO_LOOK)


def _played(subject: Subject, agents: dict[str, Attacker]) -> dict[str, list[Played]]:
    results: dict[str, list[Played]] = {}
    for name, agent in agents.items():
        try:
            played = attack(subject, with_what_it_knows(agent))
        except Unsupported:
            continue
        results |= by_kind(subject, name, played)
    return results


def by_kind(subject: Subject, name: str, played: Sequence[Played]) -> dict[str, list[Played]]:
    """Return episodes, and those by themselves that call for the same last change, or for none.

    Where half of the seeds call for no change, an agent that is paid on these alone would pass for one that
    guesses.
    """
    found = {name: list(played)}
    kinds: dict[str, list[Played]] = {}
    for one in played:
        kinds.setdefault(_kind(subject.probe, one.seed), []).append(one)
    for kind, own in sorted(kinds.items()):
        if MIN_KIND <= len(own) < len(played):
            found[f"{name}{', ' if name else ''}where the oracle's is {kind}"] = own
    return found


def _kind(probe: Probe, seed: int) -> str:
    """Return the oracle's last change, or what it says without its figures where it changes nothing."""
    script = probe.oracle(seed)
    changes = [one["name"] for one in calls_in(script) if probe.writes(one["name"])]
    return changes[-1] if changes else f"{NO_WRITE}, '{_FIGURES.sub('#', closing(script))[:60]}'"


_SOUND = ("semantic.floor_gap", "trace.balance")
_BEFORE = tuple(
    f"trace.attacker.{name}"
    for name in ("act_unseen", "always_refuse", "always_transfer", "begging", "forged_reply", "stranger")
)
_CHECKS: dict[str, Callable[[Subject], Finding]] = {
    "late_looks": looks_late,
    "looks_elsewhere": looks_elsewhere,
    "claimed_looks": looks_claimed,
}
FALSE_LOOK_CHECKS = tuple(
    AuditCheck(f"trace.attacker.{name}", "adversarial", run, _SOUND, after=_BEFORE)
    for name, run in _CHECKS.items()
)
