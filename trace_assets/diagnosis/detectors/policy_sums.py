"""Sums that a policy changes by a fixed number: a refund less a fee, a price plus a charge, a share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.corpus import Corpus
from trace_assets.diagnosis.detectors.policy_limits import Figure, stated
from trace_assets.diagnosis.detectors.protocol import NOT_NEEDED, Finding, Mistake, Proposal, lacking, present
from trace_assets.diagnosis.detectors.situations import around, calls_in, in_words, situation_of
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import leaves, numbers_in, records_in, sums
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.diagnosis.detectors.wording import gerund

MIN_USES = 3
"""Runs in which a sum must be reckoned as the policy has it."""
MIN_SUMS = 2
"""Different sums that must be given so: one alone may be a price."""
_CENT = 0.011
_MOST_COUNTED = 100_000
"""Largest number of a call that may be a count: words of a text, metres of a cable."""
_MOST = 400
"""Numbers of the results of a run that are held against a sum."""
WAYS = ("less", "plus", "part", "part_less", "part_plus")
"""How a policy's number changes a sum: by a fixed one, or by a share of it."""


def reckoned(base: float, number: float, way: str) -> float:
    """Return a sum as the policy changes it.

    >>> [round(reckoned(80.0, 0.25, way), 2) for way in ("part", "part_less", "part_plus")]
    [20.0, 60.0, 100.0]
    >>> reckoned(80.0, 18.0, "less"), reckoned(80.0, 18.0, "plus")
    (62.0, 98.0)
    """
    if way == "less":
        return base - number
    if way == "plus":
        return base + number
    return base * {"part": number, "part_less": 1 - number, "part_plus": 1 + number}[way]


class OtherSum:
    """The policy changes a sum by a fixed number, and a tool is given the sum as a record has it.

    The sum is a number that a result showed, the sum of a column, or one of them times a count that the call
    is given. PRESENT when the call is given the changed one, LACKING when it is given the unchanged one;
    anything else shows nothing. Where only some calls are to be changed (`express`), those are relevant that
    are made in the situation in which runs do so. Arguments: `tool`, `argument` of it, `number`, `way`,
    `situation`.
    """

    name = "other_sum"
    norm = 0.8
    mistake: Mistake = "wrong_value"

    def propose(self, corpus: Corpus) -> list[Proposal]:
        """Hold every number that writing tools are given against every figure of the policy."""
        figures = stated(corpus.policy)
        if not figures:
            return []
        proposals = []
        for tool in sorted(corpus.mutating & corpus.agent_tools.keys()):
            calls = [(one, step) for one in corpus.transcripts for step in one.own_calls(tool, ok=True)]
            for argument in sorted({name for _, step in calls for name in _numbers(step)}):
                for figure, sentence in figures:
                    said = around(corpus.policy, corpus.policy.sentences.index(sentence))
                    if (one := _proposal(tool, argument, figure, said, calls, corpus.now)) is not None:
                        proposals.append(one)
        return proposals

    def label(self, transcript: Transcript, args: Mapping[str, Any]) -> Finding:
        """Label one trajectory."""
        shown: list[int] = []
        for step in calls_in(args["situation"], transcript, args["tool"]):
            done = _did(transcript, step, args["argument"], args["number"], args["way"])
            if done is False:
                value = step.given[args["argument"]]
                why = f"{step.tool} was given {args['argument']} {value}, which the policy's {args['shown']}"
                return lacking(f"{why} does not change", step.index)
            shown += [step.index] if done else []
        return (
            present(f"{args['argument']} was reckoned as the policy has it", *shown) if shown else NOT_NEEDED
        )


def _proposal(
    tool: str,
    argument: str,
    figure: Figure,
    said: str,
    calls: list[tuple[Transcript, Step]],
    now: str | None,
) -> Proposal | None:
    best: tuple[int, str, Mapping[str, str]] | None = None
    for way in WAYS[2:] if figure.share else WAYS[:2]:

        def did(one: Transcript, step: Step, way: str = way) -> bool | None:
            return _did(one, step, argument, figure.number, way)

        right = [(one, step) for one, step in calls if did(one, step)]
        runs = {one.trajectory_id for one, _ in right}
        if len(runs) < MIN_USES or len({step.given[argument] for _, step in right}) < MIN_SUMS:
            continue
        situation = situation_of(calls, did, said, tool, now=now)
        if situation is not None and (best is None or len(runs) > best[0]):
            best = len(runs), way, situation
    if best is None:
        return None
    _, way, situation = best
    how = {"less": "Take", "plus": "Add", "part": "Take", "part_less": "Take", "part_plus": "Add"}[way]
    end = {"less": "off", "plus": "to", "part": "of", "part_less": "off", "part_plus": "to"}[way]
    where = f", {in_words(situation)}" if situation else ""
    return Proposal(
        args={
            "tool": tool,
            "argument": argument,
            "number": figure.number,
            "shown": figure.shown,
            "way": way,
            "situation": dict(situation),
        },
        name=f"{how} the policy's {figure.shown} {end} the {spoken(argument)} when {gerund(tool)}",
        description=(
            f"The policy changes the sum by {figure.shown}: reckon the '{spoken(argument)}' of "
            f"'{spoken(tool)}' from what the record shows and that figure{where}."
        ),
        subject=(tool, argument, figure.shown, way),
    )


def _did(one: Transcript, step: Step, argument: str, number: float, way: str) -> bool | None:
    """Tell whether a call is given a changed sum, or the unchanged one; None where it is neither."""
    value = _numbers(step).get(argument)
    if value is None:
        return None
    key = step.index, step.end, argument  # several calls may stand in one message
    if key not in one.bases:
        one.bases[key] = frozenset(_bases(one, step, argument))
    known = one.bases[key]
    if any(base >= _CENT and abs(reckoned(base, number, way) - value) < _CENT for base in known):
        return True
    # What is a small number may be anything: a count, a day.
    return False if any(abs(base - value) < _CENT for base in known) else None


def _numbers(step: Step) -> dict[str, float]:
    """Return the numbers that a call is given, also those that are written as text."""
    found: dict[str, float] = {}
    for name, value in step.given.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
        elif isinstance(value, str) and len(value) <= 12 and len(own := set(numbers_in(value))) == 1:
            found[name] = own.pop()
    return found


def _bases(one: Transcript, step: Step, argument: str) -> Iterator[float]:
    """Yield the sums that a call's number may be reckoned from: shown ones, and these times a count."""
    others = {name: number for name, number in _numbers(step).items() if name != argument}
    counts = {int(n) for n in others.values() if n == int(n) and 1 < n <= _MOST_COUNTED}
    for earlier in one.steps:
        if earlier.failed or earlier.answer is None or earlier.answer >= step.index:
            continue
        own = shown_numbers(earlier.result)
        yield from own
        yield from sums(earlier.result)
        for number in own:
            yield from (number * count for count in counts)


@lru_cache(maxsize=1 << 12)  # each call is held against the same results
def shown_numbers(text: str) -> tuple[float, ...]:
    """Return the numbers of a result's fields, whatever stands around them; of plain text all that it has.

    >>> shown_numbers('{"id": "B7", "paid": 64, "fare": "12.50 EUR", "on": "2031-05-02"}')
    (64.0, 12.5)
    """
    if text.lstrip().startswith(("{", "[")):
        try:
            values: list[Any] = [value for _, value in leaves(from_json(text))]
        except ValueError:
            return ()
    else:
        values = [value for row in records_in(text) for value in row.values()] or [text[:2000]]
    found: list[float] = []
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append(float(value))
        elif isinstance(value, str):
            own = set(numbers_in(value))
            found += own if len(own) == 1 or value is text[:2000] else ()
        if len(found) >= _MOST:
            break
    return tuple(found)
