"""In which runs a sentence of the policy applies, and what runs did that were asked for something.

Both are learned from what runs show, and not from how they ended.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from trace_assets.diagnosis.detectors.notation import COUNTS
from trace_assets.diagnosis.detectors.policy_clauses import holds as is_met
from trace_assets.diagnosis.detectors.policy_clauses import read_atom
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.transcript import Step, Transcript
from trace_assets.diagnosis.detectors.values import categorical, time_of
from trace_assets.diagnosis.detectors.verbs import WORD, names_change, spoken, things, verb_of
from trace_assets.diagnosis.detectors.wording import STOP_WORDS, last_name, named_after

Situation = Mapping[str, Any]
"""`argument` or `field` with `values`, `word`, or `test` of a field with `now`; empty: always."""
ALWAYS: Situation = {}
MIN_SHOWN = 3
"""Runs that must do what is asked for, in the situation."""
MOSTLY = 0.5
"""Share of the runs in the situation that must do it."""
BETTER = 0.15
"""By how much that share must be higher than everywhere for the situation to count."""
INSIDE = 0.9
"""Share of those who do it that must be in the situation."""
_YES, _NO = frozenset({"true", "yes"}), frozenset({"false", "no", "none", "null"})
_SHORTEST = 4
"""Letters of a word that tells a situation."""
_NOT_TELLING = frozenset(
    {"customer", "customers", "user", "users", "caller", "guest", "member", "client", "clients", "please"}
    | {"before", "after", "must", "need", "needs", "only", "place", "make", "order", "check", "tell", "told"}
)

Did = Callable[[Transcript, Step], bool | None]
"""Whether a run did what is asked for before a call; None where that call says nothing of it."""
CLEAR = 2.0
"""Standard errors by which runs must refrain more in one case than in the others."""
MIN_TASKS = 3
"""Tasks on either side of a comparison."""


def stem_of(word: str) -> str:
    """Return what a word begins with, its ending aside.

    >>> stem_of("allergy"), stem_of("delivered"), stem_of("delivery"), stem_of("yoga")
    ('aller', 'deliver', 'delive', 'yoga')
    """
    return word[: max(_SHORTEST, len(word) - 2)]


@lru_cache(maxsize=1 << 16)  # the same few words are held against the names of every record
def is_alike(one: str, other: str) -> bool:
    """Tell whether two words begin alike.

    >>> is_alike("delivered", "delivery"), is_alike("express", "expensive")
    (True, False)
    """
    short, long = sorted((one, other), key=len)
    return len(short) >= _SHORTEST and long.startswith(stem_of(short)) and abs(len(one) - len(other)) <= 4


def holds(situation: Situation, transcript: Transcript, step: Step) -> bool:
    """Tell whether a call is made in a situation, as far as the run had shown until then."""
    if "argument" in situation:
        return not _texts(step.given.get(situation["argument"])).isdisjoint(situation["values"])
    if "field" in situation:
        return not _shown(transcript, step).get(situation["field"], set()).isdisjoint(situation["values"])
    if "test" in situation:
        return is_met(situation["test"], _fields(transcript, step), situation["now"]) is True
    if "word" in situation:
        stems = tuple(situation["word"].split("|"))
        first = transcript.stems.get(stems)
        if first is None:
            spoken_at = (at for word, at in transcript.words.items() if word.startswith(stems))
            first = transcript.stems[stems] = min(spoken_at, default=len(transcript.messages))
        return first < step.index
    return True


def calls_in(situation: Situation, transcript: Transcript, tool: str) -> list[Step]:
    """Return the agent's calls of a tool that were let happen and were made in a situation."""
    return [step for step in transcript.own_calls(tool, ok=True) if holds(situation, transcript, step)]


def situation_of(
    calls: Iterable[tuple[Transcript, Step]],
    did: Did,
    said: str,
    tool: str,
    *,
    look: str = "",
    now: str | None = None,
) -> Situation | None:
    """Return the situation in which runs do what a sentence asks for; None where they do in none.

    Args:
        calls: The calls that the sentence may be about, each with its run.
        did: Whether a run did it.
        said: The sentence, lower case.
        tool: The tool that is called: its own words tell no situation.
        look: A tool whose results tell none either: who was to call it and did not, did not see them.
        now: The moment in which the runs take place.
    """
    return Judged(calls, did, tool, look=look, now=now).situation(said)


class Judged:
    """Calls, and whether their runs did what is asked for: what several sentences may say of them.

    Args:
        calls: As for `situation_of`, and so are the others.
        did: Whether a run did it.
        tool: The tool that is called.
        look: A tool whose results tell no situation.
        now: The moment in which the runs take place.
    """

    def __init__(
        self,
        calls: Iterable[tuple[Transcript, Step]],
        did: Did,
        tool: str,
        *,
        look: str = "",
        now: str | None = None,
    ) -> None:
        self.calls = [(one, step, done) for one, step in calls if (done := did(one, step)) is not None]
        self._shown = sum(done for *_, done in self.calls)
        self._tool, self._look, self._now = tool, look, now
        self._held: dict[str, tuple[int, int]] = {}

    def situation(self, said: str) -> Situation | None:
        """Return the situation that a sentence, lower case, asks for; None where runs do it in none."""
        shown, every = self._shown, len(self.calls)
        if shown < MIN_SHOWN:
            return None
        best, share = ALWAYS, shown / every
        if shown == every:
            return best
        least = share + BETTER
        for situation in [*self._told(said), *self._tested(said)]:
            done, inside = self._inside(situation)
            if inside == every or done < max(MIN_SHOWN, INSIDE * shown):
                continue
            if done / inside >= max(least, share + 1e-9):
                best, share = situation, done / inside
        return best if share >= MOSTLY else None

    def _inside(self, situation: Situation) -> tuple[int, int]:
        """Return how many calls of those in a situation did it, and how many there are."""
        key = repr(situation)  # many sentences tell the same one
        if key not in self._held:
            inside = [done for one, step, done in self.calls if holds(situation, one, step)]
            self._held[key] = sum(inside), len(inside)
        return self._held[key]

    @cached_property
    def _arguments(self) -> list[tuple[str, str]]:
        """What is given to the calls: argument, what a sentence may call its value by."""
        return sorted(
            {
                (name, text)
                for _, step, _ in self.calls
                for name, value in step.given.items()
                for text in _texts(value)
            }
        )

    @cached_property
    def _fields(self) -> list[tuple[str, str]]:
        """What had been shown of the things that the calls are about: field, the same."""
        looked = {last_name(name) for one, *_ in self.calls for name in _fields_of(one, self._look)}
        return sorted(
            {
                (name, value)
                for one, step, _ in self.calls
                for name, values in _shown(one, step).items()
                if name not in looked
                for value in values
            }
        )

    @cached_property
    def _last(self) -> dict[str, set[str]]:
        """The last values of the fields of what the calls are about, by field."""
        values: dict[str, set[str]] = {}
        looked = {name for one, *_ in self.calls for name in _fields_of(one, self._look)}
        for one, step, _ in self.calls:
            for name, last in _fields(one, step).items():
                if name not in looked:
                    values.setdefault(name, set()).add(last)
        return values

    @cached_property
    def _dated(self) -> list[str]:
        """Those fields whose values are all moments."""
        known = self._last.items()
        return sorted(name for name, own in known if all(time_of(one) is not None for one in own))

    def _told(self, said: str) -> Iterator[Situation]:
        """Yield the situations that a sentence names, of those that the calls and their runs show."""
        words = tuple(
            word for word in WORD.findall(said) if len(word) >= _SHORTEST and word not in STOP_WORDS
        )
        own = {*things(self._tool), verb_of(self._tool)}
        # What is done with a thing tells no situation: anything may be changed, turned, activated.
        named = [word for word in words if len(word) > _SHORTEST and not _changes(word)]
        for kind, shown in (("argument", self._arguments), ("field", self._fields)):
            every: dict[str, list[str]] = {}
            for name, value in shown:
                if _is_told(name, value, words):
                    every.setdefault(name, []).append(value)
            for name, any_of in every.items():
                yield from ({kind: name, "values": [value]} for value in any_of)
                if len(any_of) > 1:
                    yield {kind: name, "values": any_of}
        for word in dict.fromkeys(named):
            if word not in _NOT_TELLING and not any(is_alike(word, part) for part in own):
                yield {"word": stem_of(word)}
        for one, other in _EITHER.findall(said):
            if {one, other} <= {*named}:
                yield {"word": f"{stem_of(one)}|{stem_of(other)}"}

    def _tested(self, said: str) -> Iterator[Situation]:
        """Yield a sentence's conditions as tests of fields: a mark, a state, how far a date lies ahead."""
        tests = [
            read_atom(said[found.end() :], self._last, self._tool) for found in _CONDITION.finditer(said)
        ]
        for found in _SPAN.finditer(said) if self._now is not None else ():
            number = found["number"] or found["other"]
            number = str(COUNTS.get(number, number))
            if number.isdigit():
                hours = int(number) * _HOURS[found["unit"] or found["unit_of"]]
                tests += [
                    {"field": one, "ahead": hours, "not": near}
                    for one in self._dated
                    for near in (True, False)
                ]
        yield from ({"test": dict(one), "now": self._now} for one in tests if one)


@lru_cache(maxsize=1 << 12)  # the same sentences are held against every pair of tools
def _changes(word: str) -> bool:
    return names_change([word])


_CONDITION = re.compile(r"\b(?:if|when|whenever|where|in case|that is|who is|which is|for)\b")
_SPAN = re.compile(
    r"\b(?:less|fewer|more|later|earlier|longer) than (?P<number>\d+|[a-z]+) (?P<unit>hour|day|week)s?\b|"
    r"\b(?:within|under|at least|at most|in the last|up to|inside) (?:the (?:last |next )?)?"
    r"(?P<other>\d+|[a-z]+) (?P<unit_of>hour|day|week)s?\b"
)
_HOURS = {"hour": 1, "day": 24, "week": 168}


def _fields(transcript: Transcript, step: Step) -> dict[str, str]:
    """Return the last values of the fields of what a call is about, as they had been shown until then."""
    key = step.index, step.end
    if key not in transcript.last_before:
        found: dict[str, str] = {}
        for name in _about(transcript, step):
            for seen in transcript.observations[name]:
                if seen.index < step.index:
                    found.update(seen.fields)
        transcript.last_before[key] = found
    return transcript.last_before[key]


@lru_cache(maxsize=1 << 14)  # the same few values stand in all runs
def _is_told(name: str, value: str, words: tuple[str, ...]) -> bool:
    """Tell whether words name a value, or the name of a mark that is set."""
    if not value or not categorical(value):
        return False
    if value in _YES:
        parts = spoken(last_name(name)).split()
        return any(is_alike(part, word) for part in parts for word in words)
    parts = spoken(value).split()
    return (
        value not in _NO
        and bool(parts)
        and all(any(is_alike(part, word) for word in words) for part in parts)
    )


def _shown(transcript: Transcript, step: Step) -> dict[str, set[str]]:
    """Return by field what records of the things that a call is about had shown until then."""
    key = step.index, step.end  # several calls may stand in one message
    if key in transcript.shown_before:
        return transcript.shown_before[key]
    found: dict[str, set[str]] = {}
    for name in _about(transcript, step):
        for seen in transcript.observations[name]:
            if seen.index < step.index:
                for field, value in seen.fields.items():
                    if texts := _texts(value):
                        found.setdefault(last_name(field), set()).update(texts)
    transcript.shown_before[key] = found
    return found


def _about(transcript: Transcript, step: Step) -> list[str]:
    """Return the observed objects that a call is about, in the order in which they were seen."""
    names = step.names
    return [name for name in transcript.observations if name in names]


def _fields_of(transcript: Transcript, tool: str) -> set[str]:
    """Return the fields that a tool showed."""
    if tool not in transcript.fields_of:
        every = (seen for own in transcript.observations.values() for seen in own)
        transcript.fields_of[tool] = {field for seen in every if seen.tool == tool for field in seen.fields}
    return transcript.fields_of[tool]


_EITHER = re.compile(r"\b([a-z]+) (?:or|and|nor)(?: for| an?| the| of)? ([a-z]+)\b")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SATURDAY = 5


def _texts(value: Any) -> set[str]:
    """Return what a sentence may call a value by: itself, or of a date the day of the week.

    >>> sorted(_texts("2034-04-08")), _texts(True), _texts("Express"), _texts(12)
    (['saturday', 'weekend'], {'true'}, {'express'}, set())
    """
    if isinstance(value, bool):
        return {str(value).lower()}
    if not isinstance(value, str):
        return set()
    if (moment := time_of(value)) is not None:
        day = moment.weekday()
        return {_WEEKDAYS[day], "weekend"} if day >= _SATURDAY else {_WEEKDAYS[day], "weekday"}
    return {value.lower()} if categorical(value) else set()


_NEAR = {True: "nearer than", False: "farther off than"}


def in_words(situation: Situation) -> str:
    """Return a situation for a person, empty where it is always.

    >>> in_words({"argument": "express", "values": ["true"]}), in_words({"word": "sailin"}), in_words({})
    ('where express is true', "where the user speaks of 'sailin...'", '')
    """
    if "test" in situation:
        test = situation["test"]
        name = spoken(last_name(test["field"]))
        if "ahead" in test:
            return f"where its {name} is {_NEAR[bool(test['not'])]} {test['ahead']} hours"
        return f"depending on its {name}"
    if "word" in situation:
        said = " or ".join(f"'{stem}...'" for stem in situation["word"].split("|"))
        return f"where the user speaks of {said}"
    name = situation.get("argument") or situation.get("field") or ""
    return f"where {spoken(name)} is {' or '.join(situation['values'])}" if name else ""


BEFORE = 3
"""Sentences above one that may say where it applies."""


def around(policy: PolicyText, place: int) -> str:
    """Return a sentence with its heading, behind the sentences above it under the same heading."""
    own = policy.sentences[place]
    above = policy.sentences[max(0, place - BEFORE) : place]
    return " ".join([own.heading, *(one.text for one in above if one.heading == own.heading), own.text])


class Decision(NamedTuple):
    """What a run did about an object that it was asked to use a tool on.

    Attributes:
        words: Those of the user's words that ask for the tool.
        state: The case: a value of a field, or of what was asked for.
        refrained: Whether the tool was not used.
        task: Trials of one task count as one.
    """

    words: frozenset[str]
    state: str
    refrained: bool
    task: str


def divided(decisions: Sequence[Decision], state: str) -> tuple[list[str], list[str]]:
    """Return the words with which a state lets runs refrain, and those with which it does not.

    Both are empty unless the two kinds of requests clearly differ in what runs do: what is lacked is then no
    rule of the state alone, but of the state and of what was asked. Forms of a word count together; a word
    whose runs lie within a standard error of no difference is of neither kind. As words are sorted into kinds
    by the same runs, the kinds must differ by twice the standard errors that one of them needs.

    >>> one = [Decision(frozenset({"refund"}), "shut", True, str(n)) for n in range(9)]
    >>> two = [Decision(frozenset({"return"}), "shut", False, str(n)) for n in range(9)]
    >>> here = one + two + [Decision(each.words, "open", not each.refrained, each.task) for each in one + two]
    >>> divided(here, "shut"), divided(one, "shut")
    ((['refund'], ['return']), ([], []))
    """
    words = sorted(frozenset().union(*(one.words for one in decisions)))
    asked, others = list[str](), list[str]()
    for word in words:
        forms = {one for one in words if one == word or named_after(word, one) or named_after(one, word)}
        effect = effect_of([one for one in decisions if one.words & forms], state)
        if effect is not None and abs(effect[0]) > effect[1]:
            (asked if effect[0] > 0 else others).append(word)
    kinds = [
        effect_of([one for one in decisions if one.words & own and not one.words & rest], state)
        for own, rest in ((set(asked), set(others)), (set(others), set(asked)))
    ]
    if kinds[0] is None or kinds[1] is None:
        return [], []
    (one, error), (other, its_error) = kinds[0], kinds[1]
    clear = one > CLEAR * error and one - other > 2 * CLEAR * math.hypot(error, its_error)
    return (asked, others) if clear else ([], [])


def shunned(decisions: Sequence[Decision]) -> list[str]:
    """Return the states in which runs clearly refrain more than elsewhere; none where all are alike.

    >>> mugs = [Decision(frozenset(), "mug", True, str(n)) for n in range(9)]
    >>> rugs = [one._replace(state="rug", refrained=False) for one in mugs]
    >>> shunned(mugs + rugs), shunned(rugs)
    (['mug'], [])
    """
    found = [
        state
        for state in sorted({one.state for one in decisions})
        if (effect := effect_of(decisions, state)) is not None and effect[0] > CLEAR * effect[1]
    ]
    together = [one._replace(state="found") if one.state in found else one for one in decisions]
    effect = effect_of(together, "found") if found else None
    return found if effect is not None and effect[0] > 2 * CLEAR * effect[1] else []


def effect_of(decisions: Sequence[Decision], state: str) -> tuple[float, float] | None:
    """Return by how much more runs refrain in a state than elsewhere, with its standard error over tasks.

    None where too few tasks lie on either side. A share counts as if one more task were divided, so that few
    tasks that all agree are no certainty.
    """
    sides = []
    for here in (True, False):
        tasks: dict[str, list[bool]] = {}
        for one in decisions:
            if (one.state == state) == here:
                tasks.setdefault(one.task, []).append(one.refrained)
        if len(tasks) < MIN_TASKS:
            return None
        n = len(tasks)
        share = (sum(sum(own) / len(own) for own in tasks.values()) + 0.5) / (n + 1)
        sides.append((share, share * (1 - share) / (n + 1)))
    return sides[0][0] - sides[1][0], math.sqrt(sides[0][1] + sides[1][1])
