"""Of several records that are alike, some are changed in one go and another is left."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import categorical
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import gerund, last_name, noun

MIN_USES = 4
ALWAYS = 0.95
"""Share of a tool's calls whose records must be in a state for it to be the one that the tool needs."""
MIN_OTHERS = 2
"""Runs in which a record must have been seen in another state."""
# English only: in other languages nobody says all.
_ALL = re.compile(r"\b(?:all|every|everything|each|both)\b")


class AlikeLeftOut:
    """The user wants all of a kind changed; the agent changes several alike and leaves one that it had seen.

    The one that is left was in the state in which the tool is used. PRESENT when no such one was left.
    Relevant when two records or more were given the same change, and the user spoke of all, or of the kind in
    the plural, and named none of them.
    Arguments: `tool`, `argument` that names the record, `field` and `value` of the state.
    """

    name = "alike_left_out"
    norm = 0.6
    mistake: Mistake = "early_end"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every change whose records are nearly always in one state, where others are seen too."""
        proposals = []
        for tool, argument in corpus.object_writes(MIN_USES):
            if hands_over(tool):
                continue
            state = _needed_state(corpus, tool, argument)
            if state is None:
                continue
            thing = noun(argument)
            proposals.append(
                Proposal(
                    args={"tool": tool, "argument": argument, "field": state[0], "value": state[1]},
                    name=f"Leave out no {thing} that is alike when {gerund(tool)} for all",
                    description=(
                        f"When the user wants '{spoken(tool)}' for all, go through every {thing} that was "
                        f"seen with {spoken(last_name(state[0]))} {state[1]}, not only the first ones."
                    ),
                    subject=(tool,),
                )
            )
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool, argument = str(args["tool"]), str(args["argument"])
        groups: dict[str, list[Step]] = defaultdict(list)
        for step in transcript.own_calls(tool, ok=True):
            rest = {name: value for name, value in step.given.items() if name != argument}
            groups[repr(sorted(rest.items(), key=str))].append(step)
        alike = max(groups.values(), key=len, default=[])
        done = {normal(step.given.get(argument)) for step in alike}
        if len(done) < 2 or not self._wants_all(transcript, noun(argument), alike[-1].index):
            return NOT_NEEDED
        if any(name in transcript.asked_text for name in done):
            return NOT_NEEDED  # the user said which
        touched = {name for step in transcript.steps if step.tool == tool for name in step.objects}
        left = [
            name
            for name in transcript.observations
            if name not in touched
            and name not in transcript.asked_text
            and self._is_one(transcript, name, args, alike[-1].index, done)
        ]
        if left:
            end = transcript.last_of_agent()
            return lacking(f"{left[0]} was seen in the same state and left", alike[-1].index, end)
        return present("each that was seen in the state was dealt with", alike[0].index, alike[-1].index)

    def _wants_all(self, transcript: Transcript, thing: str, before: int) -> bool:
        plural = re.compile(rf"\b{re.escape(thing.split()[-1])}s\b") if thing else None
        said = [
            text
            for n, text in enumerate(transcript.lowered[:before])
            if transcript.messages[n].role == "user"
        ]
        return any(_ALL.search(one) or (plural is not None and plural.search(one)) for one in said)

    def _is_one(
        self, transcript: Transcript, name: str, args: Mapping[str, Any], before: int, done: set[str]
    ) -> bool:
        """Tell whether something is a record of the kind that was changed, in the state that this needs."""
        field = str(args["field"])
        seen = transcript.state(name, field, before)
        if seen is None or normal(seen[1]) != normal(args["value"]):
            return False
        # Several names may stand in one record: its own is the one that the looks at the others were given.
        looks = {step.tool for step in transcript.steps if step.names & done and not step.by_user}
        return any(name in step.names and step.tool in looks for step in transcript.steps)


def _needed_state(corpus: Corpus, tool: str, argument: str) -> tuple[str, str] | None:
    """Return the field and the value of it in which records nearly always are when a tool is called."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    others: dict[str, Counter[str]] = defaultdict(Counter)
    calls = 0
    for one in corpus.transcripts:
        for step in one.own_calls(tool, ok=True):
            calls += 1
            name = normal(step.given.get(argument))
            for seen in (one.observations.get(name) or [])[:1]:
                if seen.index < step.index:
                    for field, value in seen.fields.items():
                        if categorical(value):
                            values[field][normal(value)] += 1
        shown = {
            (field, normal(value))
            for seen in one.observations.values()
            for found in seen
            for field, value in found.fields.items()
            if categorical(value)
        }
        for field, value in shown:
            others[field][value] += 1
    for field, counts in sorted(values.items()):
        value, count = counts.most_common(1)[0]
        away = sum(n for other, n in others[field].items() if other != value)
        if calls >= MIN_USES and count >= ALWAYS * calls and away >= MIN_OTHERS and not _is_place(field):
            return field, value
    return None


def _is_place(field: str) -> bool:
    """Tell whether a field stands in an object of its own: such as the country of an address."""
    return "." in field
