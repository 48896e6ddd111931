"""What is right beside the oracle's own way: ways that texts allow, and the same in other words.

Who puts a mistake right, or takes one of two changes that are as good as each other, does what is right
where policy or capability say so. Only what is said outright counts, in English. Right solutions in other
words, and refusals that end in a hand-over, must all be paid.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_text import FORBIDS
from trace_assets.environments.audit.check import MAX_TURNS, AuditCheck, Finding, Subject
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Probe,
    arguments_for,
    call,
    calls_in,
    numbered,
    say,
)
from trace_assets.environments.contract.requests import FILLERS
from trace_assets.stats.intervals import wilson

_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n+")
_REPLACED = (
    r"\b(?:later|last|latest|newer|new|second) \w+ (?:takes? the place of|replaces?|overrides?|overwrites?|"
    r"supersedes?|counts?)\b"
    r"|\b(?:earlier|previous|former|old) \w+ (?:is|are|gets?) (?:replaced|overwritten|superseded)\b"
    r"|\bas if (?:it |that |they )?(?:had |were |was )?never\b"
)
_ENDS_RIGHT = r"\bwhat (?:stands|is there|counts is what stands) (?:in|at) the end\b"
_PUT_RIGHT = (
    r"\b(?:wrong|mistake\w*|error\w*|slip\w*)\b[^.;]*\b(?:(?:is|are|be|get) (?:then )?"
    r"(?:corrected|undone|put right|taken back|revised|amended|made good)|correct (?:it|them))\b"
    r"|\b(?:correct|undo|put right|take back|revise|amend)(?:ing|s)? (?:an?|any|your|their|its|the) "
    r"(?:own |earlier )?(?:wrong|mistake|error|slip)\w*"
)
_CORRECTS = re.compile(f"{_REPLACED}|{_ENDS_RIGHT}|{_PUT_RIGHT}", re.IGNORECASE)
_REPLACES = re.compile(_REPLACED, re.IGNORECASE)
_FREE = re.compile(
    r"\b(?:either|whichever|whatever|as you (?:like|please|prefer|wish)|does not matter|no matter|both are|"
    r"equally|your choice|up to you)\b",
    re.IGNORECASE,
)
_GIVEN_FORM = re.compile(
    r"\b(?:answer|reply|respond|say|write|state|close|end)(?:s|ing)?\b[^.;!?\n]*?(?:"
    r"\bexactly\b(?!\s+as)|\bverbatim\b|\bword for word\b|\bnothing (?:else|but|more)\b"
    r"|\b(?:in|with) (?:one|a single) word\b"
    r"|\b(?:the|an?|its|this|that|one) (?:\w+ ){1,4}?(?:alone|only)\b"
    r"|\b(?:only|just) (?:the|an?|its|this|that|one) (?:\w+ )?"
    r"(?:number|word|year|date|name|code|figure|amount|letter|id)\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|when|where|unless|while|once|depending|for those|according)\b", re.IGNORECASE
)
MIN_HANDED = 0.25
"""Of real runs that have the capability and left things as they were: share that hands over."""
_LONG = (
    (r"\bI am\b", "I'm"),
    (r"\bcannot\b", "can't"),
    (r"\bcan not\b", "can't"),
    (r"\bit is\b", "it's"),
    (r"\bIt is\b", "It's"),
    (r"\bhas been\b", "was"),
    (r"\bI have\b", "I've"),
    (r"\bis not\b", "isn't"),
)


_BEFORE = (
    "Thank you for your patience while I went through everything that you wrote and what the system says of "
    "it. It took a moment, as I wanted to be certain. Here is how it stands."
)
_AFTER = (
    "If anything is unclear, write again whenever you like: somebody is here at all hours. Have a good day."
)


def tells_of_corrections(text: str, described: Iterable[str] = ()) -> bool:
    """Tell whether a change that was wrong may be put right by another one, as if it had never been made.

    Args:
        text: Of capability and policy.
        described: What the tools are said to do: one that is said to take things back does not say that it
            may be used so.

    >>> tells_of_corrections("A wrong entry is corrected by entering it again.")
    True
    >>> tells_of_corrections("Nothing that is wrong can be corrected. Choose the correct room.")
    False
    >>> tells_of_corrections("Enter it.", ["Enter an order; an earlier entry is replaced."])
    True
    """
    return any(
        found.search(one) and not FORBIDS.search(one.lower())
        for found, own in ((_CORRECTS, [text]), (_REPLACES, described))
        for said in own
        for one in _SENTENCE.split(said)
    )


def as_good(text: str, tool: str, other: str) -> bool:
    """Tell whether a text leaves the choice between two tools, by their names in one sentence.

    >>> text = "Take pay_back or give_voucher, whichever you like. Use a_b, or c_d if it is late."
    >>> as_good(text, "give_voucher", "pay_back"), as_good(text, "a_b", "c_d")
    (True, False)
    """
    for one in _SENTENCE.split(text):
        places = [re.search(rf"(?<!\w){re.escape(name)}(?!\w)", one) for name in (tool, other)]
        first, last = sorted(found.span() for found in places if found) if all(places) else ((0, 0), (0, 0))
        between = one[first[1] : last[0]]
        if re.search(r"\bor\b", between) and _FREE.search(one) and not _CONDITION.search(between):
            return True
    return False


def gives_the_form(text: str) -> bool:
    """Tell whether a text says with which words, and no others, it is answered.

    >>> gives_the_form("Answer with the year alone."), gives_the_form("If it has none, reply exactly: none.")
    (True, True)
    >>> gives_the_form("Answer in your own words. Say exactly as much as is known, where it is known.")
    False
    """
    return any(_GIVEN_FORM.search(one) and not FORBIDS.search(one.lower()) for one in _SENTENCE.split(text))


def told_to_agents(subject: Subject) -> str:
    """Return what an agent may go by on every seed: capability, policy, and what the system messages say."""
    spec = subject.purpose.spec if subject.purpose else None
    own = [f"{spec.name}. {spec.description}"] if spec else []
    first = subject.probe.first(subject.seeds[0])
    said = [str(m.get("content") or "") for m in first if m["role"] == "system"]
    return "\n".join([*own, subject.contract.policy if subject.contract else "", *said])


def corrections_count(subject: Subject) -> bool:
    """Whether a wrong change may be put right, by capability, policy or what a tool is said to do."""
    described = [str(tool["function"].get("description") or "") for tool in subject.probe.tools()]
    return tells_of_corrections(told_to_agents(subject), described)


def in_a_letter(words: str) -> str:
    """Put the words in the middle of some others."""
    return f"{_BEFORE}\n\n{words}\n\n{_AFTER}"


def short_forms(words: str) -> str:
    """Use short forms and no signs at the ends.

    >>> short_forms("I am sorry. It is reserved.")
    "I'm sorry - It's reserved"
    """
    for long, short in _LONG:
        words = re.sub(long, short, words)
    return re.sub(r"[.!]\s+", " - ", words).rstrip(".! ")


def other_order(words: str) -> str:
    """Say the sentences in the other order.

    >>> other_order("I am sorry. It is reserved.")
    'It is reserved. I am sorry.'
    """
    return " ".join(reversed(re.split(r"(?<=[.!?])\s+", words.strip())))


def small_letters(words: str) -> str:
    """Write everything in small letters but what holds a digit: names of objects are no wording.

    >>> small_letters("Renewed, except for L12.")
    'renewed, except for L12.'
    """
    return re.sub(r"\S+", lambda word: word[0] if re.search(r"\d", word[0]) else word[0].lower(), words)


def in_notes(words: str) -> str:
    """Keep nothing but the words that say something, one a line.

    >>> in_notes("Sorry, it is reserved."), in_notes("Which shall it be?")
    ('- reserved', '- Which?')
    """
    told = [word for word in words.split() if word.strip(".,;:!?'\"()").lower() not in FILLERS]
    notes = "\n".join(f"- {word.rstrip('.,;!?')}" for word in told) or words
    return notes + "?" * (words.rstrip().endswith("?") and not notes.endswith("?"))


def emphasized(words: str) -> str:
    """Mark the words as important, the last one by itself.

    >>> emphasized("It ends on 2031-04-30.")
    '**Outcome:** It ends on **2031-04-30**.'
    """
    return "**Outcome:** " + re.sub(r"([^\s(\"'*]*\w)([^\w\s]*)$", r"**\1**\2", words)


REWORDINGS: tuple[Callable[[str], str], ...] = (
    in_a_letter,
    short_forms,
    other_order,
    small_letters,
    in_notes,
    emphasized,
)


FORM_GIVEN = "capability or policy say with which words alone it is answered"


def reworded(subject: Subject) -> Finding:
    """The oracle's solutions in other words keep the whole reward, and so do refusals that are handed over.

    Handing over is a right way to refuse where runs labelled PRESENT do so.
    """
    if gives_the_form(told_to_agents(subject)):
        return Finding("skip", FORM_GIVEN)
    paid: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    shown = ""
    for seed in subject.seeds[: subject.sizes.mutated]:
        script, best = subject.probe.oracle(seed), subject.probe.best(seed)
        for name, other in _others(subject, seed, script):
            if len(other) > MAX_TURNS or other == script:
                continue
            one = subject.probe.play(seed, other)
            tried[name] += 1
            right = one.success and one.reward >= best.reward - 1e-9
            paid[name] += right
            if not right and not shown:
                shown = f"; such as {name} on seed {seed}: reward {one.reward:.3g}"
    bound = f"each >= {subject.rules.min_operator_rate:.0%} paid as the oracle's own"
    if not tried:
        return Finding("skip", "the oracle says nothing that could be worded otherwise")
    words = ", ".join(f"{name} {paid[name]}/{tried[name]}" for name in tried)
    worst = min(paid[name] / tried[name] for name in tried)
    rate = paid.total() / tried.total()
    low, high = wilson(paid.total(), tried.total())
    passed = worst >= subject.rules.min_operator_rate
    return Finding(
        "pass" if passed else "fail", words + shown, rate, tried.total(), bound, low=low, high=high
    )


def _others(subject: Subject, seed: int, script: Sequence[Action]) -> list[tuple[str, list[Action]]]:
    last = script[-1] if script else {}
    if not last.get("content") or last.get("tool_calls"):
        return []
    found = [(one.__name__, [*script[:-1], say(one(last["content"]))]) for one in REWORDINGS]
    if other := _other_summary(script):
        found.append(("another summary", other))
    changed = any(subject.probe.writes(c["name"]) for c in calls_in(script))
    handing = _handing_over(subject)
    if handing and not changed and calls_in(script):
        found.append((f"refused by {handing}", numbered(_handed(subject.probe, seed, script, handing))))
    return found


def _other_summary(script: Sequence[Action]) -> list[Action]:
    """Return the script with what is written to whoever takes over in other words; empty where nothing is.

    Only texts of several words: a reason out of a list is no wording.
    """
    found = copy.deepcopy(list(script))
    changed = False
    for one in calls_in(found):
        for key, value in one["arguments"].items() if hands_over(one["name"]) else ():
            if isinstance(value, str) and value.count(" ") >= 2:
                one["arguments"][key] = in_a_letter(other_order(value))
                changed = True
    return found if changed else []


def _handed(probe: Probe, seed: int, script: Sequence[Action], name: str) -> list[Action]:
    tool = next(tool for tool in probe.tools() if tool["function"]["name"] == name)
    given = arguments_for(tool, probe, seed, probe.chance(f"handed/{seed}"))[0]
    return [*script[:-1], call(name, given), script[-1]]


def _handing_over(subject: Subject) -> str:
    """Return the tool by which real runs with the capability refuse; empty where they do not."""
    tools = [t["function"]["name"] for t in subject.probe.tools() if hands_over(t["function"]["name"])]
    refused = _refusals(subject)
    usual = Counter(name for writes in refused for name in writes if name in tools)
    if not usual:
        return ""
    name, n = usual.most_common(1)[0]
    return name if n >= max(2, MIN_HANDED * len(refused)) else ""


def _refusals(subject: Subject) -> list[set[str]]:
    """Return what real runs called that have the capability and left things as they were: hand-overs."""
    runs = subject.purpose.runs if subject.purpose else ()
    left: dict[str, set[str]] = {}
    for one in runs:
        if one.label == "PRESENT":
            writes = {name for name in one.calls if subject.probe.writes(name)}
            left.setdefault(one.trajectory_id, set()).update(writes)
    return [writes for writes in left.values() if all(map(hands_over, writes))]


def refused_in_words(subject: Subject) -> bool:
    """Whether real runs that have the capability refuse without handing over: then that is right as well."""
    refused = _refusals(subject)
    return sum(not writes for writes in refused) >= max(2, MIN_HANDED * len(refused))


REWORDING_CHECKS = (
    AuditCheck(
        "trace.mutation.reworded", "mutation", reworded, ("semantic.floor_gap",), ("trace.mutation.harmless",)
    ),
)
