"""Answers of agents that are asked once, and turns that no program can use.

Answers are given from memory, or never given. Turns are empty, or hold calls, or a target's closing word,
among other words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import (
    NOT_NEEDED,
    Finding,
    Mistake,
    Proposal,
    is_lacked,
    lacking,
    present,
)
from trace_assets.diagnosis.detectors.transcript import Transcript

MIN_RUNS = 3
"""Runs that must answer so for a proposal: of fewer nothing says that an answer is what is wanted."""
MOSTLY = 0.5
"""Share of the runs that must end with an answer for one without it to lack something."""
LONGEST = 12
"""Words of what counts as an answer: more tell what was done, in the agent's own words."""
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_STEM = 5
"""Letters by which forms of a name are taken for it: a country, and who lives there."""


class UnseenAnswer:
    """A name in the agent's answer stands in no result and in nothing that was said: it is from memory.

    Numbers may be counted or added up, and words that are no names may say in others what was seen: neither
    shows anything. Relevant when an agent that was asked once looked something up and answered in a few
    words with a name. No arguments.
    """

    name = "unseen_answer"
    norm = 0.6
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where several runs answer so."""
        if sum(bool(_names(one)) for one in corpus.transcripts) < MIN_RUNS:
            return []
        return [
            Proposal(
                args={},
                name="Answer with what was seen, not from memory",
                description=(
                    "Before answering, find a result that shows the answer; when none does, go on looking "
                    "instead of answering with what seems likely."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        names = _names(transcript)
        if not names:
            return NOT_NEEDED
        end = transcript.last_of_agent()
        known = {word[:_STEM] for word in _known(transcript, end)}
        unseen = [name for name in names if not any(part[:_STEM] in known for part in _parts(name))]
        if unseen:
            said = " ".join((transcript.messages[-1].content or "").split())
            return lacking(f"it answered '{said}', and no result had shown {' and '.join(unseen)}", end)
        return present("all that its answer names had been shown or said", end)


class NoAnswer:
    """The run is over and the agent, that was asked once, has not answered: its steps were used up.

    Relevant when the agent looked something up. No arguments.
    """

    name = "no_answer"
    norm = 0.6
    mistake: Mistake = "early_end"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where most runs that are asked once end with an answer."""
        asked = [one for one in corpus.transcripts if _is_asked_once(one) and one.steps]
        answered = sum(_says_last(one) for one in asked)
        if answered < max(MIN_RUNS, MOSTLY * len(asked)) or answered == len(asked):
            return []
        return [
            Proposal(
                args={},
                name="Come to an answer before the steps are used up",
                description=(
                    "Steps are limited: change the course when looks bring nothing nearer, and answer with "
                    "what is known before the last step."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        if not _is_asked_once(transcript) or not transcript.steps:
            return NOT_NEEDED
        end = transcript.last_of_agent()
        if _says_last(transcript):
            return present("it ended with an answer", end)
        return lacking("the run ended without an answer", end)


def _is_asked_once(one: Transcript) -> bool:
    """Tell whether nobody spoke to the agent after it had begun."""
    begun = next((at for at, said in enumerate(one.messages) if said.role == "assistant"), None)
    if begun is None or not any(said.role == "user" for said in one.messages[:begun]):
        return False
    return all(said.role != "user" for said in one.messages[begun:])


def _says_last(one: Transcript) -> bool:
    last = one.messages[-1]
    return last.role == "assistant" and not last.tool_calls and bool((last.content or "").strip())


def _names(one: Transcript) -> list[str]:
    """Return the names in a short answer of an agent that looked something up; none in any other end."""
    if not _is_asked_once(one) or not one.steps or not _says_last(one):
        return []
    words = _WORD.findall((one.messages[-1].content or "").strip())
    if not 0 < len(words) <= LONGEST:
        return []
    # What begins a sentence has a capital anyway; an answer of one or two words is a name with one.
    named = words[1:] if len(words) > 2 and not words[1][:1].isupper() else words
    return [word for word in named if word[0].isupper() and len(word) > 2 and word.lower() not in _NO_NAMES]


_NO_NAMES = frozenset(
    {
        "yes",
        "not",
        "none",
        "the",
        "and",
        "this",
        "that",
        "there",
        "both",
        "neither",
        "unknown",
        "true",
        "false",
    }
    | {"error", "sorry", "answer", "done", "nothing", "nobody", "information"}
)


def _known(one: Transcript, end: int) -> Iterator[str]:
    """Yield the words that others than the agent had said or shown before a message."""
    for at, message in enumerate(one.messages[:end]):
        if message.role != "assistant":
            for word in _WORD.findall(one.lowered[at]):
                yield from _parts(word)


def _parts(word: str) -> Iterator[str]:
    low = word.lower()
    yield low
    yield from (part for part in re.split(r"['\u2019-]", low) if len(part) > 2)


class EmptyTurn:
    """An assistant message has neither text nor a tool call. Relevant in every trajectory; no arguments."""

    name = "empty_turn"
    norm = 0.9
    mistake: Mistake = "malformed_turn"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when it occurs."""
        if not is_lacked(self, corpus):
            return []
        return [
            Proposal(
                args={},
                name="Say something or call a tool in every turn",
                description="Never send an empty message: each turn is text for the user or a tool call.",
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        turns = [index for index, message in enumerate(transcript.messages) if message.role == "assistant"]
        for index in turns:
            message = transcript.messages[index]
            if not message.tool_calls and not (message.content or "").strip():
                return lacking("the agent sent an empty message", index)
        return present("no message was empty", turns[-1]) if turns else NOT_NEEDED


MIN_USES = 3
"""Runs that show the mistake."""
_CLOSES = re.compile(r"\s*([A-Z][A-Z_]{2,})[(:]")


class CallInProse:
    """A turn without a call holds, behind other words, a line that begins as a call of the target's does.

    Programs that read calls from text, or take one call or closing word a turn, cannot use such a turn. What
    begins so is learned: the names of tools that were called, and the mark with which most runs' last words
    begin. Relevant in every run with a turn of the agent. Arguments: `marks`.
    """

    name = "call_in_prose"
    norm = 0.9
    mistake: Mistake = "malformed_turn"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when it occurs."""
        tools = {step.called for one in corpus.transcripts for step in one.steps if not step.by_user}
        lasts = [one.messages[one.last_of_agent()] for one in corpus.transcripts if one.messages]
        closing = Counter(found[1] for one in lasts if (found := _CLOSES.match(one.content or "")))
        usual = {mark for mark, n in closing.items() if n >= MOSTLY * len(lasts)}
        args = {"marks": sorted({tool for tool in tools if tool} | usual)}
        spoilt = sum(self.label(one, args).label == "LACKING" for one in corpus.transcripts)
        if not args["marks"] or spoilt < MIN_USES:
            return []
        return [
            Proposal(
                args=args,
                name="Make one call a turn, without words beside it",
                description=(
                    "Where calls are written as text, a turn is the call, or the closing word, and nothing "
                    "else: no explanation before it and no second call behind it."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        begins = _begins(tuple(args["marks"]))
        turns = [index for index, one in enumerate(transcript.messages) if one.role == "assistant"]
        for index in turns:
            message = transcript.messages[index]
            text = (message.content or "").strip()
            found = None if message.tool_calls else begins.search(text)
            if found is not None and found.start() > 0:
                return lacking(f"'{found[1]}' stands among other words", index)
        return present("every call stood by itself", turns[-1]) if turns else NOT_NEEDED


def _begins(marks: tuple[str, ...]) -> re.Pattern[str]:
    r"""Return what finds a line that begins with one of some marks as a call does.

    >>> _begins(("GET", "FINISH")).findall("I look.\nGET http://a.example/p\nGET well.")
    ['GET']
    """
    names = "|".join(re.escape(one) for one in marks) or r"(?!)"
    return re.compile(rf"^[ \t`]*({names})(?=\(|:? *\{{| +(?:https?://|/)\S)", re.MULTILINE)
