"""What the agent knew beside its conversation: policy, tools and clock, shared by all questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.llm.request import render
from trace_assets.records import ActionDiff, ToolSpec, Trajectory

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
