"""What the agent says that it does or did, and figures that it tells, held against its calls and results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.described_records import Record, lists_in
from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_figures import figures_in
from trace_assets.diagnosis.detectors.policy_sums import shown_numbers
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.diagnosis.detectors.values import numbers_in, sums
from trace_assets.diagnosis.detectors.verbs import (
    ELSEWHERE,
    NOUNS,
    WORD,
    WRITING,
    has_stem,
    is_deed,
    same_verb,
    things,
    verb_of,
)
from trace_assets.diagnosis.detectors.wording import gerund, imperative

MIN_USES = 3
# English only: other languages give NA.
_SAYS_SO = re.compile(
    r"\b(?:i(?:'ll| will| shall|'m going to| am going to|'ve| have| just)|we(?:'ll| will|'ve| have)|"
    r"(?:has|have) (?:now |already |just )?been|will be|is being|(?:is|are) (?:now )?on (?:its|their) way)\b"
)
_OPEN = re.compile(
    r"\b(?:if|once|when|unless|after|should|shall|would|could|before|until|need|cannot|not)\b|n't\b|\?"
)
"""Words of a sentence that says what may be done, or what is not."""
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]?")
_AS_NOUN = re.compile(rf"\b(?:the|an?|this|that|its|your|our|my) (?:{'|'.join(sorted(NOUNS))})\b")
"""Verbs in the place of nouns: who lifts the hold holds nothing."""


class PromiseUnkept:
    """The agent says that it will do, or has done, what a writing tool does, and never calls it.

    The sentence must have a form of the tool's verb and one of its things. What hangs on a condition, and a
    question, promises nothing. Relevant when the agent says so. Arguments: `tool`.
    """

    name = "promise_unkept"
    norm = 0.9
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose every writing tool with a thing, so that sentences can be told to be about it."""
        return [
            Proposal(
                args={"tool": tool},
                name=f"Keep the word that was given: {imperative(tool)} when it is promised",
                description=(
                    f"What the user is told will be done, or has been, must be done with a call: having said "
                    f"so, see that {gerund(tool)} has succeeded before the conversation ends."
                ),
                subject=(tool,),
            )
            for tool in sorted(corpus.mutating & corpus.agent_tools.keys())
            if _can_be_told(tool) and corpus.agent_tools[tool] >= MIN_USES and not hands_over(tool)
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        tool = str(args["tool"])
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            for sentence in _SENTENCE.findall(transcript.lowered[index]):
                if not _promises(sentence, tool):
                    continue
                done = transcript.calls(tool, ok=True)
                if done:
                    return present("what was promised was done", index, done[0].index)
                return lacking(f"'{sentence.strip()[:80]}' was said, and {tool} never succeeded", index)
        return NOT_NEEDED


def _can_be_told(tool: str) -> bool:
    """Tell whether sentences can be told to be about a tool: by its thing, or by a verb that is no noun."""
    return bool(things(tool)) or verb_of(tool) in WRITING - NOUNS - ELSEWHERE


def _promises(sentence: str, tool: str) -> bool:
    """Tell whether a sentence says that what a tool does will be done or is done.

    >>> [_promises(one, "send_receipt") for one in ("i will send the receipt.", "shall i send a receipt?")]
    [True, False]
    >>> _promises("the receipt has been sent to you", "send_receipt"), _promises("i sent it", "send_receipt")
    (True, False)
    """
    if _OPEN.search(sentence) or not _SAYS_SO.search(sentence):
        return False
    sentence = _AS_NOUN.sub(" ", sentence)
    # Who updates a reservation does not reserve: a thing is no deed.
    words = [
        word for word in WORD.findall(sentence) if not any(has_stem([word], one) for one in things(tool))
    ]
    named = WORD.findall(sentence)
    sends = verb_of(tool) == "send" and (
        "way" in words or any(same_verb(v, w) for v in ("mail", "email") for w in words)
    )
    return (is_deed(tool, words) or sends) and all(has_stem(named, one) for one in things(tool))


_DATED = re.compile(
    r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2}[:.]\d\d(?:\s?[ap]m)?\b(?!\s?(?:eur|usd|dollar|euro))|#?\b[A-Za-z]+[-_]?\d[\w-]*\b"
)
_CLAUSE = re.compile(r"[;\n]|[.!?](?=\s|\Z)|,\s|\b(?:and|while|but|or)\b")
_PRICED = re.compile(
    r"\b(?:costs?|prices?d?|fees?|charges?|total|amounts?|comes? to|pay|is|are|for|at)\b|[$€£]"
)
_MOST_TIMES = 24
_CENT = 0.011


class WrongFigure:
    """The agent tells a figure of a thing by name, and the record of that thing has no such figure.

    The thing is one of several that a look showed, by the name that it has there, and the clause names no
    other one. A multiple of what the record has, or one changed by a figure of the policy, may be right.
    Relevant when such a figure was told. Arguments: `figures`, those of the policy.
    """

    name = "wrong_figure"
    norm = 0.8
    mistake: Mistake = "wrong_statement"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Propose the one instance where agents tell such figures."""
        figures = sorted({one.number for s in corpus.policy.sentences for one in figures_in(s.text)})
        args = {"figures": figures}
        if sum(self.label(one, args).label != "NA" for one in corpus.transcripts) < MIN_USES:
            return []
        return [
            Proposal(
                args=args,
                name="Tell the figure that the record shows",
                description=(
                    "A price, a fee or an amount that the user is told must be that of the thing that is "
                    "spoken of, as a result shows it, and no other one."
                ),
            )
        ]

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for index, message in enumerate(transcript.messages):
            if message.role != "assistant" or not message.content:
                continue
            rows = _named(transcript, index)
            for clause in _CLAUSE.split(transcript.lowered[index]) if rows else ():
                told = {one for one in numbers_in(_DATED.sub(" ", clause)) if one > 1}
                mine = [row for name, row in rows if _stands(name, clause)]
                if not told or len(mine) != 1 or not _PRICED.search(clause):
                    continue
                own = [number for value in mine[0].values() for number in set(numbers_in(value))]
                if not own:
                    continue
                if any(abs(one - other) < _CENT for one in told for other in own):
                    shown.append(index)
                elif not _may_be(told, own, transcript, index, args["figures"]):
                    figure = min(told)
                    return lacking(f"{figure:g} was told, and no record of it has that figure", index)
        return present("the figure told is that of the record", *shown) if shown else NOT_NEEDED


def _named(transcript: Transcript, before: int) -> list[tuple[str, Record]]:
    """Return what looks showed in lists, by the names that tell the records apart."""
    found: list[tuple[str, Record]] = []
    for step in transcript.steps:
        if step.failed or step.answer is None or step.answer >= before:
            continue
        for records in lists_in(step.result):
            for field in records[0]:
                names = [one.get(field, "").lower() for one in records]
                plain = all(len(name) > 3 and not any(c.isdigit() for c in name) for name in names)
                if plain and len(set(names)) == len(names):
                    found += list(zip(names, records, strict=True))
                    break
    return found


def _stands(name: str, text: str) -> bool:
    return name in text and re.search(rf"(?<!\w){re.escape(name)}s?(?!\w)", text) is not None


def _may_be(
    told: set[float], own: list[float], transcript: Transcript, before: int, figures: list[float]
) -> bool:
    """Tell whether a figure may come from others: a multiple, a sum, what a result or the user said."""
    known: set[float] = set()
    for step in transcript.steps:
        if step.answer is not None and step.answer < before:
            known.update(sums(step.result))
            if not lists_in(step.result):
                known.update(shown_numbers(step.result))
    for index in range(before):
        if transcript.messages[index].role == "user":
            known.update(numbers_in(transcript.lowered[index]))
    for number in own:
        known.update(number * times for times in range(2, _MOST_TIMES + 1))
        known.update(one for figure in figures for one in _changed(number, figure))
    known.update(figures)
    return any(abs(one - other) < _CENT for one in told for other in known)


def _changed(number: float, figure: float) -> Iterator[float]:
    yield from (
        number + figure,
        number - figure,
        number * figure,
        number * (1 - figure),
        number * (1 + figure),
    )
