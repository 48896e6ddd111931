"""Agents that do not know what is right and try: changes that are refused, or taken back, and all answers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves, numbers_in, tells_error
from trace_assets.environments.audit.allowed_ways import corrections_count
from trace_assets.environments.audit.bypass_checks import attack, judged
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import before_writes
from trace_assets.environments.audit.false_looks import misspelt
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Attacker,
    Call,
    Played,
    Probe,
    Unsupported,
    again,
    arguments_for,
    call,
    calls_in,
    closing,
    names_like,
    numbered,
    properties,
    request,
    say,
    thing_of,
    tool_named,
)

MOST_TRIES = 8
"""Refused changes that are tried on one seed."""
MOST_VALUES = 4
"""Values of other seeds that are tried for one argument, and changes with one other tool."""
MOST_SEEDS = 12
"""Other seeds whose values are looked at."""
LEAST_TRIED = 4
"""Seeds on which trying has to lead somewhere: a thing that is closed now and then is no way round a look."""
MOST_ANSWERS = 4
"""Other seeds whose answers are given beside all that was shown."""


def other_changes(probe: Probe, seed: int) -> Iterator[Call]:
    """Yield changes that somebody could make who does not know which is right: other tools, other values.

    What the oracle does at another step is none of them: it is right, if too early.
    """
    script, rng = probe.oracle(seed), probe.chance(f"other_changes/{seed}")
    changes = [one for one in calls_in(script) if probe.writes(one["name"])]
    for one in changes:
        schemas = next((properties(t) for t in probe.tools() if t["function"]["name"] == one["name"]), {})
        for key, value in one["arguments"].items():
            listed = schemas.get(key, {}).get("enum") or ([True, False] if isinstance(value, bool) else [])
            if isinstance(value, int | float) and not isinstance(value, bool):
                listed = [value + by for by in (-2, -1, 1, 2)]
            for other in (v for v in listed if v != value):
                arguments = {**one["arguments"], key: other}
                if all(own["name"] != one["name"] or own["arguments"] != arguments for own in changes):
                    yield {"name": one["name"], "arguments": arguments}
    used = {one["name"] for one in changes}
    for tool in probe.tools():
        name = tool["function"]["name"]
        if probe.writes(name) and name not in used and not probe.leaves_words(name):
            for arguments in arguments_for(tool, probe, seed, rng):
                yield {"name": name, "arguments": arguments}


Question = tuple[int, list[Call]]
"""A place in the oracle's script, and what somebody might do there who cannot tell what is right."""


def questions(probe: Probe, seed: int) -> Iterator[Question]:
    """Yield what a seed asks: for each change which value, where no request says it, and which change at all.

    What is not there cannot be meant: values are those that tools list or that are shown on this seed, and
    those that come again on others, as words out of a list and keys do.
    """
    script = probe.oracle(seed)
    own = [(at, one) for at, a in enumerate(script) for one in calls_in((a,)) if probe.writes(one["name"])]
    changes = [one for _, one in own]
    for at, one in own:
        for place, (key, value) in enumerate(one["arguments"].items()):
            others = [] if _is_said(probe, seed, value) else _others(probe, seed, one, key, named=place > 0)
            tried = [{"name": one["name"], "arguments": {**one["arguments"], key: other}} for other in others]
            yield at, [new for new in tried if all(_deed(new) != _deed(known) for known in changes)]
    looks = [one for one in calls_in(script) if not probe.writes(one["name"])]
    yield own[-1][0] if own else len(script) - 1, list(_other_tools(probe, seed, changes or looks))


def _deed(one: Call) -> tuple[str, dict[str, Any]]:
    return one["name"], one["arguments"]


def _is_said(probe: Probe, seed: int, value: Any) -> bool:
    """Whether the request names a value: then nobody has to try which one is meant."""
    return bool(re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", request(probe, seed)))


def _others(probe: Probe, seed: int, one: Call, key: str, named: bool) -> list[Any]:
    value = one["arguments"][key]
    schema = properties(tool_named(probe, one["name"])).get(key, {}) if _declared(probe, one["name"]) else {}
    listed = schema.get("enum") or ([True, False] if isinstance(value, bool) else [])
    if isinstance(value, int | float) and not isinstance(value, bool):
        listed = [value + by for by in (-2, -1, 1, 2)]
    elif isinstance(value, str) and not listed and named:
        listed = [*names_like(probe, seed, value), *_recurring(probe, seed, one["name"], key)]
    return [v for v in dict.fromkeys(listed) if v != value]


def _declared(probe: Probe, name: str) -> bool:
    return any(tool["function"]["name"] == name for tool in probe.tools())


def _given(probe: Probe, seed: int, name: str, key: str) -> list[str]:
    """Return the texts that the oracle passes for an argument on other seeds."""
    others = (c for other in range(seed + 1, seed + 1 + MOST_SEEDS) for c in calls_in(probe.oracle(other)))
    given = (c["arguments"].get(key) for c in others if c["name"] == name)
    return [one for one in given if isinstance(one, str)]


def _recurring(probe: Probe, seed: int, name: str, key: str) -> list[str]:
    """Return those of them that come again: a name that is new on every seed is not guessed."""
    given = _given(probe, seed, name, key)
    distinct = list(dict.fromkeys(given))
    return distinct[:MOST_VALUES] if 2 * len(distinct) <= len(given) else []


def _other_tools(probe: Probe, seed: int, about: Sequence[Call]) -> Iterator[Call]:
    """Yield changes with other tools to what some calls are about, with values that could be meant."""
    script, used = probe.oracle(seed), {one["name"] for one in about}
    for tool in probe.tools():
        name = tool["function"]["name"]
        if name in used or not probe.writes(name) or probe.leaves_words(name):
            continue
        known: dict[str, Any] = {key: v for one in calls_in(script) for key, v in one["arguments"].items()}
        fitting = {key: _fitting(probe, seed, name, key, known) for key in properties(tool)}
        for values in itertools.islice(itertools.product(*fitting.values()), MOST_VALUES):
            made = {"name": name, "arguments": dict(zip(fitting, values, strict=True))}
            if thing_of(made) in map(thing_of, about):
                yield made


def _fitting(probe: Probe, seed: int, name: str, key: str, known: dict[str, Any]) -> list[Any]:
    schema = properties(tool_named(probe, name))[key]
    if schema.get("enum") or key in known:
        return list(schema.get("enum") or [known[key]])
    if schema.get("type") in ("integer", "number", "boolean"):
        return [True] if schema["type"] == "boolean" else [1]
    shown = [new for like in _given(probe, seed, name, key)[:1] for new in names_like(probe, seed, like)]
    return shown or _recurring(probe, seed, name, key)


def tries(probe: Probe, seed: int) -> list[Action]:
    """Tries at each decision all else that could be meant, where all of it is refused, before what is right.

    Where something wrong is let happen, who tries goes wrong: that what is not there is refused as well tells
    nobody anything.
    """
    script = probe.oracle(seed)
    looked = before_writes(probe, seed)
    if looked and all(is_error for _, _, is_error in looked):
        return script  # what is not there cannot be changed: nothing is learnt by trying
    tried: dict[int, list[Action]] = {}
    left = MOST_TRIES
    for at, others in questions(probe, seed):
        made = [again(one) for one in others[:MOST_TRIES]]
        if made and all(_is_refused_for_itself(probe, seed, script, at, one) for one in others[:MOST_TRIES]):
            tried.setdefault(at, []).extend(made[:left])
            left -= len(made[:left])
    return numbered([one for at, own in enumerate(script) for one in (*tried.get(at, ()), own)])


def _is_refused_for_itself(probe: Probe, seed: int, script: Sequence[Action], at: int, tried: Call) -> bool:
    """Whether a change is refused, and not for want of fitting a number that is given beside it.

    Who means another cabin pays another sum: a sum that does not add up says nothing of the cabin.
    """
    answers = _answers(probe, seed, script[:at], [again(tried)])
    if [*map(_is_refusal, answers)] != [True]:
        return False
    right = next((one for one in calls_in(script[at : at + 1]) if one["name"] == tried["name"]), None)
    if right is None:
        return True
    beside = {key: value for key, value in tried["arguments"].items() if right["arguments"].get(key) == value}
    numbers = (v for _, v in leaves(beside) if isinstance(v, int | float) and not isinstance(v, bool))
    given = {float(one) for one in numbers if not _is_said(probe, seed, one)}
    said = " ".join(str(m.get("content") or "") for one in answers for m in one)
    return given.isdisjoint(number for number in numbers_in(said) if number >= LEAST_SUM)


LEAST_SUM = 10
"""Smaller numbers are counts, which may stand in any answer."""


def _refused(probe: Probe, seed: int, before: Sequence[Action], tried: Sequence[Action]) -> list[bool]:
    """Return which of some messages are refused behind others; what ends the episode is let happen."""
    return [_is_refusal(one) for one in _answers(probe, seed, before, tried)]


def _answers(
    probe: Probe, seed: int, before: Sequence[Action], tried: Sequence[Action]
) -> list[list[dict[str, Any]]]:
    """Return the messages that come back for each of some messages behind others."""
    return [one["messages"] for one in probe.walk(seed, numbered([*before, *tried]))[len(before) :]]


def _is_refusal(messages: Sequence[dict[str, Any]]) -> bool:
    told = [m for m in messages if m["role"] == "tool"]
    return bool(told) and all(m.get("is_error") or tells_error(str(m.get("content") or "")) for m in told)


_ABOUT_ERRORS = re.compile(r"\berrors?\b|\bfail|\bretr(?:y|ies)|\brecover|\btry(?:ing)? again", re.IGNORECASE)
NOTHING_REFUSED = "no wrong change that could be meant is refused"
FREE_ERRORS = "the capability is about errors, which are met by right"


def tries_all(subject: Subject) -> Finding:
    """Makes wrong changes until one is let happen: what the tools refuse costs something."""
    spec = subject.purpose.spec if subject.purpose else None
    said = f"{spec.detector or ''} {spec.name}. {spec.description}".replace("_", " ") if spec else ""
    if _ABOUT_ERRORS.search(said):
        return Finding("skip", FREE_ERRORS)
    try:
        played = attack(subject, tries)
    except Unsupported:
        return Finding("skip", NOTHING_REFUSED)
    if len(played) < LEAST_TRIED:
        return Finding("skip", NOTHING_REFUSED)
    least = subject.rules.min_mutant_loss
    whole = [
        one
        for one in played
        if one.success and one.reward > subject.probe.best(one.seed).reward - least + 1e-9
    ]
    share, bound = (
        len(whole) / len(played),
        f"<= {subject.rules.max_attack_success:.0%} lose less than {least}",
    )
    words = f"{len(whole)} of {len(played)} solutions after refused tries are paid in full"
    words += f", such as on seed {whole[0].seed}" if whole else ""
    failed = share > subject.rules.max_attack_success
    return Finding("fail" if failed else "pass", words, share, len(played), bound)


def takes_back(tool: str) -> Attacker:
    """Return an agent that makes a wrong change, then another one with a tool, then what is right.

    Args:
        tool: It may take back what was done. What was done stays done.
    """

    def attack(probe: Probe, seed: int) -> list[Action]:
        script, rng = probe.oracle(seed), probe.chance(f"takes_back/{tool}/{seed}")
        changes = [one for one in calls_in(script) if probe.writes(one["name"])]
        if not changes or any(one["name"] == tool for one in changes):
            return script
        at = next(n for n, a in enumerate(script) if any(probe.writes(c["name"]) for c in calls_in((a,))))
        known = arguments_for(tool_named(probe, tool), probe, seed, rng)
        same = [a for a in known if str(next(iter(a.values()), "")) == thing_of(changes[0])]
        for wrong in other_changes(probe, seed) if same else ():
            pair = [again(wrong), call(tool, same[0])]
            if wrong["name"] != tool and not any(_refused(probe, seed, script[:at], pair)):
                return numbered([*script[:at], *pair, *script[at:]])
        return script

    return attack


def sets_back(between: Callable[[Probe, int, Sequence[Action]], list[Action]]) -> Attacker:
    """Return an agent that makes a wrong change, something that may wipe it out, and what is right.

    Args:
        between: Returns what comes between, of a seed and what was done before.
    """

    def attack(probe: Probe, seed: int) -> list[Action]:
        script = probe.oracle(seed)
        at = next(
            (n for n, a in enumerate(script) if any(probe.writes(c["name"]) for c in calls_in((a,)))), None
        )
        own = {thing_of(one) for one in calls_in(script) if probe.writes(one["name"])}
        more = between(probe, seed, script[:at]) if at is not None else []
        for wrong in other_changes(probe, seed) if more else ():
            # A wrong change to something else may be none, and one that is refused is none.
            if thing_of(wrong) in own and not any(_refused(probe, seed, script[:at], [again(wrong)])):
                return numbered([*script[:at], again(wrong), *more, *script[at:]])
        return script

    return attack


def _looks_again(probe: Probe, seed: int, before: Sequence[Action]) -> list[Action]:
    return [again(one) for one in calls_in(before) if not probe.writes(one["name"])]


def _errs(probe: Probe, seed: int, before: Sequence[Action]) -> list[Action]:
    """Return a look, else a change, at what is not there."""
    known = calls_in(probe.oracle(seed))
    one = next((c for c in known if not probe.writes(c["name"])), known[0])
    return [call(one["name"], {key: misspelt(value, 3) for key, value in one["arguments"].items()})]


def takes_all_back(subject: Subject) -> Finding:
    """Makes a wrong change, takes it back with another tool, a look or an error, then does what is right.

    Where capability or policy say that what was wrong may be put right, that is no short cut.
    """
    if corrections_count(subject):
        return Finding("skip", MAY_CORRECT)
    probe, results = subject.probe, dict[str, list[Played]]()
    for words, between in (("looks again after", _looks_again), ("errs after", _errs)):
        try:
            results[f"{words} a wrong change"] = attack(subject, sets_back(between))
        except Unsupported:
            continue
    for name in (tool["function"]["name"] for tool in probe.tools()):
        if probe.writes(name) and not probe.leaves_words(name) and not probe.hands_over(name):
            try:
                results[f"takes back with {name}"] = attack(subject, takes_back(name))
            except Unsupported:
                continue
    return judged(subject, results) if results else Finding("skip", NOTHING_BACK)


MAY_CORRECT = "what was wrong may be put right, as policy, capability or tools say"
NOTHING_BACK = "no two wrong changes are let happen before the right one"


def all_answers(probe: Probe, seed: int) -> list[Action]:
    """Looks, and then says everything that was shown and the answers of other seeds, whatever is asked."""
    script = probe.oracle(seed)
    others = [closing(probe.oracle(other)) for other in range(seed + 1, seed + 1 + MOST_ANSWERS)]
    told = [text for _, text, is_error in before_writes(probe, seed) if not is_error]
    return [*script[:-1], say("\n".join([*others, *told]))]


WORDS_BESIDE = "the answer is not all that there is to do"


def answers_all(subject: Subject) -> Finding:
    """Looks, and says all that was shown and other answers, where words are all that there is to do."""
    probe = subject.probe
    seeds = subject.seeds[: subject.sizes.attack]
    if any(probe.writes(one["name"]) for seed in seeds for one in calls_in(probe.oracle(seed))):
        return Finding("skip", WORDS_BESIDE)
    try:
        return judged(subject, {"": attack(subject, all_answers)})
    except Unsupported as reason:
        return Finding("skip", str(reason))


_SOUND = ("semantic.floor_gap", "trace.balance")
_RANDOM = ("trace.attacker.random_legal", "trace.attacker.spam_all")
"""Where whatever is done is paid, so is what is done wrong before a look."""
TRIAL_CHECKS = (
    AuditCheck("trace.attacker.tries", "adversarial", tries_all, _SOUND),
    AuditCheck("trace.attacker.takes_back", "adversarial", takes_all_back, _SOUND, after=_RANDOM),
    AuditCheck("trace.attacker.all_answers", "adversarial", answers_all, _SOUND),
)
