"""A span and a trace, whichever tool exported them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from trace_assets.formats.spans.chat_forms import Said, parsed

Kind = Literal["model", "tool", "agent", "other"]
_OF_KIND: Mapping[Kind, str] = {
    "model": "llm chat chat_model completion text_completion generate_content generation generate inference "
    "responses response",
    "tool": "tool execute_tool function mcp_tool mcp_call tool_call",
    "agent": "agent chain workflow task invoke_agent invoke_workflow evaluator guardrail span",
}
_KINDS: Mapping[str, Kind] = {word: kind for kind, words in _OF_KIND.items() for word in words.split()}
FACTS = (
    "task_id",
    "trial",
    "seed",
    "target",
    "model",
    "agent",
    "user_policy",
    "reward",
    "success",
    "instruction",
    "expected_actions",
    "expected_outputs",
    "domain_policy",
)
"""What a trace's metadata may tell under these very names."""
_REWARDS = frozenset(["reward", "score", "accuracy", "correctness"])
_VERDICTS = frozenset(
    [
        "success",
        "passed",
        "pass",
        "correct",
        "correctness",
        "resolved",
        "solved",
        "task_success",
        "is_correct",
        "outcome",
        "accuracy",
    ]
)
_WORDS: Mapping[str, bool] = {
    word: verdict
    for verdict, words in (
        (True, "true yes y pass passed success succeeded successful correct resolved solved good right"),
        (False, "false no n fail failed failure unsuccessful incorrect unresolved unsolved bad wrong"),
    )
    for word in words.split()
}


@dataclass(frozen=True)
class ToolUse:
    """What a tool's span says."""

    name: str
    call_id: str | None = None
    arguments: Any = None
    result: Any = None


@dataclass(frozen=True)
class Span:
    """One step of a trace.

    Attributes:
        trace_id: Its trace.
        span_id: Itself.
        parent_id: The span that it is part of.
        name: As its program calls it.
        kind: What did it.
        start: Seconds since 1970; 0 when not known.
        end: Likewise.
        asked: What a model was given, or what an agent was asked, as chat messages.
        said: What it gave.
        tool: For a tool.
        model: For a model.
        tokens: Prompt and completion tokens.
        cost: US dollars.
        error: What broke it.
        about: Attributes and metadata, flat or nested.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    kind: Kind = "other"
    start: float = 0.0
    end: float = 0.0
    asked: tuple[Said, ...] = ()
    said: tuple[Said, ...] = ()
    tool: ToolUse | None = None
    model: str | None = None
    tokens: tuple[int | None, int | None] = (None, None)
    cost: float | None = None
    error: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Trace:
    """The spans of one trace, and what is said of it as a whole.

    Attributes:
        trace_id: Its name.
        spans: In no order.
        about: Metadata, the most specific first.
        scores: By name: numbers, truth values or words.
        session: Conversation that several traces may belong to.
        place: Project or service; where the tasks live, unless the metadata say it.
        task: What it is a trial of, as far as the tool knows: an example of a data set.
        asked: What the whole was asked, where no span tells.
        said: What came of it.
        error: What broke it.
    """

    trace_id: str
    spans: list[Span] = field(default_factory=list)
    about: list[Mapping[str, Any]] = field(default_factory=list)
    scores: dict[str, Any] = field(default_factory=dict)
    session: str | None = None
    place: str | None = None
    task: str | None = None
    asked: tuple[Said, ...] = ()
    said: tuple[Said, ...] = ()
    error: str | None = None


def kind_of(*names: Any) -> Kind:
    """Return what did a span, from the first name that is known.

    >>> kind_of(None, "LLM"), kind_of("execute_tool"), kind_of("RETRIEVER")
    ('model', 'tool', 'other')
    """
    for name in names:
        found = _KINDS.get(str(name or "").lower())
        if found is not None:
            return found
    return "other"


def facts_in(sources: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what metadata tell under the names of `FACTS`; what comes first counts.

    A name stands alone, behind `metadata` in whatever nesting, or behind `trace`.

    >>> facts_in([{"app.metadata.task_id": "7"}, {"metadata": '{"reward": 1, "task_id": "8"}'}])
    {'task_id': '7', 'reward': 1}
    """
    found: dict[str, Any] = {}
    for source in sources:
        for key, value in source.items():
            before, _, name = key.rpartition(".")
            if name in FACTS and (before in ("", "trace") or before.rpartition(".")[2] == "metadata"):
                if value is not None:
                    found.setdefault(name, parsed(value))
            elif name in ("metadata", "attributes"):
                inner = parsed(value)
                if isinstance(inner, Mapping):
                    for own, one in facts_in([inner]).items():
                        found.setdefault(own, one)
    return found


def verdict_in(scores: Mapping[str, Any]) -> tuple[float | None, bool | None]:
    """Return the reward and the success that scores tell under the names that mean it.

    >>> verdict_in({"Task Success": "pass"}), verdict_in({"correctness": 0.5}), verdict_in({"tone": 1})
    ((None, True), (0.5, None), (None, None))
    >>> verdict_in({"outcome": "Not solved"}), verdict_in({"outcome": "not sure"})
    ((None, False), (None, None))
    """
    reward: float | None = None
    success: bool | None = None
    for name, value in scores.items():
        flat = re.sub(r"\W+", "_", name.lower()).strip("_")
        if flat in _VERDICTS and success is None:
            success = _truth(value)
        if flat in _REWARDS and reward is None and isinstance(value, int | float) and math.isfinite(value):
            reward = float(value)
    return reward, success


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return bool(value) if value in (0, 1) else None
    word = re.sub(r"[\s_-]+", " ", str(value)).strip().lower()
    denied = word.startswith("not ")
    found = _WORDS.get(word.removeprefix("not "))
    return found if found is None or not denied else not found


def seconds_of(value: Any) -> float:
    """Return a point in time in seconds: nano-, micro- or milliseconds since 1970, or ISO 8601; 0 for none.

    >>> seconds_of("1700000000000000000"), seconds_of(1700000000000), seconds_of("2023-11-14T22:13:20Z")
    (1700000000.0, 1700000000.0, 1700000000.0)
    """
    if isinstance(value, str) and not value.strip().isdigit():
        try:
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return 0.0
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    if not math.isfinite(number):
        return 0.0
    for unit in (1e17, 1e14, 1e11):  # a date after 1973 in nano-, micro-, milliseconds
        if number > unit:
            return number / {1e17: 1e9, 1e14: 1e6, 1e11: 1e3}[unit]
    return number


def date_of(seconds: float) -> str | None:
    """Return a point in time as ISO 8601; None when not known."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def tokens_in(usage: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return prompt and completion tokens of a usage object, under whichever names it has."""
    names = (
        ("input", "input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "prompt"),
        ("output", "output_tokens", "completion_tokens", "outputTokens", "completionTokens", "completion"),
    )
    found = [
        next((usage[key] for key in keys if isinstance(usage.get(key), int | float)), None) for keys in names
    ]
    prompt, completion = (None if one is None else int(one) for one in found)
    return prompt, completion
