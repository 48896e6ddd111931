"""Something was seen that calls for a step, and the step was not taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.wording import imperative, spoken

MIN_USES = 5
FOLLOWS = 0.6
"""Share of the trajectories that saw it that must take the step afterwards, whatever their outcome."""
LIFT = 0.3
"""By how much that must exceed the share of the other trajectories that take the step."""


class UnansweredState:
    """A result showed field = value (or said a line of text), and a certain step did not follow.

    Relevant when it was seen. Arguments: `read` (the tool that showed it), `field` (empty for text), `value`,
    `tool` (the step).
    """

    name = "unanswered_state"
    norm = 0.75

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Pair what results show with the writing tools that mostly follow and seldom come otherwise."""
        total = len(corpus.transcripts)
        saw: Counter[tuple[str, str, str]] = Counter()
        followed: Counter[tuple[tuple[str, str, str], str]] = Counter()
        both: Counter[tuple[tuple[str, str, str], str]] = Counter()
        for one in corpus.transcripts:
            ends = {tool: steps[-1].index for tool, steps in one.by_tool.items() if tool in corpus.mutating}
            for fact, at in one.facts.items():
                saw[fact] += 1
                for tool, end in ends.items():
                    both[fact, tool] += 1
                    followed[fact, tool] += end > at
        proposals = []
        for (fact, tool), count in sorted(followed.items()):
            seen = saw[fact]
            rest = total - seen
            elsewhere = (corpus.tools[tool] - both[fact, tool]) / rest if rest else 1.0
            if (
                seen >= MIN_USES
                and count >= FOLLOWS * seen
                and count / seen - elsewhere >= LIFT
                and fact[0] != tool
            ):
                proposals.append(self._proposal(fact, tool))
        return proposals

    def _proposal(self, fact: tuple[str, str, str], tool: str) -> Proposal:
        read, field, value = fact
        state = f"{spoken(field)} is {value}" if field else f"'{value}' is seen"
        return Proposal(
            args={"read": read, "field": field, "value": value, "tool": tool},
            name=f"When {state}, see to it: {imperative(tool)}",
            description=(
                f"When '{spoken(read)}' shows {'that ' + state if field else repr(value)}, go on to "
                f"'{spoken(tool)}' before the conversation ends."
            ),
            subject=(tool, field or read, value),
        )

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        seen = transcript.facts.get((args["read"], args["field"], args["value"]))
        if seen is None:
            return NOT_NEEDED
        after = [step.index for step in transcript.calls(args["tool"]) if step.index > seen]
        if after:
            return present(f"{args['tool']} followed", seen, after[0])
        return lacking(f"{args['tool']} did not follow", seen, transcript.last_of_agent())
