"""Objects that a record lists and that were never opened, although none of those opened was the one meant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal
from trace_assets.diagnosis.detectors.missing_looks import MIN_USES
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import strings
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import noun

# English only: a policy in another language gives no proposals.
_HELPS = re.compile(
    r"\b(?:locate|look up|find|identify|search for)\b.*\b(?:id|number|it)\b"
    r"|\bknow\b.*\b(?:locate|look up|find)\b"
)


class ListedUnopened:
    """A result lists objects, the user names none of them, and the agent gives up before opening all.

    Only where the policy tells the agent to find which one is meant: many a list need not be gone through.

    Opening is the reading tool that is called with their identifiers. Relevant when at least two were listed
    and the user named none. PRESENT when all were opened, or when one that was opened was changed: the one
    meant was found. Arguments: `list` (field that lists them), `read`, `argument` of it, `writes`.
    """

    name = "listed_unopened"
    norm = 0.0
    mistake: Mistake = "missing_call"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every pair of a list in results and a reading tool that is called with what it lists."""
        told = [one.text for one in corpus.policy.sentences if _HELPS.search(one.text)]
        found = Counter[tuple[str, str, str]]()
        for one in corpus.transcripts:
            pairs = set[tuple[str, str, str]]()
            for field, names, at in _lists(one):
                for step in one.steps:
                    for argument, value in step.given.items():
                        if step.tool in corpus.reading and step.index > at and normal(value) in names:
                            pairs.add((field, step.tool, argument))
            found.update(pairs)
        best: dict[str, tuple[int, str, str]] = {}
        for (field, read, argument), count in sorted(found.items()):
            if count >= MIN_USES and any(noun(argument) in text for text in told):
                best[field] = max(best.get(field, (0, "", "")), (count, read, argument))
        return [
            Proposal(
                args={
                    "list": field,
                    "read": read,
                    "argument": argument,
                    "writes": sorted(corpus.mutating),
                },
                name=f"Open each of the listed {spoken(field)} until the one meant is found",
                description=(
                    f"When the user does not name the {noun(argument)}, open all of '{spoken(field)}' with "
                    f"'{spoken(read)}' until the one that is meant is found, before asking the user for it, "
                    "giving up or doing something else."
                ),
                subject=(field, read),
            )
            for field, (_, read, argument) in sorted(best.items())
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        listed: dict[str, int] = {}
        for field, names, at in _lists(transcript):
            if field == args["list"]:
                for name in names:
                    listed.setdefault(name, at)
        if len(listed) < 2 or any(name in transcript.asked_text for name in listed):
            return NOT_NEEDED
        opened = {
            name: step.index
            for step in transcript.calls(args["read"], ok=True)
            if not step.by_user and (name := normal(step.given.get(args["argument"]))) in listed
        }
        first = min(listed.values())
        if len(opened) == len(listed):
            return present("all that is listed was opened", first, max(opened.values()))
        writes = set(strings(args["writes"]))
        changed = [step for step in transcript.steps if step.tool in writes and self._of(step, opened)]
        if changed:
            return present("one that was opened was changed", first, changed[0].index)
        left = len(listed) - len(opened)
        return lacking(f"{left} of {len(listed)} listed were never opened", first, transcript.last_of_agent())

    def _of(self, step: Step, opened: Mapping[str, int]) -> bool:
        return any(name in opened and opened[name] < step.index for name in step.objects)


def _lists(transcript: Transcript) -> Iterator[tuple[str, frozenset[str], int]]:
    """Yield the lists of two or more identifiers in results: field, what it lists, where."""
    for step in transcript.steps:
        if step.failed or step.answer is None or not step.result.lstrip().startswith("{"):
            continue
        try:
            value = from_json(step.result)
        except ValueError:
            continue
        for field, items in _named_lists(value):
            if len(items) >= 2 and all(looks_like_id(item) for item in items):
                yield field, frozenset(normal(item) for item in items), step.answer


def _named_lists(value: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists of a record, those of records in it too, by their own names."""
    for field, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, list):
            yield str(field), item
        else:
            yield from _named_lists(item)
