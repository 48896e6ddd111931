"""Results that say no: a change that was refused and is not owned up to, a look that found nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import strings

# English only: in other languages an admission is not understood, so that nothing is proposed (`_ADMITS`).
_ADMITS = re.compile(
    r"\b(?:could not|couldn't|cannot|can't|can not|was not|wasn't|were not|weren't|is not|isn't|not possible|"
    r"unable|refus\w+|reject\w+|fail\w*|error\w*|declin\w+|unsuccessful\w*|did not|didn't|no longer|blocked|"
    r"not (?:allowed|accepted|posted|booked|sent|done|available|permitted|found)|unfortunately|problem|"
    r"went wrong|locked|closed|denied|apolog\w+|sorry)\b"
)


class RefusalUntold:
    """A change on a known object was refused and never succeeded, and no later word of the agent says so.

    Known is what a result or the user had named: who mistypes a name has refused nothing. Relevant when
    such a change was refused. Arguments: `writes` (the writing tools).
    """

    name = "refusal_untold"
    norm = 0.7
    mistake: Mistake = "unhandled_error"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where some change was refused."""
        writes = sorted(corpus.mutating & corpus.agent_tools.keys())
        if not any(_refused(one, set(writes)) for one in corpus.transcripts):
            return []
        return [
            Proposal(
                args={"writes": writes},
                name="Own up to a change that was refused",
                description=(
                    "When a change is refused, bring it to success or say at the end that it was not made; "
                    "never report it as done with the others."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        writes = set(strings(args["writes"]))
        refused = _refused(transcript, writes)
        for step in refused:
            about = step.objects
            mended = any(
                one.tool in writes and not one.failed and one.index > step.index and about & one.objects
                for one in transcript.steps
            )
            if not mended and not _admitted(transcript, step.end):
                return lacking(f"{step.tool} was refused, and nobody was told", step.end)
        if refused:
            return present("what was refused was mended or told", *(step.end for step in refused[:4]))
        return NOT_NEEDED


def _refused(one: Transcript, writes: set[str]) -> list[Step]:
    found = []
    for step in one.steps:
        if step.failed and step.answer is not None and step.tool in writes and not step.by_user:
            known = any(
                name in one.lowered[at]
                for name in step.objects
                for at in range(step.index)
                if _is_source(one, at)
            )
            found += [step] if known else []
    return found


def _is_source(one: Transcript, at: int) -> bool:
    return one.messages[at].role in ("user", "tool")


def _admitted(one: Transcript, after: int) -> bool:
    return any(
        message.role == "assistant" and _ADMITS.search(one.lowered[at]) is not None
        for at, message in enumerate(one.messages)
        if at > after
    )


_EMPTY = re.compile(
    r"\A\s*(?:\[\s*\]|\{\s*\}|null|none|no (?:results?|matches|rows|records|hits|pages?)\b.*)\s*\Z|"
    r"\(0 rows\)|\b0 (?:results?|matches|hits|rows? returned|pages? match\w*|records?|entries)\b|"
    r"\"(?:count|total|total_count|num_results|hits|n|matches)\": ?0\b(?!\.)|"
    r"\"(?:results?|items|data|records|rows|hits|matches|entries|documents)\": ?\[\s*\]",
    re.IGNORECASE,
)
"""What a look answers that found nothing."""
MIN_EMPTY = 2
"""Runs in which a look must have found nothing."""


class EmptyResultBelieved:
    """The agent's last look found nothing, and it ended on that without looking in another way.

    A name may be spelled otherwise, a value called otherwise, a filter too narrow. Relevant when a look found
    nothing; PRESENT when a later call brought something. No arguments.
    """

    name = "empty_result_believed"
    norm = 0.7
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where several looks found nothing."""
        if sum(any(map(_is_empty, one.steps)) for one in corpus.transcripts) < MIN_EMPTY:
            return []
        return [
            Proposal(
                args={},
                name="Look in another way before believing that there is nothing",
                description=(
                    "When a look finds nothing, try another spelling, list the values that there are, or "
                    "widen the filter, before concluding that it does not exist."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        own = [step for step in transcript.steps if not step.by_user]
        empty = [step for step in own if _is_empty(step)]
        if not empty:
            return NOT_NEEDED
        if own[-1] is empty[-1]:
            return lacking(
                f"the last look ({own[-1].tool}) found nothing, and that was believed", own[-1].end
            )
        return present("after a look that found nothing another one was taken", empty[0].end, own[-1].index)


def _is_empty(step: Step) -> bool:
    return not step.failed and step.answer is not None and _EMPTY.search(step.result[:2000]) is not None
