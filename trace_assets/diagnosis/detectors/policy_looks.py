"""What a policy wants to be looked at before something is done, and to be done after it. English only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from trace_assets.diagnosis.detectors.policy_lines import Sentence
from trace_assets.diagnosis.detectors.policy_text import FORBIDS, PolicyText
from trace_assets.diagnosis.detectors.verbs import (
    WORD,
    has_stem,
    is_deed,
    same_verb,
    speaks_of_change,
    spoken,
    things,
    verb_of,
)

_BEFORE = re.compile(r"\b(?:before|prior to)\b")
_AFTER = re.compile(r"\b(?:after|once|whenever you have|when you have|as soon as|each time|every time)\b")
_LOOKS = re.compile(
    r"\b(?:looks?|looked|looking|read|check(?:ed|s|ing)?|verif(?:y|ied|ies|ying)|inspect(?:ed)?|view(?:ed)?|"
    r"see|seen|consult(?:ed)?|review(?:ed)?|fetch(?:ed)?|retrieved?|open(?:ed)?|queried)\b"
)
_FIRST = re.compile(r"\bfirst\b")
_TOOL = re.compile(r"\W*([A-Za-z]\w*_\w+)\W*\Z")
"""A line with nothing but a tool's name: what is listed under it holds for that tool."""
_EARLIER = re.compile(r"\b(?:already|beforehand|earlier|in advance|previously)\b")
_NOT = re.compile(r"\b(?:no|not|never|without)\b|n't\b")
_PARTED = re.compile(r"(check|log|opt|sign)_?(in|off|on|out|up)(?:_|\Z)")
"""Verbs that a sentence parts: the user has logged in."""
_NOTHING_OF = frozenset({"data", "details", "info", "information", "record", "status", "by", "id"})
"""Words of reading tools' names that policies leave out."""


@dataclass(frozen=True)
class Look:
    """Something has to be looked at before a tool is used, or done after it.

    Attributes:
        sentence: What says so.
        reads: Tools of which one does it.
    """

    sentence: str
    reads: frozenset[str]


def looks_before(
    policy: PolicyText,
    tool: str,
    reads: Iterable[str],
    arguments: Iterable[str] = (),
    writes: Iterable[str] = (),
) -> list[Look]:
    """Return what a policy wants to be looked at before a tool is used.

    The look is named by a reading tool's name, or by what such a tool is about and a word for looking.

    Args:
        policy: The policy.
        tool: Its name.
        reads: Names of the tools that only look.
        arguments: What the tool is called with.
        writes: Names of the others: what has to be done before, such as telling somebody.

    >>> text = PolicyText("Check the warranty of a tool before you repair it. Never pay before noon.")
    >>> [sorted(one.reads) for one in looks_before(text, "repair_tool", ["get_warranty", "get_tool"])]
    [['get_warranty']]
    >>> text = PolicyText("No parcel is handed out before its customs_show was read.")
    >>> [sorted(one.reads) for one in looks_before(text, "hand_out_parcel", ["customs_show"])]
    [['customs_show']]
    >>> text = PolicyText("Before draining a node, page the on-call of its team.")
    >>> [sorted(one.reads) for one in looks_before(text, "drain_node", [], writes=["page_oncall", "scale"])]
    [['page_oncall']]
    """
    known, given, others = sorted(reads), tuple(arguments), sorted({*writes} - {tool})
    found = []
    for sentence in policy.sentences:
        for deed, look in _parts(sentence):
            if not _is_done(deed, sentence, tool, given):
                continue
            wanted = frozenset(read for read in known if read != tool and _is_looked(look, read, tool))
            wanted = wanted or frozenset(one for one in others if _is_ordered(look, one, others))
            if wanted:
                found.append(Look(sentence.text, wanted))
                break
    return found


def listed_before(policy: PolicyText, tool: str, others: Iterable[str]) -> list[Look]:
    r"""Return what has been done before a tool is used, where the policy lists conditions under its name.

    Args:
        policy: The policy.
        tool: Its name, which stands alone in a line above the conditions.
        others: Names of the tools that may be what has been done.

    >>> text = PolicyText("* `pay_bill`:\n- The user is logged in already.\n\n* login_user:\nNone")
    >>> [sorted(one.reads) for one in listed_before(text, "pay_bill", ["login_user", "logout_user"])]
    [['login_user']]
    """
    known, found, under = sorted({*others} - {tool}), list[Look](), ""
    for line in policy.text.splitlines():
        if alone := _TOOL.match(line):
            under = alone.group(1)
        said = line.strip(" \t-*•").lower()
        if under != tool or not _EARLIER.search(said) or _NOT.search(said):
            continue
        if wanted := frozenset(one for one in known if _was_done(said, one)):
            found.append(Look(said, wanted))
    return found


def _was_done(text: str, tool: str) -> bool:
    """Tell whether a text says that what a tool does was done: its verb in any form, and its things."""
    words = WORD.findall(text)
    if parted := _PARTED.match(tool.lower()):  # who logs in has used login_user
        return re.search(rf"\b{parted.group(1)}\w* {parted.group(2)}\b", text) is not None
    return bool(things(tool)) and is_deed(tool, words) and all(has_stem(words, one) for one in things(tool))


def steps_after(
    policy: PolicyText, tool: str, steps: Iterable[str], arguments: Iterable[str] = ()
) -> list[Look]:
    """Return what a policy orders to be done once a tool was used.

    Args:
        policy: The policy.
        tool: Its name.
        steps: Names of tools that may be what is ordered.
        arguments: What the tool is called with.

    >>> text = PolicyText("After cancelling an order, send a receipt. Never ship gifts after cancelling.")
    >>> [sorted(one.reads) for one in steps_after(text, "cancel_order", ["send_receipt", "ship_gifts"])]
    [['send_receipt']]
    """
    known, given, found = sorted({*steps} - {tool}), tuple(arguments), []
    for sentence in policy.sentences:
        at = _AFTER.search(sentence.text)
        if at is None or FORBIDS.search(sentence.text):
            continue
        order, deed = sentence.text[: at.start()], sentence.text[at.end() :]
        if not order.strip():  # after doing it, do the step
            deed, _, order = deed.partition(",")
        wanted = frozenset(one for one in known if _is_ordered(order, one, known))
        if wanted and _is_done(deed, sentence, tool, given):
            found.append(Look(sentence.text, wanted))
    return found


def _parts(sentence: Sentence) -> list[tuple[str, str]]:
    """Return (what is done, what is looked at) as a sentence may be parted; both ways where nothing tells."""
    if (at := _BEFORE.search(sentence.text)) is not None:
        before, after = sentence.text[: at.start()], sentence.text[at.end() :]
        if not before.strip():  # before doing it, look
            deed, _, look = after.partition(",")
            return [(deed, look)]
        return [(after, before), (before, after)]
    if _FIRST.search(sentence.text) and ":" in sentence.text:
        wish, _, look = sentence.text.partition(":")
        return [(wish, look)]
    return []


def _is_done(text: str, sentence: Sentence, tool: str, arguments: tuple[str, ...]) -> bool:
    words, acted = WORD.findall(text), things(tool)
    if is_deed(tool, words):
        return not acted or any(
            has_stem([*sentence.words, *WORD.findall(sentence.heading)], one) for one in acted
        )
    return speaks_of_change(text, tool, arguments)


def _is_ordered(text: str, write: str, others: Iterable[str]) -> bool:
    """Tell whether a text orders what a tool does, by its verb in plain form and its thing.

    Where no other tool has the verb the thing may be called otherwise.
    """
    words, verb = WORD.findall(text), verb_of(write)
    if verb not in words or not things(write):
        return False
    alone = not any(other != write and verb_of(other) == verb for other in others)
    ordered = bool(words) and words[0] == verb
    return (alone and ordered) or all(has_stem(words, one) for one in things(write))


def _is_looked(text: str, read: str, tool: str) -> bool:
    if re.search(rf"(?<!\w){re.escape(read.lower())}(?!\w)", text):
        return True
    about = [one for one in things(read) if one not in _NOTHING_OF]
    words = WORD.findall(text)
    named = spoken(read).split()
    if len(named) > 1 and all(has_stem(words, one) for one in named):
        return True
    if not things(read):
        return bool(_LOOKS.search(text)) and any(same_verb(verb_of(read), word) for word in words)
    # What the tool itself acts on is named in the sentence anyway.
    own = [one for one in about if not has_stem(things(tool), one)]
    return bool(_LOOKS.search(text) and own) and all(has_stem(words, one) for one in about)
