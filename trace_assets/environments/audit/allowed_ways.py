"""What the texts that agents are given allow beside the oracle's own way.

Who puts a mistake right, or takes one of two changes that are as good as each other, does what is right where
policy or capability say so. Only what is said outright counts, in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trace_assets.diagnosis.detectors.policy_text import FORBIDS
from trace_assets.environments.audit.check import Subject

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
