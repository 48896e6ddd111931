"""A write that the user was not asked about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.wording import gerund, spoken

MIN_USES = 3
# English only: in other languages the object must be named.
_ASKS = re.compile(
    r"\?|\b(?:please|kindly) (?:confirm|reply|respond)|\bconfirm\b|\bproceed\b|\(yes|\byes\b|\blet me know\b"
)


class WriteWithoutConsent:
    """The writing tool is called before the agent has asked the user and the user answered.

    Asking is naming the object, or a question or a request to confirm in the last thing that the agent said
    before the user's answer: "please confirm these details" need not repeat an identifier.

    Relevant when the tool was called. Arguments: `tool`, `argument` that names the object.
    """

    name = "write_without_consent"
    norm = 0.7
    mistake: Mistake = "missing_question"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool of the agent that acts on an object."""
        return [
            Proposal(
                args={"tool": tool, "argument": argument},
                name=f"Ask the user before {gerund(tool)}",
                description=(
                    f"Before '{spoken(tool)}', say what is about to be done to which object and wait for "
                    "the user's answer."
                ),
                subject=(tool,),
            )
            for tool, argument in corpus.object_writes(MIN_USES)
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for step in transcript.calls(args["tool"]):
            if step.by_user:
                continue
            asked = self._asked(transcript, step, normal(step.given.get(args["argument"])))
            if asked is None:
                return lacking(f"{step.tool} was called without asking the user first", step.index)
            shown += [asked, step.index]
        return present("the user had answered before each call", *shown) if shown else NOT_NEEDED

    def _asked(self, transcript: Transcript, step: Step, name: str) -> int | None:
        """Return the agent's message that asked, and that the user answered before the step."""
        answered = passed = False
        for index in range(step.index - 1, -1, -1):
            message = transcript.messages[index]
            if message.role == "user" and message.content:
                answered = True
            elif answered and message.role == "assistant" and message.content:
                if name in normal(message.content) or (
                    not passed and _ASKS.search(transcript.lowered[index])
                ):
                    return index
                passed = True
        return None
