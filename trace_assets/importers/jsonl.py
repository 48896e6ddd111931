"""Rows of a JSON lines file, one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trace_assets.importers.problem import Problem


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """Yield (line number from 1, object); a line that is none is a `Problem`, and reading goes on.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = parse(line)
            except ValueError as error:
                whole = line.endswith(b"\n")
                reason = str(error).partition(" (byte")[0]
                message = f"it is not JSON ({reason}); this line is left out"
                if not whole:
                    message = f"the file breaks off here ({reason}); the lines before it are read"
                kind = "left_out" if whole else "broken_off"
                yield Problem.model_validate(
                    {"path": str(path), "position": f"line {number}", "message": message, "kind": kind}
                )
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                message = f"it is a JSON {type(row).__name__}, not an object; this line is left out"
                yield Problem(path=str(path), position=f"line {number}", message=message)


def parse(data: bytes) -> Any:
    """Parse JSON, the numbers that JSON does not have (NaN, Infinity) included.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            return json.loads(data)
        except RecursionError:
            raise ValueError("it is nested too deeply") from error


def first_row(head: bytes) -> dict[str, Any] | None:
    """Return the first line of a file's beginning as an object.

    A line longer than the beginning is read as far as it goes. None when it is no object, and for an object
    that is laid out over several lines.
    """
    from pydantic_core import from_json

    line, newline, _ = head.lstrip().partition(b"\n")
    try:
        row = from_json(line, allow_partial=not newline and len(line) > 1)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
