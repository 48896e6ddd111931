"""A call that failed, made again unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript


class RepeatedError:
    """The agent repeats a failed call with the same arguments, having changed nothing in between.

    Relevant when one of the agent's calls failed. No arguments.
    """

    name = "repeated_error"
    norm = 0.6
    mistake: Mistake = "repetition"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance when there are failed calls at all."""
        if not any(step.failed for one in corpus.transcripts for step in one.steps):
            return []
        return [
            Proposal(
                args={},
                name="Change a call that failed before making it again",
                description=(
                    "When a tool refuses a call, read why, and correct the arguments, find out more or tell "
                    "the user; do not send the same call again."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        failed: dict[tuple[str, str], int] = {}
        first: int | None = None
        for step in transcript.steps:
            if step.by_user:
                continue
            key = (step.tool, repr(sorted(step.arguments.items(), key=str)))
            if step.failed:
                first = step.end if first is None else first
                if key in failed:
                    return lacking(
                        f"{step.tool} failed and was called again unchanged", failed[key], step.index
                    )
                failed[key] = step.end
            elif step.objects or step.arguments:
                # Something was learned or changed: the same call may now succeed.
                failed = {known: at for known, at in failed.items() if known[0] == step.tool and known != key}
        return NOT_NEEDED if first is None else present("no failed call was repeated unchanged", first)
