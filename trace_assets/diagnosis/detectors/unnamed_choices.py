"""Which of several recorded alternatives is taken though nobody had named it: a card, an account."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.identity import names_a_thing, normal
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import json_of, leaves, strings
from trace_assets.diagnosis.detectors.wording import noun

MIN_USES = 3
_WORD = re.compile(r"[^\W\d_]{3,}|\d{3,}")
# English only: how people speak of an alternative without naming it.
_TOLD = re.compile(
    r"\b(?:original|originally|same|default|usual|first|second|other|only|existing|on file|either|any)\b"
)
_MONEY = frozenset({"pay", "paid", "payment", "refund", "refunded", "charge", "charged", "bill", "billed"})
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]?")
_MANY = 8
"""Alternatives up to which somebody can be asked which one to take; of more one has to search."""


class UnnamedChoice:
    """A change is given one of several alternatives from a record, and neither side had named it.

    A method of payment, an account, a card. PRESENT when the user named it, or the agent did and the user
    answered. Relevant when the record has two or more. Arguments: `tools`, `argument`.
    """

    name = "unnamed_choice"
    norm = 0.7
    mistake: Mistake = "missing_question"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every argument whose values are alternatives in results."""
        found = Counter[str]()
        tools: dict[str, set[str]] = {}
        for one in corpus.transcripts:
            own = {
                (step.tool, argument)
                for step in one.steps
                if step.tool in corpus.mutating and not (step.by_user or hands_over(step.tool))
                for argument, value in step.given.items()
                if isinstance(value, str) and _alternatives(one, normal(value), step.index)
            }
            found.update({argument for _, argument in own})
            for tool, argument in own:
                tools.setdefault(argument, set()).add(tool)
        return [
            Proposal(
                args={"tools": sorted(tools[argument]), "argument": argument},
                name=f"Have the user say which {noun(argument)} to use before changing anything",
                description=(
                    f"Where there are several to choose from, ask the user which {noun(argument)} to use, or "
                    "name the one that would be taken and wait for the answer, before the call that uses it."
                ),
                subject=(argument,),
            )
            for argument, count in sorted(found.items())
            if count >= MIN_USES
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tools, argument = set(strings(args["tools"])), str(args["argument"])
        shown: list[int] = []
        for step in transcript.steps:
            value = step.given.get(argument)
            if step.tool not in tools or step.by_user or step.failed or not isinstance(value, str):
                continue
            others = _alternatives(transcript, normal(value), step.index)
            own = others.pop(normal(value), frozenset())
            own -= frozenset().union(*others.values()) if others else frozenset()
            if not others or not own:
                continue
            about = own.union(_MONEY, noun(argument).split(), *others.values())
            at = _named(transcript, step, normal(value), own, about)
            if at is None:
                return lacking(f"nobody had said to use {value} of {len(others) + 1}", step.index)
            shown += [at, step.index]
        return present("it was named before", *shown) if shown else NOT_NEEDED


def _named(
    transcript: Transcript, step: Step, name: str, own: frozenset[str], about: frozenset[str]
) -> int | None:
    """Return where an alternative was named before a call, or spoken of as people do; None where nowhere.

    What the agent says counts where the user has answered since.
    """
    answered = max((n for n in range(step.index) if transcript.messages[n].role == "user"), default=-1)
    for index in range(step.index):
        role, text = transcript.messages[index].role, transcript.lowered[index]
        if role not in ("user", "assistant") or (role == "assistant" and index > answered):
            continue
        if name in normal(text) or not own.isdisjoint(_WORD.findall(text)):
            return index
        if any(
            _TOLD.search(one) and not about.isdisjoint(_WORD.findall(one)) for one in _SENTENCE.findall(text)
        ):
            return index
    return None


def _alternatives(transcript: Transcript, name: str, before: int) -> dict[str, frozenset[str]]:
    """Return the alternatives that a result before a message lists with this one, each with its words."""
    for step in transcript.steps:
        if step.failed or step.end >= before or name not in normal(step.result):
            continue
        for group in _groups(step.result):
            if name in group and 1 < len(group) <= _MANY:
                return group
    return {}


def _groups(text: str) -> Iterator[dict[str, frozenset[str]]]:
    """Yield the groups of records of a result that go by their names: in an object by keys, in a list."""
    stack = [json_of(text)]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            inner = {normal(key): one for key, one in value.items() if isinstance(one, dict)}
            if len(inner) == len(value) > 1 and all(names_a_thing(key) for key in inner):
                yield {key: _words(one) for key, one in inner.items()}
            stack += value.values()
        elif isinstance(value, list):
            stack += value


def _words(record: Mapping[str, Any]) -> frozenset[str]:
    """Return the words of a record's values, without its identifiers and amounts."""
    told = (one for _, one in leaves(record) if isinstance(one, str) and not names_a_thing(one))
    return frozenset(word for one in told for word in _WORD.findall(one.lower().replace("_", " ")))
