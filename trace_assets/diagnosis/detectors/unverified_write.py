"""A change after which nobody looked whether it helped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings


class UnverifiedWrite:
    """After the last successful write, no reading tool is called before the conversation ends.

    Relevant when something was written. Handing the conversation over is no change to be verified.
    Arguments: `writes`, `reads` (tool names).
    """

    name = "unverified_write"
    norm = 0.7
    mistake: Mistake = "unverified_result"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when there are tools of both kinds."""
        writes = sorted(tool for tool in corpus.mutating if not hands_over(tool))
        if not writes or not corpus.reading:
            return []
        return [
            Proposal(
                args={"writes": writes, "reads": sorted(corpus.reading)},
                name="Check the result after the last change",
                description=(
                    "After changing something, look again whether it had the wanted effect before telling "
                    "the user that all is well or ending the conversation."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes, reads = set(strings(args["writes"])), set(strings(args["reads"]))
        written = [step for step in transcript.steps if step.tool in writes and not step.failed]
        if not written:
            return NOT_NEEDED
        last = written[-1]
        after = [step.index for step in transcript.steps if step.tool in reads and step.index > last.index]
        if after:
            return present("looked again after the last change", last.index, after[0])
        return lacking(f"nothing was looked at after {last.tool}", last.index, transcript.last_of_agent())
