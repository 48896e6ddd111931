"""Messages in the OpenAI chat form, as logs really hold them.

Text is taken as `content`. What the form allows besides - parts that are not text, several parts, reasoning,
names - is kept in `Message.metadata`, so that an export can give it back.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trace_assets.records import Check, Message, Role, ToolCall
from trace_assets.records.trajectory import Fault, Stop
from trace_assets.untrusted.json_text import read_embedded

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_OWN = frozenset({"role", "content", "tool_calls", "tool_call_id", "tool_name", "is_error", "requestor"})
_TAKEN = _OWN | {"function_call", "name", "error", "reasoning", "reasoning_content", "metadata"}
MOST_MESSAGES = 100_000
"""Messages of one trajectory; ten thousand are many."""
MOST_CALLS = 10_000
"""Tool calls of one message."""
_IN_PARTS = ("text", "content", "output")
"""Where parts of a kind that is not known have their words."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "refusal"})


def dict_of(value: Any) -> dict[str, Any]:
    """Return a value that is an object, an empty one in the place of anything else."""
    return value if isinstance(value, dict) else {}


def first_words(messages: tuple[Message, ...]) -> str:
    """Return what the user said first: what was asked, as far as a conversation tells."""
    return next((one.content for one in messages if one.role == "user" and one.content), "")


def read_chat(raw: Sequence[Any], left: Counter[str] | None = None) -> list[Message]:
    """Return the messages of a conversation.

    Args:
        raw: What the log holds.
        left: Counts, by their kind, the entries that are left out, for nobody says whose words they are;
            None refuses a conversation that holds one.

    Raises:
        ValueError: A message is not an object, has an unknown role or a tool call without a name.
    """
    not_too_many(len(raw), MOST_MESSAGES, "messages")
    names: dict[str, str] = {}
    waiting: list[tuple[str, ToolCall]] = []
    last, unknown = "", ""
    messages = []
    for number, message in enumerate(raw):
        if not isinstance(message, dict):
            raise ValueError(f"messages[{number}] is not an object")
        if number + 1 < len(raw) and _says_again(message, raw[number + 1]):
            continue
        said = message.get("role")
        role = _ROLES.get(str(said))
        if role is None and left is not None:
            role = _role_of(said, raw)
        if role is None:
            unknown = unknown or f"messages[{number}] has the unknown role {said!r}"
            if left is None:
                raise ValueError(unknown)
            left[f"role {str(said)[:40]}"] += 1
            continue
        given = tuple(_calls(message, number))
        calls = _told_apart(given)
        names.update((call.id, call.name) for call in calls)
        if calls:
            last = calls[-1].id
            waiting = [(one.id, call) for one, call in zip(given, calls, strict=True)]
        answered = None
        if role == "tool":
            answered = _answered(message, waiting) or last or f"call_{number}"
        content, metadata = _content(_unwrapped(message.get("content"), role), number)
        metadata.update(_besides(message, role))
        messages.append(
            Message(
                role=role,
                content=content,
                tool_calls=calls,
                tool_call_id=answered,
                tool_name=_tool_name(message, names, answered) if answered else None,
                is_error=bool(answered) and any(said_so(message.get(name)) for name in _FAILED),
                requestor="user" if message.get("requestor") == "user" else "assistant",
                metadata=metadata,
            )
        )
    if unknown and not any(one.role == "assistant" for one in messages):
        raise ValueError(unknown)  # whose words are lost may be the agent's
    return messages


def _says_again(message: Mapping[str, Any], later: Any) -> bool:
    """Tell whether the next entry is this one again, or goes on with it: streams are logged as they grow.

    An entry without an id of its own may be a word that was said twice.
    """
    name = message.get("id")
    if not name or not isinstance(later, dict) or later.get("id") != name:
        return False
    said, more = message.get("content"), later.get("content")
    grows = isinstance(said, str) and isinstance(more, str) and bool(said) and more.startswith(said)
    return message == later or (grows and {**message, "content": more} == {**later, "content": more})


def _told_apart(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls of one message with an id each: some servers call all of them alike."""
    if len({call.id for call in calls}) == len(calls):
        return calls
    met: set[str] = set()
    found = []
    for place, call in enumerate(calls):
        found.append(call.model_copy(update={"id": f"{call.id}_{place}"}) if call.id in met else call)
        met.add(call.id)
    return tuple(found)


def _answered(message: Mapping[str, Any], waiting: list[tuple[str, ToolCall]]) -> str:
    """Return which call a result answers, and take that from those that wait for one.

    The old function form names no call, or its tool alone: results then come in the order of the calls.
    """
    named, tool = str(message.get("tool_call_id") or ""), message.get("tool_name") or message.get("name")
    for place, (given, call) in enumerate(waiting):
        if given == named or (not named and tool in (None, "", call.name)):
            return waiting.pop(place)[1].id
    return named


def _role_of(said: object, raw: Sequence[Any]) -> Role | None:
    """Return whose a role is that nobody knows, by what its entries do: call tools, or answer calls."""
    own = [one for one in raw if isinstance(one, dict) and one.get("role") == said]
    if any(one.get("tool_calls") for one in own):
        return "assistant"
    return "tool" if all(one.get("tool_call_id") for one in own) else None


_FAILED = ("is_error", "error", "isError", "tool_call_error")
"""Fields by which a result says that the call failed."""
_NOTHING = frozenset({"", "none", "null", "nan", "false", "0"})
"""What programs write as text in the place of no value, or of no."""


def said_so(value: Any) -> bool:
    """Tell whether a field says that something is so, as text too; an object says it by any of its values.

    >>> said_so("false"), said_so("boom"), said_so({"type": None, "message": None}), said_so(float("nan"))
    (False, True, False, False)
    """
    if isinstance(value, str):
        return value.strip().lower() not in _NOTHING
    if isinstance(value, Mapping):
        return any(said_so(one) for one in value.values())
    return bool(value) and value == value  # NaN stands for nothing in tables


def _tool_name(message: Mapping[str, Any], names: Mapping[str, str], answered: str) -> str | None:
    named = message.get("tool_name") or message.get("name")
    return str(named) if named else names.get(answered)


def _besides(message: Mapping[str, Any], role: Role) -> dict[str, Any]:
    """Return what a message holds that has no field of its own."""
    kept = dict(message["metadata"]) if isinstance(message.get("metadata"), dict) else {}
    kept.update(
        {key: value for key, value in message.items() if key not in _TAKEN and value not in (None, [])}
    )
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning:
        kept["reasoning"] = reasoning
    if message.get("role") not in (role, None):
        kept["role"] = message["role"]
    if role != "tool" and message.get("name"):
        kept["name"] = message["name"]
    if role == "tool" and message.get("error") is not True and said_so(message.get("error")):
        kept["error"] = message["error"]
    return kept


_WRAPPED = re.compile(r'\s*\[?\s*\{\s*"(?:type|text|annotations|meta|_meta)"\s*:')
"""How a list of MCP's content blocks, or one, begins as JSON text."""
_OF_TEXT = frozenset({"type", "text", "annotations", "meta", "_meta"})


def _unwrapped(value: Any, role: Role) -> Any:
    """Return a tool's result without the text blocks of MCP that some clients keep as JSON text.

    What is no such block in every part is a result of its own, and stays as it is.

    >>> _unwrapped('{"type":"text","text":"[FILE] a.md"}', "tool"), _unwrapped('{"type":"text"}', "tool")
    ([{'type': 'text', 'text': '[FILE] a.md'}], '{"type":"text"}')
    """
    if role != "tool" or not isinstance(value, str) or not _WRAPPED.match(value):
        return value
    try:
        told = read_embedded(value)
    except ValueError:
        return value
    blocks = told if isinstance(told, list) else [told]
    texts = (
        isinstance(one, dict)
        and one.get("type") == "text"
        and isinstance(one.get("text"), str)
        and one.keys() <= _OF_TEXT
        for one in blocks
    )
    return blocks if blocks and all(texts) else value


def _content(value: Any, number: int) -> tuple[str | None, dict[str, Any]]:
    """Return a content's text, and its parts where text does not say all."""
    if value is None or isinstance(value, str):
        return value, {}
    if not isinstance(value, list):
        raise ValueError(f"messages[{number}] has a content that is neither text nor a list of parts")
    texts = []
    for part in value:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in _TEXT_PARTS:
            said = part.get("text") or part.get("refusal") or part.get("content")
            if isinstance(said, dict):  # a message of OpenAI's threads
                said = said.get("value")
            texts.append(str(said) if said else "".join(f"[{name}]" for name in part if "type" not in part))
        else:
            about = dict_of(part)
            said = next((about[name] for name in _IN_PARTS if isinstance(about.get(name), str)), "")
            texts.append(said or f"[{about.get('type') if about else type(part).__name__}]")
    return "\n".join(texts), {"content": value}


def _calls(message: Mapping[str, Any], number: int) -> Iterator[ToolCall]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError(f"messages[{number}] has 'tool_calls' that are no list")
    not_too_many(len(calls), MOST_CALLS, "tool calls in one message")
    if message.get("function_call"):
        calls = [*calls, {"function": message["function_call"]}]
    for place, call in enumerate(calls):
        if isinstance(call, str):  # some logs keep each call as JSON text
            try:
                call = read_embedded(call)
            except ValueError:
                call = None
        body = call.get("function") or call.get("custom") or call if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(body, str):  # AgentDojo: {"function": name, "args": {...}}
            body = {**call, "name": body}
        name = (body.get("name") or body.get("function_name")) if isinstance(body, dict) else None
        if not isinstance(name, str) or not isinstance(body, dict) or not isinstance(call, dict):
            raise ValueError(f"messages[{number}] has a tool call without a name")
        given = body["input"] if "input" in body else body.get("arguments", body.get("args"))
        identity = (
            call.get("id") or call.get("tool_call_id") or f"call_{number}" + (f"_{place}" if place else "")
        )
        yield ToolCall(id=str(identity), name=name, arguments=read_arguments(given))


def read_arguments(given: Any) -> dict[str, Any]:
    """Return a call's arguments; what is no JSON object is kept under `raw`.

    >>> read_arguments('{"order": "K1"}'), read_arguments("{"), read_arguments(None)
    ({'order': 'K1'}, {'raw': '{'}, {})
    """
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            value = read_embedded(given)
        except ValueError:
            return {"raw": given}
        return value if isinstance(value, dict) else {"raw": given}
    return given if isinstance(given, dict) else {"raw": given}


# How an episode ended and what it earned, from the words other programs use.


_OVERFLOW = re.compile(r"context.?(length|window|overflow|size)|maximum context|prompt is too long", re.I)
_WORDS: Mapping[Stop, str] = {
    "completed": "stop completed complete end_turn done user_stop agent_stop submitted no_tools_called "
    "final_env_response has_final_env_response user_closed agent_completed",
    "transferred": "transfer transferred",
    "max_turns": "max_turns max_steps max_turns_reached message_limit turn_limit",
    "context_overflow": "context_length context_overflow prompt_too_long model_length",
    "agent_error": "agent_error too_many_errors",
    "user_error": "user_error",
    "environment_error": "environment_error",
    "infrastructure_error": "infrastructure_error",
}
_STOPS: Mapping[str, Stop] = {word: stop for stop, words in _WORDS.items() for word in words.split()}
_LIMIT_WORDS: Mapping[str, str] = {
    "tokens": "length max_tokens max_output_tokens token_limit max_total_tokens max_input_tokens",
    "messages": _WORDS["max_turns"],
    "time": "timeout time_limit working_limit timeout_reached",
    "context": _WORDS["context_overflow"],
    "cost": "cost_limit max_cost",
}
_LIMITS: Mapping[str, str] = {word: limit for limit, words in _LIMIT_WORDS.items() for word in words.split()}
_FAULTS: Mapping[Stop, Fault] = {
    "user_error": "user_simulator",
    "environment_error": "environment",
    "infrastructure_error": "infrastructure",
}


class Earned(NamedTuple):
    """What an episode earned.

    Attributes:
        reward: None when it was not judged.
        success: None when nothing may be said.
        notice: Why something is None, or that reward and verdict contradict each other; empty otherwise.
    """

    reward: float | None
    success: bool | None
    notice: str = ""


def earned(reward: Any, success: Any = None, *, full: float = 1.0) -> Earned:
    """Judge by a reward and, where there is one, a verdict.

    Args:
        reward: A number or a truth value, as text too; anything else is no reward.
        success: A truth value decides, as 0, 1 or text too; any other value but None leaves it open.
        full: The reward from which on an episode counts as passed.

    >>> earned(0.5), earned(True).success, earned(None, True).reward
    (Earned(reward=0.5, success=False, notice=''), True, 1.0)
    >>> earned(30).success is None, earned(float("nan")).reward is None
    (True, True)
    >>> earned("1.0").success, earned("false").success, earned("95%").success is None
    (True, False, True)
    >>> earned(1.0, "false").success, earned(1.0, 0).success, earned(1.0, "no").success is None
    (False, False, True)
    >>> earned(1.0, False).notice
    "the reward 1 and the success 'false' contradict each other; the success counts"
    """
    verdict, reward = _verdict(success), _number(reward)
    number = isinstance(reward, int | float) and math.isfinite(reward)
    if success is not None and verdict is None:
        said = f"the success {str(success)[:40]!r} is neither true nor false"
        return Earned(
            float(reward) if number else None, None, f"{said}, so the trajectory is kept as not judged"
        )
    if not number:
        if verdict is not None:
            return Earned(float(verdict), verdict)
        said = "there is no reward" if reward is None else f"the reward {str(reward)[:40]!r} is no number"
        return Earned(None, None, f"{said}, so the trajectory is kept as not judged")
    value = float(reward)
    if verdict is None and value > max(full, 1.0) + 1e-6:
        return Earned(
            value,
            None,
            f"the reward {value:g} is above {full:g} and there is no 'success', so whether it passed is not "
            "known; add a true or false 'success'",
        )
    passed = value >= full - 1e-6
    if verdict is None:
        return Earned(value, passed)
    notice = ""
    if (verdict and value == 0) or (not verdict and passed and value <= max(full, 1.0) + 1e-6):
        notice = f"the reward {value:g} and the success '{str(verdict).lower()}' contradict each other; the "
        notice += "success counts"
    return Earned(value, verdict, notice)


_TRUTHS: Mapping[str, bool] = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


def _number(reward: Any) -> Any:
    """Return a reward that stands there as text as what the text says, where it says a number or a truth."""
    if not isinstance(reward, str):
        return reward
    try:
        return float(reward)
    except ValueError:
        return {"true": True, "false": False}.get(reward.strip().lower(), reward)


def _verdict(success: Any) -> bool | None:
    if isinstance(success, int | float) and success in (0, 1):
        return bool(success)
    return _TRUTHS.get(success.strip().lower()) if isinstance(success, str) else None


class Ended(NamedTuple):
    """How an episode ended."""

    stop: Stop
    fault: Fault | None
    error: str | None
    limit: str | None


def ended(reason: Any, error: Any = None, limit: Any = None) -> Ended:
    """Read how an episode ended.

    Args:
        reason: A stop or finish reason; unknown words are `unknown`.
        error: What broke the run, as text or as an object with `message`; None or empty when nothing did.
        limit: The limit that was met, where the log names it apart.

    An error that is not plainly the agent's is the infrastructure's: it is never counted as a failure.
    """
    word = str(reason or "").strip().lower().rpartition(".")[2]
    stop: Stop = _STOPS.get(word, "unknown")
    met = str(limit) if limit else _LIMITS.get(word)
    text = error_text(error)
    if text is None:
        return Ended(stop, _FAULTS.get(stop), f"stopped by {word}" if stop in _FAULTS else None, met)
    if _OVERFLOW.search(text):
        return Ended("context_overflow", None, text, met or "context")
    if stop in ("max_turns", "context_overflow", "agent_error"):
        return Ended(stop, None, text, met)
    if stop not in _FAULTS:
        stop = "infrastructure_error"
    return Ended(stop, _FAULTS[stop], text, met)


def error_text(error: Any) -> str | None:
    """Return an error as one text; None when there is none."""
    if not said_so(error):
        return None
    if isinstance(error, Mapping):
        kind, message = error.get("type") or error.get("error"), error.get("message") or error.get("detail")
        parts = [str(part) for part in (kind, message) if part and not isinstance(part, bool)]
        return ": ".join(parts) or str(dict(error))[:500]
    return str(error)


MOST_CHECKS = 10_000
"""Checks of one trajectory; a hundred are many."""


def not_too_many(n: int, most: int, what: str) -> None:
    """Refuse a trajectory that is made of more parts than any real one.

    Raises:
        ValueError: `n` is more than `most`.
    """
    if n > most:
        raise ValueError(f"it holds {n:,} {what}, and a trajectory may have {most:,}")


def amount(value: Any) -> float | None:
    """Return a quantity such as a cost or a time; None for what can be none.

    >>> amount(2), amount(-1), amount("2"), amount(True), amount(float("inf"))
    (2.0, None, None, None, None)
    """
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if good else None


def token_count(value: Any) -> int | None:
    """Return a number of tokens; None for what can be none.

    >>> token_count(7), token_count(7.0), token_count(-7), token_count("7"), token_count(10**30)
    (7, 7, None, None, None)
    """
    number = amount(value)
    return None if number is None else int(number)


def score_checks(scores: Any) -> tuple[Check, ...]:
    """Return named scores as checks that do not gate success: their weight is not ours to know."""
    if not isinstance(scores, Mapping):
        return ()
    not_too_many(len(scores), MOST_CHECKS, "named scores")
    checks = []
    for name, value in scores.items():
        if value is None:
            continue
        number = float(value) if isinstance(value, int | float) and math.isfinite(value) else None
        checks.append(
            Check(
                name=str(name),
                kind="judge",
                passed=value if isinstance(value, bool) else None,
                score=number,
                gates=False,
                detail="" if number is not None else str(value)[:500],
            )
        )
    return tuple(checks)


def prompt_id(text: str) -> str:
    """Return a task id for a prompt: equal prompts are trials of one task."""
    return f"prompt-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
