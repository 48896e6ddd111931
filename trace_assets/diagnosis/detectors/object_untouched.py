"""An object that the user named and that no call ever concerned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import find_ids, normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.wording import noun


class ObjectUntouched:
    """The user names several objects of one kind, and some of them occur in no call of the agent.

    Relevant when at least two are named: a request about a single object says nothing about going on.
    Arguments: `argument` that names the kind of object, `pattern` of its identifiers.
    """

    name = "object_untouched"
    norm = 0.6
    mistake: Mistake = "early_end"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every kind of object that calls name; kinds whose names look alike are one."""
        proposals: dict[str, Proposal] = {}
        for argument, pattern in sorted(corpus.object_arguments.items()):
            thing = noun(argument)
            proposals.setdefault(
                pattern,
                Proposal(
                    args={"argument": argument, "pattern": pattern},
                    name=f"Deal with every {thing} the user names",
                    description=(
                        f"When a request concerns more than one {thing}, go on after the first one until "
                        "each has been dealt with, before ending the conversation."
                    ),
                    subject=(argument,),
                ),
            )
        return list(proposals.values())

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        named: dict[str, int] = {}
        for index, message in enumerate(transcript.messages):
            if message.role == "user" and message.content:
                for name in find_ids(message.content, str(args["pattern"])):
                    named.setdefault(name, index)
        if len(named) < 2:
            return NOT_NEEDED
        touched: dict[str, int] = {}
        for step in transcript.steps:
            if not step.by_user:
                for value in {normal(value) for _, value in leaves(step.arguments)} & named.keys():
                    touched.setdefault(value, step.index)
        missed = [name for name in named if name not in touched]
        mentions = set(named.values())
        if missed:
            agent = transcript.last_of_agent()
            return lacking(f"{', '.join(missed)} named by the user, in no call", *mentions, agent)
        return present(f"all {len(named)} named objects occur in calls", *mentions, *touched.values())
