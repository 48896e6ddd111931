"""Looks before a change: whether they tell anything, names and chance that no look shows.

Chance that decides what is paid and shows nowhere is found by playing the module with one of its draws made
otherwise, everything else left as it is. Where that is another task that looks the same, and each one's
solution goes unpaid in the other, the oracle knows what no agent can: a word, an amount, or a whole
decision.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves, time_of
from trace_assets.diagnosis.detectors.verbs import names_deed
from trace_assets.environments.audit import made_otherwise
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import Decided, before_writes, decided
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Call,
    Probe,
    again,
    calls_in,
    numbered,
    reads_everything,
    thing_of,
)
from trace_assets.targets.seeds import COLUMNS, ROWS

LOOKS_FIRST = frozenset({"write_without_read", "skipped_check", "unread_prerequisite"})
"""Detector families whose capability is to look before anything is changed."""
ANY_ORDER = "neither capability nor policy are known to ask for a look before a change"
NO_DEED = "the oracle changes nothing behind a look"
IDLE = 0.95
"""Share of seeds on which looks must tell nothing, or nothing that is used, to be idle."""
UNSHOWN = 0.05
"""Share of seeds on which a name may be passed that nothing showed."""

_LOOK = (
    r"(?:look(?:s|ed|ing)?\b|check(?:s|ed|ing)?\b|read(?:s|ing)?\b|open(?:s|ed|ing)?\b|view(?:s|ed|ing)?\b"
    r"|verif(?:y|ies|ied|ying)\b|inspect(?:s|ed|ing)?\b|review(?:s|ed|ing)?\b|consult(?:s|ed|ing)?\b"
    r"|compar(?:e|es|ed|ing)\b|retriev(?:e|es|ed|ing)\b|fetch(?:es|ed|ing)?\b"
    r"|get_\w+|read_\w+|show_\w+|find_\w+|list_\w+|look_\w+)"
)
_CLAUSE = r"[^,;.:!?\n]"
_FIRST = re.compile(
    rf"\b{_LOOK}{_CLAUSE}*?\b(?:before\b|prior to\b|ahead of\b|first(?=\s*(?:[,;.]|$)))"
    rf"|\b(?:before|prior to)\b{_CLAUSE}*,\s*(?:\w+\s+){{0,4}}?{_LOOK}"
    rf"|\bfirst,?\s+(?:\w+\s+){{0,2}}?{_LOOK}"
    rf"|\b(?:only after|once|until|unless|without)\s+(?:\w+\s+){{0,4}}?{_LOOK}",
    re.IGNORECASE,
)
SEEDS, LEAST, TASKS = 8, 2, 120
"""Seeds that are played so, on how many of them a draw is made otherwise at least, and tasks as a rule."""
MOST_DRAWS, MOVES = 48, (1, 2, 3, 5, 7)
"""Draws of a seed that are made otherwise at most, and by how much its number is moved."""
_SPAN, _COUNTS = COLUMNS * ROWS, 999
_OTHERWISE = (
    Path(made_otherwise.__file__)
    .read_text(encoding="utf-8")
    .replace("from __future__ import annotations\n", "")
    + f"\n\nplay_otherwise(globals(), {_SPAN}, {MOST_DRAWS}, {_COUNTS})\n"
)
"""What is put behind a module, where no import from the future may stand."""


def asks_to_look_first(text: str) -> bool:
    """Tell whether a text asks for a look before something else is done, within one clause.

    >>> asks_to_look_first("Look an order up before it is cancelled."), asks_to_look_first("Look it up.")
    (True, False)
    >>> asks_to_look_first("Before cancelling an order, always check its state.")
    True
    >>> asks_to_look_first("Look up the last donation, and make no appointment before that day.")
    False
    """
    return _FIRST.search(text) is not None


def look_comes_first(subject: Subject) -> bool:
    """Whether the capability is to look before a change; where nobody says which it is, the policy tells."""
    if subject.purpose is None:
        first = subject.probe.first(subject.seeds[0])
        return any(asks_to_look_first(str(m.get("content") or "")) for m in first if m["role"] == "system")
    spec = subject.purpose.spec
    return spec.detector in LOOKS_FIRST or asks_to_look_first(f"{spec.name}. {spec.description}")


_ANYTHING = re.compile(
    r"\b(?:anything|everything|any (?:change|action)|changes|do|act|acting)\b", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n\s*\n")


def policy_looks_first(subject: Subject) -> bool:
    """Whether the policy asks, in a sentence on what the oracle changes or on all changes, for a look first.

    Then an agent that looks afterwards breaks it, whatever the capability says.
    """
    probe = subject.probe
    made = {
        one["name"]
        for seed in subject.seeds[: subject.sizes.attack]
        for one in calls_in(probe.oracle(seed))
        if probe.writes(one["name"]) and not probe.hands_over(one["name"])
    }
    first = probe.first(subject.seeds[0])
    told = [str(m.get("content") or "") for m in first if m["role"] == "system"]
    policy = "\n\n".join([subject.contract.policy if subject.contract else "", *told])
    return any(
        asks_to_look_first(one) and (_ANYTHING.search(one) or any(names_deed(one, name) for name in made))
        for one in (" ".join(said.split()) for said in _SENTENCE.split(policy))
    )


# Looks that tell nothing.


def looks_tell(subject: Subject) -> Finding:
    """Where a look is to come first, it tells what the request does not, and some of that is used."""
    if not look_comes_first(subject):
        return Finding("skip", ANY_ORDER)
    probe = subject.probe
    cases = [one for one in decided(subject) if one.raw and one.writes]
    bound = f"looks tell something on more than {1 - IDLE:.0%} of seeds"
    if not cases:
        return Finding("skip", NO_DEED)
    told = {one.seed: _words_of(before_writes(probe, one.seed)) for one in cases}
    common = set.intersection(*told.values())
    new = {one.seed: told[one.seed] - common - _tokens(_said(one)) for one in cases}
    idle = sum(not words for words in new.values()) / len(cases)
    if idle >= IDLE:
        words = f"on {idle:.0%} of seeds looks tell nothing but what the request says, or what is always so"
        return Finding("fail", words, idle, len(cases), bound)
    kinds = Counter(one.kind for one in decided(subject))
    used = sum(bool(new[one.seed] & _later(probe, one.seed)) for one in cases) / len(cases)
    if len(kinds) == 1 and used <= 1 - IDLE:
        words = (
            f"the oracle always does the same, and uses nothing of what looks tell on {1 - used:.0%} of seeds"
        )
        return Finding("fail", words, 1 - used, len(cases), bound)
    words = f"looks tell something new on {1 - idle:.0%} of seeds; it is passed on or said on {used:.0%}"
    return Finding("pass", words, idle, len(cases), bound)


def _tokens(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _words_of(told: Sequence[tuple[Any, str, bool]]) -> set[str]:
    return {word for _, text, is_error in told if not is_error for word in _tokens(text)}


def _said(one: Decided) -> str:
    return "\n".join(str(m.get("content") or "") for m in one.first)


def _later(probe: Probe, seed: int) -> set[str]:
    """Return what the oracle passes and says from its first change on, and before it in its own words."""
    script = probe.oracle(seed)
    words = " ".join(str(action.get("content") or "") for action in script)
    looks = len(before_writes(probe, seed))
    return _tokens(words) | _tokens(
        json.dumps([c["arguments"] for c in calls_in(script)[looks:]], default=str)
    )


# Names that nothing shows.


def shown_names(subject: Subject) -> Finding:
    """Every name that the oracle passes was shown before, and chance that shows nowhere decides nothing.

    A name has letters and digits, or many digits. What is made up freely (any other name will do) needs no
    showing, and dates and amounts are worked out.
    """
    probe, missing = subject.probe, []
    seeds = subject.seeds[: subject.sizes.attack]
    for seed in seeds:
        name = next(unshown(probe, seed), "")
        if name and not _is_free(subject, seed, name):
            missing.append((seed, name))
    share, bound = len(missing) / len(seeds), f"on no more than {UNSHOWN:.0%} of seeds"
    if share > UNSHOWN:
        seed, name = missing[0]
        words = f"seed {seed}: the oracle passes '{name}', which nothing has shown"
        words += f"; so on {len(missing)} of {len(seeds)} seeds"
        return Finding("fail", words, share, len(seeds), bound)
    unknown, n = decided_by_chance(subject)
    if unknown:
        words = "; ".join(f"seed {seed}: {told}" for seed, told in list(unknown.items())[:1])
        return Finding("fail", f"{words}; so on {len(unknown)} of {n} seeds", len(unknown) / n, n, bound)
    return Finding("pass", "all names that the oracle passes were shown", share, len(seeds), bound)


def unshown(probe: Probe, seed: int) -> Iterator[str]:
    """Yield the names that the oracle passes before anything shows them, or their longest number."""
    texts = [str(m.get("content") or "") for m in probe.best(seed).first]
    shown = _plain("\n".join([*texts, json.dumps(probe.tools(), default=str)]))
    best = probe.best(seed)
    for action, answer in zip(best.actions, best.answers, strict=False):
        for one in action.get("tool_calls") or ():
            for _, value in leaves(one["arguments"]):
                # What is passed beside the thing itself may have been worked out of what was shown.
                worked_out = str(value) != thing_of(one) and str(value).isdecimal()
                if is_name(value) and not worked_out and not _is_in(str(value), shown):
                    yield str(value)
        shown += _plain("\n".join(str(m.get("content") or "") for m in answer["messages"]))


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _is_in(name: str, shown: str) -> bool:
    numbers = [one for one in re.findall(r"\d+", name) if len(one) >= 3]
    return _plain(name) in shown or bool(numbers and all(one in shown for one in numbers))


_NAME = re.compile(r"[^\W_][\w#.-]*|#[\w-]+")
_AMOUNT = re.compile(r"[\d.:,/-]*[.:,/-][\d.:,/-]*")


def is_name(value: object) -> bool:
    """Tell whether a value is the name of an object.

    >>> [is_name(one) for one in ("A17", "TK-4821", "482113", "2024-05-01", "12.50", "10:30", "two words 7")]
    [True, True, True, False, False, False, False]
    """
    if not isinstance(value, str) or time_of(value) is not None:
        return False
    if _NAME.fullmatch(value) is None or _AMOUNT.fullmatch(value):
        return False
    letters, digits = re.search(r"[^\W\d_]", value), re.findall(r"\d", value)
    return len(digits) >= 4 if not letters else len(digits) >= 2


def _is_free(subject: Subject, seed: int, name: str) -> bool:
    """Whether another name in its place is paid as well."""
    probe = subject.probe
    other = re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), name)
    script: list[Action] = copy.deepcopy(probe.oracle(seed))
    for one in calls_in(script):
        one["arguments"] = json.loads(json.dumps(one["arguments"]).replace(json.dumps(name)[1:-1], other))
    for action in script:
        action["content"] = str(action["content"]).replace(name, other) if action.get("content") else None
    return probe.play(seed, numbered(script)).success


NEEDED_CHECKS = (
    AuditCheck("trace.unshown_names", "semantic", shown_names, ("semantic.oracle_max",)),
    AuditCheck("trace.purpose.idle_looks", "semantic", looks_tell, ("semantic.floor_gap",)),
)


def decided_by_chance(subject: Subject) -> tuple[dict[int, str], int]:
    """Find seeds on which a draw that shows nowhere decides what is paid.

    A draw counts only where no look, of the two solutions or of any other tool, is answered otherwise, and
    trying the other deed does not tell either, or costs something.

    Returns:
        What differs, by seed, and how many seeds were played so.
    """
    own = subject.probe
    probe = Probe(subject.pool, own.source + _OTHERWISE, (), own.budget, "otherwise")
    found: dict[int, str] = {}
    seeds = subject.seeds[:SEEDS]
    drawn = max(int(str(probe.oracle(seed + _COUNTS * _SPAN)[0]["content"])) for seed in seeds)
    codes = [*range(1, min(drawn, MOST_DRAWS) + 1), *(MOST_DRAWS + by for by in MOVES)]
    turns = min(SEEDS, max(LEAST, TASKS // len(codes)))
    for place, turn in itertools.product(range(len(codes)), range(turns)):
        seed = seeds[(place + turn) % len(seeds)]
        other = seed + _SPAN * codes[place]
        if seed in found or probe.first(other) != probe.first(seed):
            continue
        if words := _unknown(subject, probe, seed, other):
            found[seed] = words
    return found, len(seeds)


def _unknown(subject: Subject, probe: Probe, seed: int, other: int) -> str:
    """Return how the solutions of two tasks differ that look the same; nothing where an agent can know."""
    script, otherwise = probe.oracle(seed), probe.oracle(other)
    pairs = enumerate(zip(map(_deed, script), map(_deed, otherwise), strict=False))
    at = next((n for n, (one, two) in pairs if one != two), min(len(script), len(otherwise)))
    if at == max(len(script), len(otherwise)):
        return ""
    tried = [*script[: at + 1], *otherwise[at:]]
    if any(
        probe.play(where, numbered(actions)).success
        for where, actions in ((other, script), (seed, otherwise))
    ):
        return ""
    tells = _told(probe, seed, tried[: at + 1]) != _told(probe, other, tried[: at + 1])
    if tells and probe.play(other, numbered(tried)).success:
        return ""  # it may be found out by trying
    if not (probe.best(seed).success and probe.best(other).success):
        return ""
    looks = [again(one) for one in calls_in([*script, *otherwise]) if not subject.probe.writes(one["name"])]
    looks += reads_everything(subject.probe, seed)
    if any(_told(probe, seed, one) != _told(probe, other, one) for one in (script[:at], looks)):
        return ""
    one, two = (_said_next(actions[at:]) for actions in (script, otherwise))
    return f"{one} is right, and where chance falls otherwise {two}, and nothing shows which"


def _told(probe: Probe, seed: int, actions: list[Action]) -> list[Any]:
    return [answer["messages"] for answer in probe.walk(seed, numbered(actions))]


def _deed(action: Action) -> tuple[list[tuple[str, Any]], str]:
    calls: list[Call] = action.get("tool_calls") or []
    return [(one["name"], one["arguments"]) for one in calls], str(action.get("content") or "")


def _said_next(actions: list[Action]) -> str:
    calls, words = _deed(actions[0]) if actions else ([], "nothing more")
    return ", ".join(f"{name} {given}" for name, given in calls) or f"'{words}'"
