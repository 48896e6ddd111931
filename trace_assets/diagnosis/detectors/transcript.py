"""A blind trajectory, indexed once for all detectors: calls with their results, words, observations.

Nothing here knows the outcome: a `Transcript` is made of messages alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from pydantic_core import from_json

from trace_assets.diagnosis.detectors.asked_once import AskedOnce
from trace_assets.diagnosis.detectors.deeds import PATHS, named_in_path, says_deed, told_apart
from trace_assets.diagnosis.detectors.identity import looks_like_id, normal, stands_in
from trace_assets.diagnosis.detectors.notation import as_json
from trace_assets.diagnosis.detectors.shell import (
    FILE_DEEDS,
    command_line,
    files_of,
    program_failed,
    program_of,
    quotes,
    runs_programs,
)
from trace_assets.diagnosis.detectors.values import (
    categorical,
    flat,
    leaves,
    records_in,
    scalars,
    strings,
    sums,
    tells_error,
)
from trace_assets.diagnosis.detectors.wording import last_name
from trace_assets.records import Message, Trajectory

_LETTERS = re.compile(r"[a-z]+")
_WORD = re.compile(r"(?<![\w-])[^\W\d_]{3,}(?![\w-])")
_CONTROL = re.compile(r"#{2,}[\w-]+#{2,}")
"""Marks by which simulated users end a conversation: no words of a request."""
_TOKEN = re.compile(r"#?\w(?:[\w.@+-]*\w)?")
LISTED = 6
"""Objects that stand no farther apart than so many characters are named together."""
MAX_FACT = 80
"""Longest line of a plain-text result, in characters, that is taken for a statement about the world."""


@dataclass(frozen=True)
class Step:
    """One tool call and its answer.

    Attributes:
        index: Message index of the call.
        answer: Message index of the result, None when it never came.
        tool: Tool that was called; where it stands for many deeds, what was done with it (`told_apart`).
        arguments: As called.
        by_user: Whether a simulated user called it.
        failed: Whether the tool refused or failed, or never answered.
        result: Text of the result.
        objects: Normalised values of all arguments, nested ones too, that look like identifiers.
    """

    index: int
    answer: int | None
    tool: str
    arguments: Mapping[str, Any]
    by_user: bool
    failed: bool
    result: str
    objects: frozenset[str]

    called: str = ""
    """The tool by the name it was called by."""

    @cached_property  # each detector asks for it again
    def given(self) -> Mapping[str, Any]:
        """Its arguments, those in objects by their own names however deep they stand."""
        line = command_line(self.arguments) if self.tool in FILE_DEEDS else ""
        named = next(files_of(line), "")
        return {**named_in_path(self.arguments), **flat(self.arguments), **({"file": named} if named else {})}

    @property
    def values(self) -> Mapping[str, Any]:
        """Its arguments without those that only say what is done: these nobody has to have said."""
        if self.called in ("", self.tool):
            return self.arguments
        named = named_in_path(self.arguments)
        kept = {
            name: value
            for name, value in self.arguments.items()
            if not says_deed(name, value, self.tool) and not (named and name.lower() in PATHS)
        }
        return {**named, **kept}

    def is_about(self, name: str) -> bool:
        """Tell whether the call is given a normalised value, whether or not it looks like an identifier."""
        if name in self.objects or any(name == normal(value) for _, value in leaves(self.arguments)):
            return True
        return name in files_of(command_line(self.arguments))

    @cached_property
    def names(self) -> frozenset[str]:
        """All that the call is about, as `is_about` has it."""
        given = {normal(value) for _, value in leaves(self.arguments)}
        return self.objects.union(given, files_of(command_line(self.arguments)))

    @property
    def end(self) -> int:
        """Message index at which its effect is known."""
        return self.index if self.answer is None else self.answer


@dataclass(frozen=True, slots=True)
class Observation:
    """What a successful call showed about one object: scalar fields by dotted name."""

    index: int
    tool: str
    fields: Mapping[str, str]


class Transcript(AskedOnce):
    """The messages of one trajectory and what detectors ask of them."""

    def __init__(self, trajectory: Trajectory) -> None:
        super().__init__()
        self.trajectory_id = trajectory.trajectory_id
        self.task_id = trajectory.task_id
        self.messages: tuple[Message, ...] = trajectory.messages
        self.sources: dict[str, int] = {}
        """By value, the first message that is a source of it: many proposals ask for the same."""
        self.bases: dict[tuple[int, int, str], frozenset[float]] = {}
        """By messages of a call and its answer, and argument, the sums that it may be reckoned from."""
        self.stems: dict[tuple[str, ...], int] = {}
        """By beginnings of words, the first message in which the user says such a word, likewise."""
        self.shown_before: dict[tuple[int, int], dict[str, set[str]]] = {}
        """By messages of a call and its answer, what had been shown of what it is about, likewise."""
        self.last_before: dict[tuple[int, int], dict[str, str]] = {}
        """By the same, the last values of its fields."""
        self.fields_of: dict[str, set[str]] = {}
        """By tool, the fields that it showed."""
        self._calls: dict[tuple[str, bool, bool], list[Step]] = {}

    def words_in(self, index: int) -> frozenset[str]:
        """Return the words of a message, in lower case and without what is no letter of English."""
        return self.once(("words in", index), lambda: frozenset(_LETTERS.findall(self.lowered[index])))

    @cached_property
    def steps(self) -> list[Step]:
        """All tool calls in order, the simulated user's among them."""
        answers: dict[str, int] = {}
        waiting: dict[str, list[int]] = {}
        for index, message in enumerate(self.messages):
            if message.role == "tool" and message.tool_call_id is not None:
                waiting.setdefault(message.tool_call_id, []).append(index)
        steps: list[Step] = []
        pages: list[str] = []
        for index, message in enumerate(self.messages):
            if message.role == "tool" and message.content:
                pages.append(message.content)
            for call in message.tool_calls:
                # Tiny agents number their calls per turn: the answer is the first one after the call.
                place = next((at for at in waiting.get(call.id, ()) if at > index), None)
                if place is not None:
                    waiting[call.id].remove(place)
                    answers[call.id] = place
                reply = self.messages[place] if place is not None else None
                written = (reply.content or "") if reply else ""
                text = as_json(written)
                # In tags it may be the outermost name that says it: `<refused>`.
                failed = _tells_failure(written, call.arguments) or (text != written and tells_error(text))
                steps.append(
                    Step(
                        index=index,
                        answer=place,
                        tool=told_apart(call.name, call.arguments, pages),
                        arguments=call.arguments,
                        by_user=message.role == "user",
                        failed=reply is None or reply.is_error or failed,
                        result=printed(text),
                        objects=frozenset(
                            normal(value) for value in _named_in_call(call.arguments) if looks_like_id(value)
                        ),
                        called=call.name,
                    )
                )
        return steps

    @cached_property
    def by_tool(self) -> dict[str, list[Step]]:
        """Calls of each tool, in order."""
        found: dict[str, list[Step]] = {}
        for step in self.steps:
            found.setdefault(step.tool, []).append(step)
        return found

    @cached_property
    def lowered(self) -> list[str]:
        """Lower-case text of every message, empty where there is none."""
        return [(message.content or "").lower() for message in self.messages]

    @cached_property
    def words(self) -> dict[str, int]:
        """Each word that the user said, with the index of the message that said it first."""
        first: dict[str, int] = {}
        for index, message in enumerate(self.messages):
            if message.role == "user" and message.content:
                for word in _WORD.findall(_CONTROL.sub(" ", self.lowered[index])):
                    first.setdefault(word, index)
        return first

    @cached_property
    def asked(self) -> str:
        """All that the user said, in lower case."""
        said = (text for text, one in zip(self.lowered, self.messages, strict=True) if one.role == "user")
        return "\n".join(said)

    @cached_property
    def asked_text(self) -> str:
        """Normalised text of all that the user said."""
        return self._said("user")

    @cached_property
    def told_lines(self) -> list[str]:
        """Normalised lines of all that the agent said."""
        return self._said("assistant").splitlines()

    def _said(self, role: str) -> str:
        return "\n".join(normal(one.content) for one in self.messages if one.role == role and one.content)

    def is_meant(self, name: str, cues: object) -> bool:
        """Tell whether the user named an object, or the agent did in one line with one of these words."""
        if stands_in(name, self.asked_text):
            return True
        told = self.once(
            ("told of", name), lambda: [line for line in self.told_lines if stands_in(name, line)]
        )
        return bool(told) and any(word in line for line in told for word in strings(cues))

    @cached_property
    def observations(self) -> dict[str, list[Observation]]:
        """What was seen of each object, in order; objects by normalised identifier."""
        seen: dict[str, list[Observation]] = {}
        for step in self.steps:
            if step.failed or step.answer is None:
                continue
            records = [one for one in records_in(step.result) if one]
            for fields in records:
                # A result that names itself differently from the call's arguments is about that name too. Of
                # several records none is what the call was about but the one that has its name.
                named = {normal(value) for value in fields.values() if looks_like_id(value)}
                for name in sorted(named | step.objects if len(records) == 1 else named):
                    seen.setdefault(name, []).append(Observation(step.answer, step.tool, fields))
        return seen

    @cached_property
    def histories(self) -> dict[str, list[list[tuple[int, str]]]]:
        """Last part of a field's name -> of each object that changed in it, where and to what."""
        found: dict[str, list[list[tuple[int, str]]]] = {}
        for seen in self.observations.values():
            if len(seen) < 2:
                continue
            shown: dict[str, list[tuple[int, str]]] = {}
            for one in seen:
                for field, value in one.fields.items():
                    shown.setdefault(last_name(field), []).append((one.index, normal(value)))
            for name, values in shown.items():
                if len({value for _, value in values}) > 1:
                    found.setdefault(name, []).append(values)
        return found

    @cached_property
    def facts(self) -> dict[tuple[str, str, str], int]:
        """(tool, field, value) -> first message index at which that was seen.

        A line of a plain-text result has neither tool nor field: several tools may say the same.
        """
        first: dict[tuple[str, str, str], int] = {}
        for step in self.steps:
            if step.failed or step.answer is None:
                continue
            fields = scalars(step.result)
            if fields is None:
                for line in re.split(r"[\n|]", step.result[:2000]):
                    if 3 < len(line.strip()) <= MAX_FACT:
                        first.setdefault(("", "", line.strip()), step.answer)
            else:
                for field, value in fields.items():
                    if categorical(value):
                        first.setdefault((step.tool, field, value), step.answer)
        return first

    @cached_property
    def sums(self) -> list[tuple[int, float]]:
        """Where what adds up to a number was shown, and the number."""
        return [
            (step.answer, total)
            for step in self.steps
            if step.answer is not None and not step.failed
            for total in sums(step.result)
        ]

    @property
    def last(self) -> int:
        """Index of the last message."""
        return len(self.messages) - 1

    def last_of_agent(self) -> int:
        """Index of the agent's last message, or of the last one of all."""
        places = (i for i in range(self.last, -1, -1) if self.messages[i].role == "assistant")
        return next(places, max(self.last, 0))

    def cue(self, cues: object) -> int | None:
        """Return the index of the first user message with one of these words, None when none has."""
        places = [self.words[word] for word in strings(cues) if word in self.words]
        return min(places, default=None)

    def asked_about(self, cues: object) -> frozenset[str] | None:
        """Return the objects that the user named nearest to these words, None where that cannot be told.

        A request may be for several things; what is asked of one object says nothing of another. A list of
        objects goes together.
        """
        words = tuple(strings(cues))
        return self.once(("asked about", words), lambda: self._asked_about(words))

    def _asked_about(self, words: tuple[str, ...]) -> frozenset[str] | None:
        cue = _any_word(words)
        meant: set[str] = set()
        for index, message in enumerate(self.messages):
            text = self.lowered[index]
            places = [found.span() for found in cue.finditer(text)] if message.role == "user" and cue else []
            if not places:
                continue
            named = self._named_in(message.content or "")
            if not named:
                return None
            for start, end in places:
                nearest = min(range(len(named)), key=lambda n: _apart(named[n][1:], (start, end)))
                meant.add(named[nearest][0])
                for way in (1, -1):
                    at = nearest
                    while 0 <= at + way < len(named) and _apart(named[at][1:], named[at + way][1:]) <= LISTED:
                        at += way
                        meant.add(named[at][0])
        return frozenset(meant) or None

    def _named_in(self, text: str) -> list[tuple[str, int, int]]:
        """Return (object, start, end) for what looks like an identifier or is one of a call, in order."""
        known = self.once(("objects",), lambda: {name for step in self.steps for name in step.objects})
        return [
            (normal(found[0]), *found.span())
            for found in _TOKEN.finditer(text)
            if normal(found[0]) in known or (looks_like_id(found[0]) and any(c.isdigit() for c in found[0]))
        ]

    def calls(self, tool: object, *, ok: bool = False) -> list[Step]:
        """Return the calls of one tool in order; with `ok` only those that succeeded."""
        key = str(tool), ok, False
        if key not in self._calls:
            self._calls[key] = [step for step in self.by_tool.get(key[0], ()) if not (ok and step.failed)]
        return self._calls[key]

    def own_calls(self, tool: object, *, ok: bool = False) -> list[Step]:
        """Return those of `calls` that the agent made, and no user."""
        key = str(tool), ok, True
        if key not in self._calls:
            self._calls[key] = [step for step in self.calls(tool, ok=ok) if not step.by_user]
        return self._calls[key]

    def state(self, name: str, field: str, before: int) -> tuple[int, str] | None:
        """Return where and as what a field of an object was last seen before a message, None when never."""
        for seen in reversed(self.observations.get(name, ())):
            if seen.index < before and field in seen.fields:
                return seen.index, seen.fields[field]
        return None


def printed(text: str) -> str:
    r"""Return what a program printed, out of the envelope with its exit code; JSON by itself.

    >>> printed('{"exitCode": 1, "stdout": "freeze: on"}'), printed('{"output": 3}')
    ('freeze: on', '{"output": 3}')
    >>> printed('The server answers:\n{"output": 3}. Go on, or finish.'), printed("Note: [sic] {x}")
    ('{"output": 3}', 'Note: [sic] {x}')
    """
    if introduced := _INTRODUCED.match(text):
        return _first_value(text[introduced.end() :]) or text
    if not text.startswith("{") or "std" not in text:
        return text
    try:
        value = from_json(text)
    except ValueError:
        return text
    parts = [value.get(name) for name in ("stdout", "stderr")]
    return "\n".join(one for one in parts if isinstance(one, str) and one) or text


_INTRODUCED = re.compile(r"[^\n{\[\"]{1,80}:\s*(?=[{\[])")
_DECODER = json.JSONDecoder()
_BEHIND = 200
"""Characters that may stand behind JSON that was introduced."""


def _first_value(text: str) -> str:
    """Return the JSON with which a text begins, empty where it is none or much stands behind it."""
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return ""
    return text[:end] if value and len(text) - end <= _BEHIND else ""


def _named_in_call(arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what a call is given, the words of a command line one by one."""
    yield from named_in_path(arguments).values()
    for _, value in leaves(arguments):
        yield value
        if program_of(arguments) and isinstance(value, str) and " " in value:
            yield from re.findall(r"[^\s'\";|&]+", value[:_LINE])
            yield from files_of(value[:_LINE])


_NO_PLACE = re.compile(
    r"(?:the )?(?:(?:old|search)_?\w*|\w+ to (?:replace|search|find)|pattern) (?:was |were |is )?"
    r"(?:not (?:found|unique)|did not (?:match|appear)|does not (?:match|exist))\b",
    re.IGNORECASE,
)
"""How an editor says that it found no place for an edit."""


def _tells_failure(text: str, arguments: Mapping[str, Any]) -> bool:
    # What a program only shows may begin as an error does; one line alone is rather its own.
    shown = quotes(command_line(arguments)) and "\n" in text.strip() and not text.startswith("{")
    says = (tells_error(text) and not shown) or _NO_PLACE.match(text) is not None
    return says or (runs_programs(arguments) and program_failed(text, arguments))


_LINE = 400
"""Letters of a command line in which names are looked for."""


@cache
def _any_word(words: tuple[str, ...]) -> re.Pattern[str] | None:
    return re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, words))})(?![\w-])") if words else None


def _apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return the characters between two places of a text."""
    return max(one[0], other[0]) - min(one[1], other[1])
