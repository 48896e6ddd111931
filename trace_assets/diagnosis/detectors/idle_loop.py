"""The same look, again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript

LIMIT = 3


class IdleLoop:
    """The agent makes one call `limit` times with the same arguments and the same answer.

    Relevant when the agent made at least `limit` calls. Arguments: `limit`.
    """

    name = "idle_loop"
    norm = 0.8

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance."""
        return [
            Proposal(
                args={"limit": LIMIT},
                name="Move on when a call brings nothing new",
                description=(
                    "Do not make the same call again and again when its answer does not change: use what it "
                    "said, try something else, or tell the user."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        own = [step for step in transcript.steps if not step.by_user]
        limit = int(args["limit"])
        if len(own) < limit:
            return NOT_NEEDED
        made: dict[tuple[str, str, str], list[int]] = {}
        for step in own:
            key = (step.tool, repr(sorted(step.arguments.items(), key=str)), step.result)
            places = made.setdefault(key, [])
            places.append(step.index)
            if len(places) >= limit:
                return lacking(f"{step.tool} was called {limit} times with the same answer", *places)
        return present("no call was made over and over", own[-1].index)
