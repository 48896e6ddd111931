"""The same look, again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import strings

LIMIT = 3


class IdleLoop:
    """The agent makes one call `limit` times with the same answer, and nothing is changed in between.

    Relevant when the agent made at least `limit` calls. Arguments: `limit`, `writes` (tools that change
    something: looking again after one of them is no loop).
    """

    name = "idle_loop"
    norm = 0.8
    mistake: Mistake = "repetition"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance."""
        return [
            Proposal(
                args={"limit": LIMIT, "writes": sorted(corpus.mutating)},
                name="Move on when a call brings nothing new",
                description=(
                    "Do not make the same call again and again when its answer does not change: use what it "
                    "said, try something else, or tell the user."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        limit, writes = int(args["limit"]), set(strings(args["writes"]))
        own = [step.index for step in transcript.steps if not step.by_user]
        if len(own) < limit:
            return NOT_NEEDED
        made: dict[tuple[str, str, str], list[int]] = {}
        for step in transcript.steps:
            if step.tool in writes and not step.failed:
                made = {}
            elif not step.by_user:
                key = (step.tool, repr(sorted(step.arguments.items(), key=str)), step.result)
                places = made.setdefault(key, [])
                places.append(step.index)
                if len(places) >= limit:
                    return lacking(f"{step.tool} was called {limit} times with the same answer", *places)
        return present("no call was made over and over", own[-1])
