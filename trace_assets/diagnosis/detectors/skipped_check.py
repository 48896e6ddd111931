"""A look that the user's words call for and that was not taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import imperative, spoken, title

MIN_USES = 4
EVERYWHERE = 0.95
"""A read that this share of trajectories makes anyway is no matter of the request."""


class SkippedCheck:
    """The user speaks of what a reading tool alone shows (a cue word), and it was never called.

    Cues are words of the tool's name that no other tool has: a word that merely goes with the call, such as
    a name or a place, obliges nobody to look. Relevant when a cue word was said. Arguments: `tool`, `cues`.
    """

    name = "skipped_check"
    norm = 0.75
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every reading tool that some words of the user ask for."""
        proposals = []
        for tool in sorted(corpus.reading):
            count = corpus.tools[tool]
            if count < MIN_USES or count > EVERYWHERE * len(corpus.transcripts):
                continue
            if cues := corpus.own_words(tool, corpus.cues(tool)):
                proposals.append(
                    Proposal(
                        args={"tool": tool, "cues": cues},
                        name=f"{title(imperative(tool))} when the user speaks of '{cues[0]}'",
                        description=(
                            f"When the user speaks of {', '.join(cues[:3])}, use '{spoken(tool)}' (or have "
                            "it used) before concluding."
                        ),
                        subject=(tool,),
                    )
                )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        asked = transcript.cue(args["cues"])
        if asked is None:
            return NOT_NEEDED
        made = transcript.calls(args["tool"], ok=True)
        if made:
            return present(f"{args['tool']} was called", asked, made[0].index)
        return lacking(f"{args['tool']} was never called", asked, transcript.last_of_agent())
