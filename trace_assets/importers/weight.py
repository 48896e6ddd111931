"""What a trajectory takes on its way from records to tables; names are repeated there in every row."""

from __future__ import annotations

from pathlib import Path

from trace_assets.importers.problem import Problem
from trace_assets.records import Trajectory
from trace_assets.untrusted.allowance import Allowance
from trace_assets.untrusted.json_text import too_dear

_TRAJECTORY, _MESSAGE, _CALL, _CHECK = 8000, 3000, 1700, 2800
"""Bytes for a trajectory and for each message, call and check of it, beside their text."""
_TEXT = 14
"""Bytes for each character of text, as in `untrusted.json_text`."""
_NAME = 8
"""Bytes for each character of a name that a row repeats."""


def weight(trajectory: Trajectory) -> int:
    """Return the memory that a trajectory takes at most until it lies in tables, in bytes."""
    repeated, calls, text = len(trajectory.trajectory_id), 0, 0
    total = 0
    for message in trajectory.messages:
        calls += len(message.tool_calls)
        text += len(message.content or "")
        total += len(message.tool_call_id or "") + len(message.tool_name or "")
    rows = len(trajectory.messages) + len(trajectory.checks)
    return (
        _TRAJECTORY
        + len(trajectory.messages) * _MESSAGE
        + calls * _CALL
        + len(trajectory.checks) * _CHECK
        + (total + rows * repeated) * _NAME
        + text * _TEXT
    )


def too_heavy(trajectory: Trajectory, path: Path, allowance: Allowance) -> Problem | None:
    """Say so when a trajectory takes more memory than one may."""
    if (taken := weight(trajectory)) <= allowance.row:
        return None
    position = f"trajectory '{trajectory.trajectory_id[:100]}'"
    what = f"its {len(trajectory.messages):,} messages; it is left out"
    message = f"{too_dear(taken, allowance.row)} for {what}"
    return Problem(path=str(path), position=position, message=message, kind="too_large")
