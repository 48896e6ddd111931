"""Looks that come before a change, whether they tell anything, and names that nothing shows."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from trace_assets.diagnosis.detectors.values import leaves, time_of
from trace_assets.diagnosis.detectors.verbs import names_deed
from trace_assets.environments.audit.check import AuditCheck, Finding, Subject
from trace_assets.environments.audit.decision_tree import Decided, before_writes, decided
from trace_assets.environments.audit.hidden_draws import decided_by_chance
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Probe,
    calls_in,
    numbered,
    thing_of,
)

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
