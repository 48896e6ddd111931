"""A write on an object after a date of it had passed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Observation, Transcript
from trace_assets.diagnosis.detectors.values import categorical, time_of
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import gerund, last_name, noun, plain_name

MIN_USES = 3
_ENDS = re.compile(r"(?:^|[._])(?:ends?|expir\w*|due|until|valid|deadline|closes?|last_day)(?:[._]|$)")
"""Fields that tell when something ends; of what was done once, all dates lie behind."""
USUAL = 0.8
"""Share of a tool's calls that are made in one state for it to be the state in which the tool is used."""


class WritePastDate:
    """The writing tool X is called on an object although a date of it lay in the past.

    Objects whose date is still to come show nothing either way. Relevant when X was called on an object
    whose date had passed, or such an object, looked up by itself and in the state in which X is used, was
    left alone. Arguments: `tool` X, `argument` of X, `field` (the date), `now`, `state` (field to value).
    """

    name = "write_past_date"
    norm = 0.6
    mistake: Mistake = "forbidden_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every end of a tool's objects that lies ahead for some and behind for others."""
        proposals = []
        now = time_of(corpus.now)
        for tool in sorted(corpus.mutating & corpus.agent_tools.keys()) if now else ():
            if corpus.agent_tools[tool] < MIN_USES:
                continue
            sides: dict[tuple[str, str], set[bool]] = {}
            for one in corpus.transcripts:
                for step in one.calls(tool):
                    for argument in (one for one, value in step.given.items() if looks_like_id(value)):
                        for seen in one.observations.get(normal(step.given[argument]), ()):
                            own = is_of(seen.fields, argument, normal(step.given[argument]))
                            for field, value in seen.fields.items() if own else ():
                                if _ENDS.search(plain_name(field)) and (moment := time_of(value)) is not None:
                                    sides.setdefault((argument, field), set()).add(moment < now)  # type: ignore[operator]
            for (argument, field), both in sorted(sides.items()):
                if len(both) == 2:
                    state = self._state(corpus, tool, argument)
                    proposals.append(self._proposal(tool, argument, field, str(corpus.now), state))
        return proposals

    def _proposal(self, tool: str, argument: str, field: str, now: str, state: dict[str, str]) -> Proposal:
        thing = noun(argument)
        return Proposal(
            args={"tool": tool, "argument": argument, "field": field, "now": now, "state": state},
            name=f"Refrain from {gerund(tool)} once its {spoken(field)} has passed",
            description=(
                f"Compare the {spoken(field)} of the {thing} with today before '{spoken(tool)}'; when it "
                "lies in the past, do not call it, and say so or hand the case over."
            ),
            subject=(tool, field),
        )

    def _state(self, corpus: Corpus, tool: str, argument: str) -> dict[str, str]:
        """Return the fields that mostly have one value when the tool is called, and others elsewhere."""
        called, all_values = Counter[tuple[str, str]](), dict[str, set[str]]()
        calls = 0
        for one in corpus.transcripts:
            for seen in one.observations.values():
                for observation in seen:
                    for field, value in observation.fields.items():
                        if categorical(value):
                            all_values.setdefault(field, set()).add(value)
            for step in one.calls(tool):
                name = normal(step.given.get(argument))
                before = [seen for seen in one.observations.get(name, ()) if seen.index < step.index]
                if before:
                    calls += 1
                    called.update(pair for pair in before[-1].fields.items() if categorical(pair[1]))
        return {
            field: value
            for (field, value), count in sorted(called.items())
            if count >= USUAL * calls and len(all_values[field]) > 1
        }

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool, argument, field, now = args["tool"], args["argument"], args["field"], time_of(args["now"])
        if now is None:
            return NOT_NEEDED
        written = set()
        for step in transcript.calls(tool):
            name = normal(step.given.get(argument))
            written.add(name)
            if step.by_user:
                continue
            state = transcript.state(name, field, step.index)
            moment = time_of(state[1]) if state else None
            if state and moment is not None and moment < now:
                return lacking(
                    f"{tool} on {name} although its {field} {state[1]} had passed", state[0], step.index
                )
        for name, seen in transcript.observations.items():
            own = self._looked_up(transcript, name, seen)
            moment = time_of(own.fields.get(field)) if own else None
            if own is None or name in written or moment is None or moment >= now:
                continue
            if all(own.fields.get(key) == value for key, value in args["state"].items()):
                return present(f"{field} had passed, and {name} was left alone", own.index)
        return NOT_NEEDED

    def _looked_up(self, transcript: Transcript, name: str, seen: list[Observation]) -> Observation | None:
        """Return the last that was seen of an object that was asked for by its name."""
        return (
            seen[-1] if any(name in step.objects and not step.by_user for step in transcript.steps) else None
        )


def is_of(fields: Mapping[str, str], argument: str, name: str) -> bool:
    """Tell whether a record is that of an object, and does not only mention it: its own name stands first.

    A record without any name is that of the object that it was asked for by.

    >>> is_of({"loan.loanId": "L-1", "member_id": "M-1"}, "loan_id", "l-1")
    True
    >>> is_of({"loan_id": "L-1", "member_id": "M-1"}, "member_id", "m-1")
    False
    >>> is_of({"kind": "loan", "metadata.uid": "L-1"}, "loan", "l-1")
    True
    """
    field, value = next(((key, one) for key, one in fields.items() if looks_like_id(one)), ("", ""))
    if not field:
        return True
    wanted = {plain_name(argument), noun(plain_name(argument)).replace(" ", "_")}
    named = last_name(field) in wanted or "_".join(plain_name(field).split(".")[-2:]) in wanted
    return (named or noun(last_name(field)) == "object") and normal(value) == name
