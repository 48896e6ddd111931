"""The end of a conversation in which something asked for was never done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import imperative, spoken

MIN_USES = 4


class EndedWithWorkOpen:
    """The user asked for what a writing tool does (a cue word), and it was never called successfully.

    Cues are forms of the tool's verb: other words may go with a call without asking for it. Relevant
    when a cue word was said. It counts also when the conversation ended by a transfer: whether
    successful runs do so is for the contrast to say. Arguments: `tool`, `cues`.
    """

    name = "ended_with_work_open"
    norm = 0.7
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool that the user's words ask for, also one that tasks demand in vain."""
        proposals = []
        for tool in sorted(corpus.mutating & corpus.tools.keys()):
            if corpus.tools[tool] >= MIN_USES and (cues := corpus.asking(tool)):
                proposals.append(self._proposal(tool, cues))
        for tool in sorted(corpus.unmade_writes):
            if cues := corpus.demanding(tool):
                proposals.append(replace(self._proposal(tool, cues), never=True))
        return proposals

    def _proposal(self, tool: str, cues: list[str]) -> Proposal:
        return Proposal(
            args={"tool": tool, "cues": cues},
            name=f"When asked to, {imperative(tool)} before ending",
            description=(
                f"When the user asks for what '{spoken(tool)}' does, see that it is done successfully before "
                "the conversation ends or is handed over."
            ),
            subject=(tool,),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        asked = transcript.cue(args["cues"])
        if asked is None:
            return NOT_NEEDED
        done = transcript.calls(args["tool"], ok=True)
        if done:
            return present(f"asked for and done with {args['tool']}", asked, done[0].index)
        return lacking(f"asked for, and {args['tool']} never succeeded", asked, transcript.last_of_agent())
