"""The shapes of tool results and errors, inferred from what was seen."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from trace_assets.diagnosis.detectors.values import leaves, tells_error
from trace_assets.environments.contract.answers import (
    ErrorText,
    Side,
    answered_calls,
    masked,
    paired,
    parsed,
    templates_of,
)
from trace_assets.environments.contract.json_schema import Shape
from trace_assets.records import Json, Record, ToolCall, ToolSpec, Trajectory


class ResultShape(Record):
    """What one tool answers."""

    tool: str
    json_schema: Json
    """Schema of the answers that were no errors; `{}` when none was seen."""
    usual: str = ""
    """The answer that most calls got; empty where answers differ from call to call."""
    compact: bool = False
    """JSON is written without spaces after commas and colons."""
    error_texts: tuple[ErrorText, ...] = ()
    """Error templates with their counts, the most frequent first."""
    n: int = 0
    n_errors: int = 0

    @property
    def errors(self) -> tuple[str, ...]:
        """Error texts with the call's arguments replaced by `{argument}`, the most frequent first."""
        return tuple(error.text for error in self.error_texts)


def _usual(texts: Counter[str]) -> str:
    text, n = max(texts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return text if n > 1 and 2 * n > texts.total() else ""


def result_shapes(
    tools: Iterable[ToolSpec], trajectories: Sequence[Trajectory], by: Side = "assistant"
) -> list[ResultShape]:
    """Return the shape of every tool's results and errors, in the tools' order.

    Args:
        tools: The tools of one side.
        trajectories: Where they are called.
        by: Whose calls to look at.
    """
    seen: dict[str, Counter[str]] = {tool.name: Counter() for tool in tools}
    errors: dict[str, Counter[str]] = {name: Counter() for name in seen}
    for trajectory in trajectories:
        for call, answer, is_error in answered_calls(trajectory, by):
            if call.name not in seen:
                continue
            if is_error:
                errors[call.name][masked(answer, call.arguments)] += 1
            else:
                seen[call.name][answer] += 1
    return [_shape(name, texts, errors[name]) for name, texts in seen.items()]


def _shape(name: str, texts: Counter[str], errors: Counter[str]) -> ResultShape:
    shape, records = Shape(), [text for text in texts if text.lstrip()[:1] in ("{", "[")]
    for text, n in texts.items():
        value = parsed(text)
        for _ in range(n):
            shape.add(value)
    return ResultShape(
        tool=name,
        json_schema=shape.schema(),
        usual=_usual(texts),
        compact=bool(records) and all('": ' not in text and '", ' not in text for text in records),
        error_texts=tuple(templates_of(errors)),
        n=texts.total(),
        n_errors=errors.total(),
    )


# Values in texts, and the slots they are replaced by: `{argument}`, `{argument2}` for a second value.


MAX_VALUES = 200


def shape_regex(value: str) -> str:
    r"""Return a regular expression for identifiers built like this one.

    >>> shape_regex("AB-12")
    '[A-Z][A-Z]\\-\\d\\d'
    """

    def kind(character: str) -> str:
        if character.isdigit():
            return r"\d"
        if character.isalpha():
            return "[A-Z]" if character.isupper() else "[a-z]"
        return re.escape(character)

    return "".join(map(kind, value))


def argument_of(slot: str) -> str:
    """Return the argument of a slot's name.

    >>> argument_of("order2")
    'order'
    """
    return slot.rstrip("0123456789")


class Slots:
    """Finds known values, and everything that is built like a known identifier, in texts.

    Args:
        values: Argument -> `{"identifier": bool, "values": [...]}`.

    >>> slots = Slots({"loan": {"identifier": True, "values": ["L-1"]}, "branch": {"identifier": False, "values": ["Main"]}})
    >>> slots.fill("Move L-7 and L-8 to Main.")
    ('Move {loan} and {loan2} to {branch}.', {'loan': 'L-7', 'loan2': 'L-8', 'branch': 'Main'})
    """  # noqa: E501

    def __init__(self, values: Mapping[str, Mapping[str, object]]) -> None:
        self._owner: dict[str, str] = {}
        self._shapes: dict[str, str] = {}
        for argument, known in values.items():
            listed = known["values"]
            assert isinstance(listed, list)
            for value in listed:
                if known["identifier"]:
                    self._shapes[shape_regex(value)] = argument
                else:
                    self._owner[value] = argument
        words = [re.escape(value) for value in sorted(self._owner, key=lambda v: (-len(v), v))]
        choices = [*words, *sorted(self._shapes)]
        self._regex = re.compile(r"(?<!\w)(?:" + "|".join(choices) + r")(?!\w)") if choices else None

    def fill(self, text: str) -> tuple[str, dict[str, str]]:
        """Return the text with slots, and slot -> value in order of appearance."""
        slots: dict[tuple[str, str], str] = {}
        found: dict[str, str] = {}

        def place(match: re.Match[str]) -> str:
            value = match.group(0)
            argument = self._owner.get(value) or next(
                a for shape, a in self._shapes.items() if re.fullmatch(shape, value)
            )
            if (argument, value) not in slots:
                number = 1 + sum(1 for other, _ in slots if other == argument)
                slots[argument, value] = argument + (str(number) if number > 1 else "")
                found[slots[argument, value]] = value
            return "{" + slots[argument, value] + "}"

        return (self._regex.sub(place, text) if self._regex else text), found


def first_request(trajectory: Trajectory) -> str:
    """Return the first words of the user, empty when there are none."""
    return next((m.content or "" for m in trajectory.messages if m.role == "user"), "")


def user_words(trajectory: Trajectory) -> str:
    """Return all that the user said, one message a line."""
    return "\n".join(m.content for m in trajectory.messages if m.role == "user" and m.content)


def calls_of(trajectory: Trajectory) -> list[ToolCall]:
    """Return the assistant's calls that were not answered by an error."""
    return [
        call
        for call, answer in paired(trajectory)
        if answer is None or not (answer.is_error or tells_error(answer.content or ""))
    ]


def request_values(trajectories: Iterable[Trajectory]) -> dict[str, dict[str, object]]:
    """Find the values that users' words and calls share, by argument; of nested ones by the last name.

    A value belongs to the argument that most calls use it for. An argument all of whose values hold a digit
    is an identifier.
    """
    uses: dict[str, Counter[str]] = defaultdict(Counter)
    for trajectory in trajectories:
        text = user_words(trajectory)
        for call in calls_of(trajectory):
            for path, value in leaves(call.arguments):
                if isinstance(value, str) and len(value) > 1 and names(value, text):
                    uses[value][path.rpartition(".")[2]] += 1
    listed: dict[str, list[str]] = defaultdict(list)
    for value in sorted(uses):
        listed[min(uses[value], key=lambda a: (-uses[value][a], a))].append(value)
    return {
        argument: {
            "identifier": all(any(c.isdigit() for c in value) and " " not in value for value in known),
            "values": known[:: max(1, -(-len(known) // MAX_VALUES))],
        }
        for argument, known in sorted(listed.items())
    }


def names(value: str, text: str) -> bool:
    """Tell whether a value stands in a text as a word of its own."""
    return value in text and re.search(r"(?<!\w)" + re.escape(value) + r"(?!\w)", text) is not None
