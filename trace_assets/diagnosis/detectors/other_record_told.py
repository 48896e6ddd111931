"""What the agent tells of a thing, out of the record of another one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import names_a_thing
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import strings

MIN_RUNS = 3
MIN_NAMES = 5
"""Different things that records of one tool must hold for their names to be a vocabulary."""
_FIGURE = re.compile(r"(?<![\w#.,-])\d{6,}(?![\w-])|(?<![\w.,])\d{2,}\.\d\d(?!\d)")
_SENTENCE = re.compile(r"(?:[^.?!\n]|\.(?=\d))+[.?!]?")
_WORD = re.compile(r"[a-z][a-z-]{3,}")
_COMPARES = re.compile(r"\b(?:than|under|below|above|over|within|compared|versus|instead|difference)\b")
_LONGEST = 40


class OtherRecordTold:
    """The agent tells a figure of a thing, and the only record that has the figure does not hold that thing.

    Such as the tracking number of a parcel with other goods in it. PRESENT when the record holds what the
    sentence names. Relevant when a sentence has a figure of one record alone, and the name of a thing that
    such records hold, and compares nothing.
    Arguments: `read` (tool), `list` (field of its records), `names` (nouns of what stands in that).
    """

    name = "other_record_told"
    norm = 0.8
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every look whose records list things by names."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for one in corpus.transcripts:
            for tool in corpus.reading & one.by_tool.keys():
                for step in one.calls(tool, ok=True):
                    for field, noun in _held(step.result):
                        found[tool, field].add(noun)
        return [
            Proposal(
                args={"read": tool, "list": field, "names": sorted(names)},
                name="Tell a figure only from the record that holds the thing asked about",
                description=(
                    "Before telling a number or an amount of something, see that the record it comes from "
                    "holds that very thing; where it does not, look at the other records."
                ),
                subject=(tool, field),
            )
            for (tool, field), names in sorted(found.items())
            if len(names) >= MIN_NAMES and corpus.tools[tool] >= MIN_RUNS
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        names, shown = frozenset(strings(args["names"])), list[int]()
        looks = transcript.calls(args["read"], ok=True)
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            for sentence in _SENTENCE.findall(transcript.lowered[index]):
                told = {word for word in _WORD.findall(sentence) if _singular(word) in names}
                if _COMPARES.search(sentence):
                    continue
                for figure in _FIGURE.findall(sentence) if told else ():
                    of = _only_record(transcript, looks, figure, index)
                    if of is None:
                        continue
                    held = {noun for field, noun in _held(of.result) if field == args["list"]}
                    if not any(_singular(word) in held for word in told):
                        why = f"{figure} is of a record without {' or '.join(sorted(told))}"
                        return lacking(why, of.end, index)
                    shown += [of.end, index]
        return present("each figure is of the record that holds the thing", *shown) if shown else NOT_NEEDED


def _only_record(transcript: Transcript, looks: list[Step], figure: str, before: int) -> Step | None:
    """Return the one look whose result has a figure; None where another message has it as well."""
    having = {step.result: step for step in looks if step.end < before and figure in step.result}
    if len(having) != 1:
        return None
    (step,) = having.values()
    other = any(
        figure in (one.content or "")
        for n, one in enumerate(transcript.messages[:before])
        if n != step.answer and one.role != "assistant" and one.content != step.result
    )
    return None if other else step


def _held(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lists of a record with the nouns by which their entries go.

    >>> list(_held('{"order": "K4821", "items": [{"name": "Garden Hoses"}, {"name": "Lamp"}]}'))
    [('items', 'hose'), ('items', 'lamp')]
    """
    if not text.lstrip().startswith("{"):
        return
    try:
        record = from_json(text)
    except ValueError:
        return
    for field, items in record.items() if isinstance(record, dict) else ():
        for one in items if isinstance(items, list) else ():
            texts = (
                [value for value in one.values() if isinstance(value, str)] if isinstance(one, dict) else []
            )
            called = next((v for v in texts if not names_a_thing(v) and len(v) <= _LONGEST), "")
            words = _WORD.findall(called.lower())
            if words:
                yield str(field), _singular(words[-1])


def _singular(word: str) -> str:
    """Return a noun without the ending of its plural.

    >>> _singular("boots"), _singular("glass"), _singular("sneaker")
    ('boot', 'glass', 'sneaker')
    """
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word
