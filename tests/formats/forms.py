"""Small logs of every form, for the tests of the importers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.reading import read_trajectories
from trace_assets.records import Trajectory


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def one(path: Path, format: str = "auto") -> Trajectory:
    (trajectory,) = read_trajectories([path], format).trajectories
    return trajectory


USER = {"role": "user", "content": "Add 1 and 1."}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"x": 1, "y": 1}'}}
CHAT = [
    {"role": "developer", "content": "Be brief."},
    USER,
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hm"},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "2"}]},
    {"role": "assistant", "content": "2"},
]
