"""A change after which nobody looked whether it helped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.wording import gerund, spoken

MIN_TASKS = 8
"""Tasks with a writing tool from which it has its own instance."""
LOOKED = 0.8
"""Share of these in which a look mostly follows."""


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
        every = Proposal(
            args={"writes": writes, "reads": sorted(corpus.reading)},
            name="Check the result after the last change",
            description=(
                "After changing something, look again whether it had the wanted effect before telling "
                "the user that all is well or ending the conversation."
            ),
        )
        return [every, *(self._after(tool, corpus) for tool in writes if self._is_looked_after(tool, corpus))]

    def _after(self, tool: str, corpus: Corpus) -> Proposal:
        return Proposal(
            args={"writes": [tool], "reads": sorted(corpus.reading)},
            name=f"Check the result after {gerund(tool)}",
            description=(
                f"After the last '{spoken(tool)}', look again whether it had the wanted effect before going "
                "on to the end."
            ),
            subject=(tool,),
        )

    def _is_looked_after(self, tool: str, corpus: Corpus) -> bool:
        """Tell whether a look follows a write in most tasks, where other writes are not looked after."""
        used, looked = set[str](), set[str]()
        for one in corpus.transcripts:
            ends = [step.end for step in one.calls(tool, ok=True)]
            if not ends:
                continue
            used.add(one.task_id)
            if any(step.index > ends[-1] and step.tool in corpus.reading for step in one.steps):
                looked.add(one.task_id)
        return len(used) >= MIN_TASKS and len(looked) >= LOOKED * len(used)

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
