"""What of a row speaks against its verdict, or against the order of its messages.

It is told, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from trace_assets.formats.outcome import earned
from trace_assets.formats.spans.span import verdict_in
from trace_assets.records import Message

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
        verdict = _verdict(name, row)
        if verdict is not None and verdict != success:
            counts = f"the verdict '{str(success).lower()}', which counts"
            yield f"'{name}' says {str(row[name])[:40]!r}, against {counts}"
            break
    if success and not any(one.role == "assistant" for one in messages):
        yield "the agent says and does nothing in it, and has passed; the verdict counts"
    if not _in_order(raw):
        yield "its messages are not in the order of their times; they are read as they stand"


def _verdict(name: str, row: Mapping[str, Any]) -> bool | None:
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
