"""How an episode ended and what it earned, in the words of other programs, and what speaks against that."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from trace_assets.formats.fields import not_too_many, said_so
from trace_assets.formats.spans.span import verdict_in
from trace_assets.records import Check, Message
from trace_assets.records.trajectory import Fault, Stop

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
REWARD = ("reward", "score")
SUCCESS = ("success", "passed", "correct", "resolved", "pass")
IN_WORDS = (
    *("verdict", "outcome", "solved", "label", "is_success", "is_correct", "task_success", "result"),
    *("grade", "evaluation", "eval", "judgement", "judgment"),
)
"""Fields that may hold a verdict, or something else: they count where no other says it."""
FULL = ("max_reward", "max_score")
"""What the reward can be at most, where that is not 1."""
_AT = ("timestamp", "created_at", "createdAt", "time")
"""What a message calls its time."""


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
    if isinstance(reward, str):
        try:
            return float(reward)
        except ValueError:
            return {"true": True, "false": False}.get(reward.strip().lower(), reward)
    if isinstance(reward, int) and not isinstance(reward, bool):
        try:
            float(reward)
        except OverflowError:  # JSON knows longer numbers
            return math.inf if reward > 0 else -math.inf
    return reward


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


def against(
    row: Mapping[str, Any], success: bool | None, raw: Sequence[Any], messages: Sequence[Message]
) -> Iterator[str]:
    """Yield what of a row speaks against what was read of it, a sentence's part each.

    Args:
        row: The row.
        success: The verdict that counts.
        raw: Its messages as they stand there.
        messages: As they were read.

    >>> list(against({"success": True, "passed": False}, True, [], [Message(role="assistant")]))
    ["'passed' says 'False', against the verdict 'true', which counts"]
    """
    for name in (*SUCCESS, *REWARD, *IN_WORDS) if success is not None else ():
        verdict = _against_verdict(name, row)
        if verdict is not None and verdict != success:
            counts = f"the verdict '{str(success).lower()}', which counts"
            yield f"'{name}' says {str(row[name])[:40]!r}, against {counts}"
            break
    if success and not any(one.role == "assistant" for one in messages):
        yield "the agent says and does nothing in it, and has passed; the verdict counts"
    if not _in_order(raw):
        yield "its messages are not in the order of their times; they are read as they stand"


def _against_verdict(name: str, row: Mapping[str, Any]) -> bool | None:
    """Return what one field says of success; None where it says something else."""
    value = row.get(name)
    if value is None:
        return None
    if name in IN_WORDS:
        return verdict_in(value if isinstance(value, Mapping) else {"success": value})[1]
    # A score between 0 and 1 may be one of something else, and 1 of 10 is no full one.
    if name in REWARD and (value not in (0, 1) or any(one in row for one in FULL)):
        return None
    return earned(None, value).success


def _in_order(raw: Sequence[Any]) -> bool:
    """Tell whether entries stand in the order of their times; results may come in that of their calls."""
    told = [one for one in raw if isinstance(one, Mapping) and one.get("role") in ("user", "assistant")]
    values = [next((one[name] for name in _AT if one.get(name) is not None), None) for one in told]
    try:
        times = [datetime.fromisoformat(one) if isinstance(one, str) else one for one in values if one]
        return all(earlier <= later for earlier, later in pairwise(times))
    except (TypeError, ValueError):  # of several kinds, or in words
        return True
