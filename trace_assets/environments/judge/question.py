"""What the model that judges environments is asked, and the forms of its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BeforeValidator

from trace_assets.diagnosis.llm.reading import numbers_in
from trace_assets.diagnosis.llm.request import A, Answer, Question
from trace_assets.environments.audit.scripted_rollouts import Action

JudgeKind = Literal[
    "review",
    "lacking",
    "reworded",
    "partly",
    "elsewhere",
    "shortfall",
    "differing",
    "compare",
    "alone",
    "play",
]
Said = Literal["yes", "no", "cannot_tell"]


@dataclass(frozen=True)
class JudgeQuestion(Question[A]):
    """A question about an environment."""

    kind: JudgeKind  # type: ignore[assignment]  # kinds of this room, not of the analyst


def _as_json(given: Any) -> Any:
    return json.dumps(given, ensure_ascii=False) if isinstance(given, Mapping) else given


def _number(given: Any) -> Any:
    """Return an episode's number, however it is written: 2, 2.0, "2", "episode 2"."""
    found = numbers_in(given)
    return found[0] if len(found) == 1 else given


EpisodeNumber = Annotated[int, BeforeValidator(_number)]


class Step(Answer):
    """One message of an agent: a call, or words."""

    tool: str
    arguments: Annotated[str, BeforeValidator(_as_json)]
    """The call's arguments as JSON text: schemas that are held to strictly know no free objects."""
    say: str


def _filled(given: Any) -> Any:
    """Return steps with what was left out as empty, under the names that are asked for."""
    if not isinstance(given, list):
        return given
    return [_step(one) if isinstance(one, Mapping) else one for one in given]


def _step(row: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: next((row[key] for key in keys if row.get(key)), "") for name, keys in _NAMES.items()}
    return {**named, "arguments": named["arguments"] or "{}"}


_NAMES = {
    "tool": ("tool", "name", "call", "function", "tool_name"),
    "arguments": ("arguments", "args", "parameters", "input"),
    "say": ("say", "content", "text", "words", "message"),
}
"""Names that models give to the parts of a step."""

Steps = Annotated[list[Step], BeforeValidator(_filled)]


class Call(Answer):
    """One call of a move."""

    tool: str
    arguments: Annotated[str, BeforeValidator(_as_json)]


def _called(given: Any) -> Any:
    filled = _filled(given)
    rows = filled if isinstance(filled, list) else [filled]
    return [{"tool": one["tool"], "arguments": one["arguments"]} for one in rows if isinstance(one, dict)]


Calls = Annotated[list[Call], BeforeValidator(_called)]


class Unplayable(Exception):
    """A model's steps are none that could be played."""


def script_of(steps: Sequence[Step]) -> list[Action]:
    """Return what a model wrote as messages that can be played.

    Raises:
        Unplayable: A step is neither a call nor words, or its arguments are no JSON object.

    >>> script_of([Step(tool="", arguments="{}", say="Done.")])
    [{'role': 'assistant', 'content': 'Done.'}]
    """
    script: list[Action] = []
    for number, step in enumerate(steps, start=1):
        if step.tool:
            calls = [{"id": f"judge_{number}", "name": step.tool, "arguments": arguments_in(step.arguments)}]
            script.append({"role": "assistant", "content": step.say or None, "tool_calls": calls})
        elif step.say.strip():
            script.append({"role": "assistant", "content": step.say})
        else:
            raise Unplayable(f"step {number} has neither a tool nor words")
    if not script:
        raise Unplayable("there is no step in it")
    return script


def arguments_in(text: str) -> dict[str, Any]:
    """Return a call's arguments.

    Raises:
        Unplayable: They are no JSON object.
    """
    try:
        given = json.loads(text or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Unplayable(f"the arguments {text[:80]!r} are no JSON object")
    return given


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("trace_assets.environments.judge", "prompts"),
        undefined=StrictUndefined,
        keep_trailing_newline=False,
        autoescape=False,  # prompts are text, not HTML
    )


def render(file: str, **values: Any) -> str:
    """Return a prompt with its values filled in; a value that is missing is an error."""
    return _environment().get_template(file).render(**values).strip()


def quoted(quote: str, text: str) -> bool:
    r"""Tell whether words stand in a text, whatever the blanks between them.

    >>> quoted("is  paid", "it is\npaid"), quoted("", "it"), quoted("was paid", "it is paid")
    (True, False, False)
    """
    said = " ".join(quote.split()).strip("\"'“”…. ")
    return bool(said) and said in " ".join(text.split())
