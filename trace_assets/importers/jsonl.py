"""Rows of a JSON lines file, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from trace_assets.importers.problem import Problem
from trace_assets.untrusted.allowance import Allowance, TooLarge
from trace_assets.untrusted.json_text import longest, read_json, too_long
from trace_assets.untrusted.lines import BOM, read_lines

MOST_REFUSED = 100_000
"""Lines that are told of one by one; a file with so many of no use, and more of them than good ones, is given
up."""
_SAID = ("it is", "reading it", "a number")
_LOOKED_AT = 50
"""Lines of a file's beginning in which its first row is looked for."""


def read_rows(path: Path, allowance: Allowance) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """Yield (line number from 1, object); a line that is none is a `Problem`, and reading goes on.

    Raises:
        OSError: The file cannot be read.
    """
    good = refused = 0
    with path.open("rb") as stream:
        for line in read_lines(stream, longest(allowance.row)):
            if line.data is not None and not line.data.strip():
                continue
            try:
                if line.data is None:
                    raise too_long(line.size, allowance.row)
                row = read_json(line.data, allowance.row)
                if not isinstance(row, dict):
                    raise ValueError(f"it is a JSON {type(row).__name__}, not an object")
            except ValueError as error:
                refused += 1
                yield _refused(path, line.number, line.ended, error)
                if refused >= MOST_REFUSED and refused > good:
                    message = f"{refused:,} lines up to here are of no use; the rest of the file is not read"
                    position = f"line {line.number}"
                    yield Problem(path=str(path), position=position, message=message, kind="given_up")
                    return
                continue
            good += 1
            yield line.number, row
            del row


def _refused(path: Path, number: int, ended: bool, error: ValueError) -> Problem:
    large = isinstance(error, TooLarge)
    message, kind = f"{not_json(error)}; this line is left out", "too_large" if large else "left_out"
    if not ended and not large:
        message = f"the file breaks off here ({error}); the lines before it are read"
        kind = "broken_off"
    return Problem.model_validate(
        {"path": str(path), "position": f"line {number}", "message": message, "kind": kind}
    )


def not_json(reason: Exception | str) -> str:
    """Return what keeps a text from being read: what says so itself, else that it is not JSON."""
    words = str(reason)
    return words if words.startswith(_SAID) else f"it is not JSON ({words})"


def first_row(head: bytes) -> dict[str, Any] | None:
    """Return the first object among the lines of a file's beginning.

    A line longer than the beginning is read as far as it goes. None when there is none, and for one value
    that is laid out over several lines.
    """
    whole = head.removeprefix(BOM).lstrip()
    lines = whole.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
    for number, line in enumerate(lines):
        last = number == len(lines) - 1 and len(line) > 1
        try:
            row = from_json(line, allow_partial=last)
        except ValueError:
            if number == 0 and len(lines) > 1 and _goes_on(whole):
                return None
            continue
        if isinstance(row, dict) and row:
            return row
    return None


def _goes_on(text: bytes) -> bool:
    """Tell whether a text is the beginning of one value over several lines."""
    try:
        from_json(text, allow_partial=True)
    except ValueError:
        return False
    return True
