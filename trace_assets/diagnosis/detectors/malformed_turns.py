"""Turns that no program can use: empty ones, and calls, or a target's closing word, among other words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
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
MOSTLY = 0.5
"""Share of the runs whose last words begin with the same mark, from which the target wants it so."""
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
