"""An argument that still has the value of a field that was shown otherwise since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import normal
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.wording import plain_name, spoken

MIN_USES = 3


class StaleValue:
    """A value that a result showed is given to a tool after a later result showed another one in its place.

    The argument has the field's name: a revision, a balance, a date that was moved. The user's own words
    since the change are no stale source. Relevant when a field of an object was seen to change before a call
    that takes an argument of this name, as its first or its last value. Arguments: `argument`.
    """

    name = "stale_value"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every argument whose field was seen to change before a call."""
        uses: dict[str, int] = {}
        for one in corpus.transcripts:
            for argument in {argument for argument, *_ in _changed(one)}:
                uses[argument] = uses.get(argument, 0) + 1
        return [
            Proposal(
                args={"argument": argument},
                name=f"Take the {spoken(argument)} as it stands after the last change",
                description=(
                    f"When something has changed since '{spoken(argument)}' was read, use the value that the "
                    "latest result shows, or look again, and not the earlier one."
                ),
                subject=(argument,),
            )
            for argument, n in sorted(uses.items())
            if n >= MIN_USES
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for argument, step, old, new, at in _changed(transcript):
            if argument != args["argument"]:
                continue
            given = normal(step.given[argument])
            if given == old and not _said_since(transcript, old, at, step.index):
                why = f"{step.tool} was given {argument} {old}, which had since become {new}"
                return lacking(why, at, step.index)
            shown += [at, step.index]
        return present(f"the latest {args['argument']} was used", *shown) if shown else NOT_NEEDED


def _changed(transcript: Transcript) -> Iterator[tuple[str, Step, str, str, int]]:
    """Yield (argument, call, old value, new value, where it was shown) of calls that take either value."""
    if not transcript.histories:
        return
    for step in transcript.steps:
        for argument, value in step.given.items() if not step.by_user else ():
            if value is None or isinstance(value, bool | Mapping | list):
                continue
            for history in transcript.histories.get(plain_name(argument), ()):
                shown = [one for one in history if one[0] < step.index]
                old, new = (shown[0][1], shown[-1][1]) if shown else ("", "")
                if old != new and normal(value) in (old, new):
                    yield argument, step, old, new, shown[-1][0]
                    break


def _said_since(transcript: Transcript, value: str, after: int, before: int) -> bool:
    return any(
        value in transcript.lowered[index]
        for index in range(after + 1, before)
        if transcript.messages[index].role == "user"
    )
