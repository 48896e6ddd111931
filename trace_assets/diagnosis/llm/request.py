"""What is asked of a model, what counts as an answer, and the context that all questions share."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.llm.reading import read_reply
from trace_assets.records import ActionDiff, ToolSpec, Trajectory
from trace_assets.shipped import prompt

Kind = Literal["discover", "merge", "label", "cause", "triage", "reflect"]

MOST_COMPLAINTS = 12
"""What is wrong with an answer is told to the model in at most so many lines."""
LONGEST_POLICY = 60_000
"""Characters of a policy that are shown."""
LONGEST_TOOL = 300
"""Characters of a tool's description that are shown: the first sentences."""
MOST_DIFFS = 12
"""Differences from what was expected that are told of one run."""
LONGEST_VALUE = 300
LONGEST_CHECK = 1200
"""Characters that are told of what a check asked for: a pattern or a difference that is cut says little."""

_DATE = re.compile(
    r"\b(?:\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{4}|(?:January|February|March|April|May|June|July|August|"
    r"September|October|November|December)\s+\d{1,2},?\s+\d{4})\b"
)
_NOW = re.compile(r"\b(?:current (?:date|time)|today|now is|it is now|the time is)\b", re.IGNORECASE)


class Answer(BaseModel):
    """Base of all answers: a Pydantic schema that the server is asked to hold to."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


A = TypeVar("A", bound=Answer)


def _content(answer: Any) -> list[str]:
    return []


def _as_it_is(answer: Any) -> Any:
    return answer


def _the_later(before: Any, after: Any) -> Any:
    return after


def _nothing(answer: Any) -> Any:
    return None


@dataclass(frozen=True)
class Question(Generic[A]):
    """One request, free of everything that does not decide its answer.

    Attributes:
        kind: What for.
        model: Who is asked.
        system: Instructions and whatever is shared by many questions: servers cache equal beginnings.
        user: What is asked about.
        schema: Form of the answer.
        temperature: Of sampling.
        seed: Tells passes apart that ask the same; servers may or may not use it.
        examine: Returns what is wrong with an answer of the right form; nothing when it is good.
        mend: Returns an answer with what a local reading repairs: ids, order, indices that do not exist.
        join: Puts an answer and a later one together, for questions whose answer can be had in parts.
        rest: What is usable of an answer that stayed bad to the end; None where nothing is.
    """

    kind: Kind
    model: str
    system: str
    user: str
    schema: type[A]
    temperature: float = 0.0
    seed: int = 0
    examine: Callable[[A], Sequence[str]] = field(default=_content, compare=False)
    mend: Callable[[A], A] = field(default=_as_it_is, compare=False)
    join: Callable[[A, A], A] = field(default=_the_later, compare=False)
    rest: Callable[[A], A | None] = field(default=_nothing, compare=False)

    @cached_property
    def key(self) -> str:
        """Content hash: the same question of the same model, asked the same way."""
        parts = [
            self.kind,
            self.model,
            self.system,
            self.user,
            self.temperature,
            self.seed,
            self.response_format,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @property
    def messages(self) -> list[dict[str, str]]:
        """The request's messages."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]

    @property
    def in_parts(self) -> bool:
        """Whether what is missing of an answer can be asked for alone."""
        return self.join is not _the_later

    @property
    def response_format(self) -> dict[str, Any]:
        """The schema as structured outputs want it."""
        schema = {"name": self.kind, "strict": True, "schema": _schema_of(self.schema)}
        return {"type": "json_schema", "json_schema": schema}

    def read(self, text: str) -> tuple[A | None, list[str]]:
        """Return the answer in a reply, or what is wrong with it.

        Args:
            text: What the model said; the form is read leniently, see `reading`.
        """
        answer, complaints = self.piece(text)
        return (None if complaints else answer), complaints

    def piece(self, text: str, before: A | None = None) -> tuple[A | None, list[str]]:
        """Return what is good of the answer so far, and what still has to be asked for."""
        found, complaints = read_reply(text, self.schema)
        answer = before
        for one in found:
            mended = self.mend(cast(A, one))
            answer = mended if answer is None else self.mend(self.join(answer, mended))
        if answer is None or not found:
            return answer, complaints[:MOST_COMPLAINTS] or ["there is no answer in it"]
        wrong = list(self.examine(answer))
        return answer, [*wrong, *(complaints if wrong else ())][:MOST_COMPLAINTS]


@cache
def _schema_of(answer: type[Answer]) -> dict[str, Any]:
    return answer.model_json_schema()  # takes longer than all else of a question


def render(name: str, **values: Any) -> str:
    """Return a prompt with its values filled in; a value that is missing is an error.

    >>> "ends too early" in render("repair.md", complaints=["it ends too early"], in_parts=False)
    True
    """
    return prompt("diagnosis.llm", name, values)


@dataclass(frozen=True)
class Context:
    """What the agent of one target knew, whatever its task.

    Attributes:
        policy: The rules it was given; empty where they are not known.
        tools: Its tools; empty where they are not known.
        user_tools: Those of its user.
        has_user: Whether anybody talks to it beyond its task, see `has_user`.
    """

    policy: str = ""
    tools: tuple[ToolSpec, ...] = ()
    user_tools: tuple[ToolSpec, ...] = ()
    has_user: bool = True

    @property
    def text(self) -> str:
        """The part of a prompt that tells it, what is missing included."""
        policy = self.policy.strip()
        left_out = max(0, len(policy) - LONGEST_POLICY)
        return render(
            "context.md",
            policy=policy[:LONGEST_POLICY],
            left_out=left_out,
            tools=[_tool(one) for one in self.tools],
            user_tools=[_tool(one) for one in self.user_tools],
            clock=_clock(policy),
        )


NOTHING_KNOWN = Context()


def has_user(runs: Iterable[Trajectory]) -> bool:
    """Tell whether anybody talks to the agent of some runs beyond giving it its task.

    Whoever speaks or calls a tool in any run after the agent's first message is its user. Nothing is known
    of an agent without a message of its own, so nobody is left out there.

    Args:
        runs: Of one target.
    """
    acted = False
    for one in runs:
        first = next((place for place, said in enumerate(one.messages) if said.role == "assistant"), None)
        if first is None:
            continue
        acted = True
        if any(said.role == "user" or said.requestor == "user" for said in one.messages[first:]):
            return True
    return not acted


def _clock(policy: str) -> str:
    """Return the line of a policy that says what time it is; empty where none does."""
    for line in policy.splitlines():
        if _NOW.search(line) and _DATE.search(line):
            return " ".join(line.split())[:200].lstrip("-*# ")
    return PolicyText(policy).now or ""


def _tool(tool: ToolSpec) -> str:
    """Return a tool on one line: name, arguments with types (optional ones with a question mark), and use."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    needed = set(required) if isinstance(required, list) else set()
    arguments = [
        f"{name}{'' if name in needed else '?'}: {_type(schema)}"
        for name, schema in (properties.items() if isinstance(properties, dict) else ())
    ]
    words = " ".join(tool.description.split())
    if len(words) > LONGEST_TOOL:
        words = words[:LONGEST_TOOL].rsplit(" ", 1)[0] + " ..."
    # Names are whatever a file of trajectories says; a tool stays on its line.
    return " ".join(f"{tool.name}({', '.join(arguments)})".split()) + (f" - {words}" if words else "")


def _type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    values = schema.get("enum")
    if isinstance(values, list) and 0 < len(values) <= 12:
        return "|".join(str(one) for one in values)
    kind = schema.get("type")
    if kind == "array":
        return f"[{_type(schema.get('items'))}]"
    if isinstance(kind, str):
        return kind
    options = [one for one in schema.get("anyOf", ()) if isinstance(one, dict)]
    return "|".join(dict.fromkeys(_type(one) for one in options)) or "any"


# What is known of one run's end: for discovery and triage, never for whoever labels.


def difference_lines(diffs: Sequence[ActionDiff], known: bool) -> list[str]:
    """Return in words how a failed run differs from what was expected of it.

    Args:
        diffs: Of the run.
        known: Whether anything was expected, so that no difference says something.
    """
    if not known and not diffs:
        return []
    lines = [_difference(one) for one in diffs[:MOST_DIFFS]]
    if len(diffs) > MOST_DIFFS:
        lines.append(f"and {len(diffs) - MOST_DIFFS} more differences")
    return lines or ["every expected change was made, and no other"]


def _difference(one: ActionDiff) -> str:
    wanted, done = _arguments(one.expected_arguments), _arguments(one.arguments)
    tool = " ".join(one.tool.split())
    if one.kind == "missed":
        tried = f"; the very call was made and refused {one.refused} times" if one.refused else ""
        return f"expected and not done: {tool}{wanted}{tried}"
    at = f" (message {one.message})" if one.message is not None else ""
    if one.kind == "surplus":
        return f"done and not expected: {tool}{done}{at}"
    names = {name: one.expected_arguments.get(name) for name in one.changed}
    others = {name: one.arguments.get(name) for name in one.changed}
    return f"done otherwise{at}: {tool}, expected {_arguments(names)}, done {_arguments(others)}"


def _arguments(arguments: dict[str, Any]) -> str:
    from trace_assets.diagnosis.llm.transcript import one_line

    said = ", ".join(
        f"{' '.join(name.split())}={one_line(value)[:LONGEST_VALUE]}" for name, value in arguments.items()
    )
    return f"({said})"


def failed_checks(trajectory: Trajectory) -> list[str]:
    """Return what a grader found wrong with a run, in a line each."""
    failed = [one for one in trajectory.checks if one.passed is False and one.gates]
    return [
        f"check failed: {one.kind} {' '.join(one.name.split())}"
        + (f" ({' '.join(one.detail.split())[:LONGEST_CHECK]})" if one.detail else "")
        for one in failed[:MOST_DIFFS]
    ]
