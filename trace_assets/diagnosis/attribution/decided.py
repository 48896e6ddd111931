"""Rules on what the simulated user decided, where the record is plain that this alone is in the way.

Other rules on a user's choice and on how it left only make suspicious. These hold what happened against the
task: what is expected had been proposed, and the user left with its consent or turned it down; or it asked
for another record, or for less, than its instruction names. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trace_assets.diagnosis.attribution.case import CONTROL, Case, Ruling
from trace_assets.diagnosis.attribution.ground_truth import (
    by_default,
    is_option,
    options_of,
    policy_of,
    words_of_option,
)
from trace_assets.diagnosis.attribution.told import stands_in
from trace_assets.diagnosis.detectors.identity import names_a_thing, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import deed, spoken
from trace_assets.diagnosis.detectors.wording import asks_for
from trace_assets.diagnosis.expected.facts import things_in
from trace_assets.records import ActionDiff

_WORD = re.compile(r"[a-z][a-z-]{2,}|\d{3,}")
_LATIN = re.compile(r"[a-z]{3,}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_PROPOSES = re.compile(
    r"\b(?:shall i|should i|can i|may i|do you want|would you like|let me know (?:if|once|when)|"
    r"please confirm|could you (?:please )?confirm|do you confirm|to confirm|before proceeding|"
    r"once you confirm)\b"
)
_CONSENTS = re.compile(
    r"\A\W*(?:yes|yeah|yep|yup|sure|ok(?:ay)?|absolutely|perfect|great|correct|confirmed)\b"
    r"|\bgo ahead\b|\b(?:please|let'?s) (?:do|proceed|confirm|complete|finali[sz]e|process)\b|\bi confirm\b"
)
_HOLDS = re.compile(
    r"\b(?:wait|hold on|not yet|before (?:you|we|i)|first|but|however|instead|unless|if|what if|rather|"
    r"don'?t|do not|cancel that|actually|also|one more|another)\b"
)
"""Words of a consent that is not all of the answer."""
_DECLINES = re.compile(
    r"\A\W*(?:no|nope|nah)\b|\bno need\b|\b(?:do not|don'?t) (?:want|need|proceed|replace|change|do|go)\b|"
    r"\bnever ?mind\b|\bforget (?:it|that)\b|\bleave (?:it|that|everything) as\b"
)
_FORBIDS = re.compile(
    r"\A\W*(?:no|nope|nah)\b|\b(?:do not|don'?t) (?:do|go|proceed)\b|\bnever ?mind\b|\bforget (?:it|that)\b"
)
"""Words that take a consent back."""
_HANDOVER = re.compile(r"transfer|\b(?:human|representative|supervisor)\b")
_CANNOT = re.compile(r"\b(?:cannot|can'?t|unable|unfortunately|not (?:possible|allowed|eligible))\b")
_PERSON = re.compile(r"user|customer|client|member|patient|guest|student|passenger_id|account")
"""Arguments that name who is served; nobody proposes these."""
_ALL = re.compile(r"\b(?:all|every|everything|whole|entire|each|both)\b")
_REST = re.compile(
    r"\b(?:all of|all the|every|everything (?:in|on|from|else)|whole|entire|the rest|remaining)\b"
)
_DESCRIBED = 0.5
"""Share of the words of a record that must be said for it to be meant."""
_SMALL = 12
"""Values of a record up to which people describe it by them."""
_TOO_SHORT = 3
"""Signs up to which a value is not looked for: a code of two letters, a line that is empty."""


def agreed_and_left(case: Case) -> Ruling | None:
    """The user said yes to what is expected, as the agent had laid it out, and ended with the same message.

    All that differs from what is expected are calls that the agent had described when it asked. No excuse
    for an agent that had a plain yes to the same before, and asked once more.
    """
    rows, last = _missed(case), len(case.messages) - 1
    if not rows or not case.simulated or last < 2:
        return None
    words, mark = _without_mark(case, last)
    if not mark or not _agrees(words) or _HANDOVER.search(words):
        return None
    offered = [n for n in _proposals(case) if n < last]
    if not offered or not all(_laid_out(case, row, offered) for row in rows):
        return None
    spoke = max(n for n in range(last) if case.messages[n].role == "assistant")
    closing = set(_LATIN.findall(_said(case, spoke) + " " + words))
    if spoke < offered[-1] or not all(any(asks_for(row.tool, one) for one in closing) for row in rows):
        return None
    if any(_plain_yes(case, n) and n < spoke and _came_of_nothing(case, n) for n in _answers(case, offered)):
        return None
    tools = ", ".join(dict.fromkeys(row.tool for row in rows))
    detail = f"the user agreed to what is expected and ended in the same message (never called: {tools})"
    return Ruling("user_simulator", "agreed_and_left", (spoke, last), detail)


def turned_down(case: Case) -> Ruling | None:
    """The agent proposed just the calls that are expected, and the user wanted them not, or something else.

    Every other difference would leave room for another reason, so that each has to be such a call.
    """
    rows = _missed(case)
    if not rows or not case.simulated:
        return None
    evidence: list[int] = []
    for row in rows:
        found = next((n for n in reversed(_proposals(case)) if _only_refused(case, row, n)), None)
        if found is None:
            return None
        evidence += [found, found + 1]
    tools = ", ".join(dict.fromkeys(row.tool for row in rows))
    detail = f"the agent proposed what is expected and the user turned it down (never called: {tools})"
    return Ruling("user_simulator", "turned_down", tuple(sorted(set(evidence))), detail)


def other_named(case: Case) -> Ruling | None:
    """The user asked for a deed on another record than its instruction names for it, and the agent did that.

    All that differs is one identifier a call. For one of them at least the instruction names the expected one
    together with the deed; another may be what is then left over, where the user mixed two up.
    """
    rows = _without_handing_over(case)
    if not rows or not case.simulated or not case.instruction:
        return None
    pairs: list[tuple[ActionDiff, str, str, int]] = []
    for row in rows:
        if row.kind != "altered" or row.message is None or len(row.changed) != 1:
            return None
        wanted, done = (one.get(row.changed[0]) for one in (row.expected_arguments, row.arguments))
        if not (isinstance(wanted, str) and isinstance(done, str)):
            return None
        if not (names_a_thing(wanted) and names_a_thing(done)):
            return None
        at = _tied_by_user(case, row, done)
        if at is None:
            return None
        pairs.append((row, wanted, done, at))
    told = [pair for pair in pairs if _tied_in_instruction(case, *pair[:3])]
    left = {(done, wanted) for _, wanted, done, _ in told}
    if not told or any((pair[1], pair[2]) not in left for pair in pairs if pair not in told):
        return None
    evidence = {at for *_, at in pairs} | {row.message for row, *_ in pairs if row.message is not None}
    words = "; ".join(f"{deed(row.tool)} {done} in place of {wanted}" for row, wanted, done, _ in pairs)
    detail = f"the user asked for {words}"[:300]
    return Ruling("user_simulator", "other_named", tuple(sorted(evidence)), detail)


def asked_for_less(case: Case) -> Ruling | None:
    """The task wants all that a record lists, its instruction says so, and the user named a part of it.

    The agent did that part, and what else it did of the same kind the user had named beside it.
    """
    rows = _without_handing_over(case)
    if not rows or not case.simulated or not _ALL.search(case.instruction.lower()):
        return None
    evidence: set[int] = set()
    found: list[str] = []
    for row in (one for one in rows if one.kind != "surplus"):
        if row.kind != "altered" or row.message is None or len(row.changed) != 1:
            return None
        wanted, done = (one.get(row.changed[0]) for one in (row.expected_arguments, row.arguments))
        if not (isinstance(wanted, list) and isinstance(done, list)):
            return None
        missing = [one for one in wanted if one not in done]
        if not missing or any(one not in wanted for one in done) or not _is_whole(case, wanted):
            return None
        at = _named_part(case, row.message, done, missing)
        if at is None:
            return None
        evidence |= {at, row.message}
        found.append(f"{spoken(row.changed[0])}: {len(done)} of {len(wanted)}")
    for row in (one for one in rows if one.kind == "surplus"):
        own = {one.tool for one in rows if one.kind == "altered"}
        named = [value for _, value in leaves(row.arguments) if names_a_thing(value)]
        if row.tool not in own or not any(_head(case, one, _users_text(case, row)) for one in named):
            return None
    if not found:
        return None
    detail = f"the task wants all that is listed and the user named a part ({'; '.join(found)[:200]})"
    return Ruling("user_simulator", "asked_for_less", tuple(sorted(evidence)), detail)


def free_option(case: Case) -> Ruling | None:
    """All that differs is one of the policy's options, which the user, asked, picked: nothing told it.

    Such as the reason for cancelling, of two that the policy names. The instruction has no word of the
    expected one, and the agent had asked with both.
    """
    rows = _without_handing_over(case)
    if not rows or not case.simulated or not case.instruction:
        return None
    policy, instruction = policy_of(case), case.instruction.lower()
    options = options_of(policy)
    evidence: set[int] = set()
    chosen: list[str] = []
    for row in rows:
        if row.kind != "altered" or row.message is None:
            return None
        for name in row.changed:
            wanted, done = str(row.expected_arguments.get(name)), str(row.arguments.get(name))
            if not is_option(wanted, options) or not is_option(done, options) or by_default(wanted, policy):
                return None
            if any(word in instruction for word in words_of_option(wanted)):
                return None
            at = next(
                (
                    n
                    for n in range(1, row.message)
                    if case.messages[n].role == "user"
                    and normal(done) in normal(_said(case, n))
                    and all(normal(one) in normal(_said(case, n - 1)) for one in (wanted, done))
                ),
                None,
            )
            if at is None:
                return None
            evidence |= {at, row.message}
            chosen.append(f"{spoken(name)} {wanted!r}")
    detail = f"nothing that the user was told says {' or '.join(dict.fromkeys(chosen))}, and it was asked"
    return Ruling("ground_truth", "free_option", tuple(sorted(evidence)), detail)


def _missed(case: Case) -> list[ActionDiff]:
    """Return the expected calls never made; nothing where one was tried, or anything else differs."""
    rows = _without_handing_over(case)
    if any(row.kind != "missed" or row.refused or hands_over(row.tool) for row in rows):
        return []
    tried = any(step.failed for row in rows for step in case.transcript.calls(row.tool))
    return [] if tried else rows


def _without_handing_over(case: Case) -> list[ActionDiff]:
    return [row for row in case.diffs or () if not (row.kind == "surplus" and hands_over(row.tool))]


def _said(case: Case, index: int) -> str:
    return (case.messages[index].content or "").lower().replace("’", "'")


def _without_mark(case: Case, index: int) -> tuple[str, str]:
    """Return what a message of the user says, lower case, and the mark with which it ends the talk."""
    message = case.messages[index]
    if message.role != "user" or message.tool_calls:
        return "", ""
    content = message.content or ""
    words = CONTROL.sub("", content).strip().lower().replace("’", "'")
    mark = " ".join(CONTROL.findall(content)).lower()
    return words, "" if re.search(r"scope|transfer", mark) else mark


def _agrees(words: str) -> bool:
    """Tell whether an answer is a consent.

    >>> _agrees("yes, please"), _agrees("got it! go ahead. all good?"), _agrees("no, don't go ahead")
    (True, True, False)
    """
    return bool(_CONSENTS.search(words)) and not _FORBIDS.search(words)


def _proposals(case: Case) -> list[int]:
    """Return the agent's messages that lay something out and ask whether to do it."""
    return [
        n
        for n, one in enumerate(case.messages)
        if one.role == "assistant" and not one.tool_calls and _PROPOSES.search(_said(case, n))
    ]


def _answers(case: Case, offered: Sequence[int]) -> Iterator[int]:
    """Yield the user's message behind each of some messages of the agent."""
    for n in offered:
        if n + 1 < len(case.messages) and case.messages[n + 1].role == "user":
            yield n + 1


def _plain_yes(case: Case, index: int) -> bool:
    """Tell whether a message is a consent and nothing else: no question, nothing to wait for."""
    words = _said(case, index)
    return _agrees(words) and "?" not in words and not _HOLDS.search(words)


def _came_of_nothing(case: Case, index: int) -> bool:
    """Tell whether the agent called nothing between an answer of the user and the next."""
    for one in case.messages[index + 1 :]:
        if one.tool_calls:
            return False
        if one.role == "user":
            return True
    return True


def _laid_out(case: Case, row: ActionDiff, offered: Sequence[int]) -> bool:
    """Tell whether every value of an expected call was named by somebody, or is described in proposals."""
    upto = max(offered, default=-1) + 1
    named = " ".join(_said(case, n) for n in range(upto) if case.messages[n].role in ("assistant", "user"))
    described = " ".join(_said(case, n) for n in offered)
    return bool(row.expected_arguments) and all(
        value is None
        or isinstance(value, bool)
        or len(str(value).strip()) < _TOO_SHORT
        or stands_in(value, named)
        or (names_a_thing(value) and _described(case, value, described))
        for name, value in leaves(row.expected_arguments)
        if not _PERSON.search(name.lower())
    )


def _described(case: Case, value: Any, text: str) -> bool:
    """Tell whether a text has most of the words that the record of this name is told in."""
    own, said = _words_of(case, normal(value)), set(_WORD.findall(text))
    return bool(own) and len(own & said) >= max(1, _DESCRIBED * len(own))


def _words_of(case: Case, name: str) -> frozenset[str]:
    """Return the words of the record of that name, of the fullest that is small enough to be told."""
    best: frozenset[str] = frozenset()
    for step in case.transcript.steps:
        if step.failed or name not in normal(step.result):
            continue
        for thing in things_in(step.result):
            told = [value for _, value in leaves(thing)]
            if len(told) <= _SMALL and any(normal(one) == name for one in thing.values()):
                own = [one for one in told if isinstance(one, str) and not names_a_thing(one)]
                words = frozenset(word for one in own for word in _WORD.findall(one.lower()))
                best = max(best, words, key=len)
    return best


def _only_refused(case: Case, row: ActionDiff, at: int) -> bool:
    """Tell whether a message proposes an expected call and the user's answer refuses it."""
    if at + 1 >= len(case.messages) or case.messages[at + 1].role != "user":
        return False
    text, words = _said(case, at), _said(case, at + 1)
    if _CANNOT.search(text) or not _DECLINES.search(words):
        return False
    if not any(asks_for(row.tool, one) for one in _LATIN.findall(text)):
        return False
    before = [n for n in range(max(0, at - 4), at + 1) if case.messages[n].role in ("assistant", "user")]
    return _laid_out(case, row, before)


def _tied_by_user(case: Case, row: ActionDiff, done: str) -> int | None:
    """Return where the user first spoke of a record together with a deed; None where the agent did before."""
    for n, one in enumerate(case.messages[: row.message]):
        if one.role not in ("user", "assistant"):
            continue
        for sentence in _SENTENCE.split(one.content or ""):
            own = _LATIN.findall(sentence.lower())
            if stands_in(done, sentence) and any(_of_deed(case, row.tool, word) for word in own):
                return n if one.role == "user" else None
    return None


def _of_deed(case: Case, tool: str, word: str) -> bool:
    """Tell whether a word names what a tool does, or what few other tools do it to: an address, of orders."""
    *_, last = parts = deed(tool).split()
    of_many = 2 * sum(last in deed(one).split() for one in case.writes) > len(case.writes)
    return asks_for(tool, word) or (len(parts) > 2 and not of_many and word[:5] == last[:5])


def _tied_in_instruction(case: Case, row: ActionDiff, wanted: str, done: str) -> bool:
    """Tell whether the instruction speaks of a deed together with the expected record and not the other."""
    own = [
        sentence
        for sentence in _SENTENCE.split(case.instruction)
        if any(_of_deed(case, row.tool, word) for word in _LATIN.findall(sentence.lower()))
    ]
    return any(stands_in(wanted, one) for one in own) and not any(stands_in(done, one) for one in own)


def _is_whole(case: Case, wanted: Sequence[Any]) -> bool:
    """Tell whether some record lists just these: nothing of their kind in it is left out."""
    names = {normal(one) for one in wanted}
    for step in case.transcript.steps:
        for thing in () if step.failed else things_in(step.result):
            for items in thing.values():
                inner = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
                if len(inner) == len(names) and all(
                    any(normal(value) in names for value in one.values() if isinstance(value, str))
                    for one in inner
                ):
                    return True
    return False


def _named_part(case: Case, made: int, done: Sequence[Any], missing: Sequence[Any]) -> int | None:
    """Return the user's message that names what was done and nothing of what is missing; None without one."""
    for n in range(made - 1, -1, -1):
        words = _said(case, n)
        if case.messages[n].role != "user" or not any(_head(case, one, words) for one in done):
            continue
        if _REST.search(words) or any(_head(case, one, words) for one in missing):
            return None
        return n
    return None


def _head(case: Case, value: Any, text: str) -> bool:
    """Tell whether a text has the name of a record, or what its record calls it."""
    if normal(value) in normal(text):
        return True
    for step in case.transcript.steps:
        for thing in () if step.failed else things_in(step.result):
            own = [one for one in thing.values() if isinstance(one, str)]
            if any(normal(one) == normal(value) for one in own):
                called = next((one for one in own if not names_a_thing(one) and len(one) <= 40), "")
                words = _WORD.findall(called.lower())
                if words and all(re.search(rf"\b{re.escape(word)}", text) for word in words):
                    return True
    return False


def _users_text(case: Case, row: ActionDiff) -> str:
    """Return what the user had said before a call."""
    made = row.message or 0
    return " ".join(_said(case, n) for n in range(made) if case.messages[n].role == "user")
