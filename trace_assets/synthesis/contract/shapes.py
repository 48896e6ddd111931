"""The shapes of tool results and errors, inferred from what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from trace_assets.records import Json, Record, ToolSpec, Trajectory
from trace_assets.synthesis.contract.answers import Side, answered_calls, masked, parsed
from trace_assets.synthesis.contract.error_texts import ErrorText, templates_of
from trace_assets.synthesis.contract.json_schema import Shape


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
