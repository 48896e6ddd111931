"""Telling the user that something was done when nothing was."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings

# English only: other languages give NA.
_CLAIM = re.compile(
    r"\b(?:has|have) (?:now )?(?:been )?(?:successfully )?\w+ed\b[^.?!]*"
    r"|\bsuccessfully \w+ed\b|\bis now \w+ed\b"
)
_DONE = re.compile(
    r"\b(?:updated|cancell?ed|changed|booked|modified|refunded|exchanged|returned|added|upgraded|processed|"
    r"completed|issued|created|removed|enabled|disabled|transferred|submitted|scheduled)\b"
)


class ClaimWithoutWrite:
    """The agent says that something has been done, and none of its writing calls had succeeded by then.

    Relevant when the agent claims to have done something. Arguments: `writes` (the writing tools).
    """

    name = "claim_without_write"
    norm = 0.7
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when the agent has tools that write."""
        writes = sorted(corpus.mutating)
        if not corpus.mutating & corpus.agent_tools.keys():
            return []
        return [
            Proposal(
                args={"writes": writes},
                name="Report as done only what a tool has done",
                description=(
                    "Tell the user that something has been changed, booked or cancelled only after the call "
                    "that does it has succeeded."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes = set(strings(args["writes"]))
        done = [step.end for step in transcript.steps if step.tool in writes and not step.failed]
        shown: list[int] = []
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            claims = [claim for claim in _CLAIM.findall(transcript.lowered[index]) if _DONE.search(claim)]
            if not claims:
                continue
            before = [at for at in done if at < index]
            if not before:
                return lacking(f"'{claims[0][:60]}' was said before anything was written", index)
            shown += [before[-1], index]
        return present("each claim follows a successful write", *shown) if shown else NOT_NEEDED
