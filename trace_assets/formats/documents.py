"""JSON values of a file in whichever way it lists them: an array, JSON lines, or one document.

However long the file is, one value at a time is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from trace_assets.formats.chat import dict_of
from trace_assets.formats.openai_chat import not_json, read_rows
from trace_assets.formats.problem import Problem
from trace_assets.formats.reading import Array, find_array, find_elements, settle
from trace_assets.untrusted.allowance import BOM, Allowance, TooLarge, open_lines
from trace_assets.untrusted.json_text import longest, read_json, too_long

_HEAD = 1 << 16


def read_documents(
    path: Path, allowance: Allowance, many: Sequence[str] = ()
) -> Iterator[tuple[str, Any] | Problem]:
    """Yield (place, value): an array's elements, each line of JSON lines, or the file's one document.

    What is damaged is told of, and the values before and behind it are given.

    Args:
        path: The file.
        allowance: Memory that a value may take.
        many: Keys of a document's arrays to be taken for the file: `{"data": [...]}` gives the elements.

    Raises:
        OSError: The file cannot be read.
    """
    most = longest(allowance.row)
    with open_lines(path) as stream:
        head = stream.read(_HEAD).removeprefix(BOM).lstrip()
        stream.seek(0)
        first = stream.readline(most).removeprefix(BOM).strip() if head[:1] == b"{" else b""
        second = stream.read(_HEAD).strip()
    if head[:1] == b"[":
        array = find_elements(path, allowance)
        assert array is not None
        yield from _elements(path, array, "", allowance)
        return
    for key in many:
        known = b'"' + key.encode() + b'"' in head
        found = find_array(path, key, allowance) if known and second[:1] != b"{" else None
        if found is not None:
            yield from _elements(path, found, key, allowance)
            return
    lines = bool(second) and _is_object(first, allowance)
    del first, second
    if lines:
        yield from (
            row if isinstance(row, Problem) else (f"line {row[0]}", row[1])
            for row in read_rows(path, allowance)
        )
        return
    document = read_document(path, allowance)
    yield document if isinstance(document, Problem) else ("", document)


def read_document(path: Path, allowance: Allowance) -> dict[str, Any] | Problem:
    """Return the one object that a file is, or why it is none.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        size = path.stat().st_size
        if size > longest(allowance.row):
            raise too_long(size, allowance.row)
        value = read_json(path.read_bytes().removeprefix(BOM), allowance.row)
    except TooLarge as error:
        return Problem(path=str(path), message=f"{error}; write one trajectory a line", kind="too_large")
    except ValueError as error:
        message = f"the file breaks off or is damaged ({error}); nothing can be read"
        return Problem(path=str(path), message=message, kind="broken_off")
    if not isinstance(value, dict):
        return Problem(path=str(path), message=f"it is a JSON {type(value).__name__}, not an object")
    return value


def outermost(head: bytes) -> Any:
    """Return the value that a file begins with, as far as its beginning goes; None when it is no JSON.

    >>> outermost(b'[{"traj": [1, 2'), outermost(b"# Readme")
    ([{'traj': [1, 2]}], None)
    """
    text = head.removeprefix(BOM).lstrip()
    for part in (text, text.partition(b"\n")[0]):
        try:
            return from_json(part, allow_partial=True)
        except ValueError:
            continue
    return None


def first_object(head: bytes) -> dict[str, Any]:
    """Return the first object that a file lists, as far as its beginning goes; empty when it lists none."""
    value = outermost(head)
    if isinstance(value, list):
        value = value[0] if value else None
    return dict_of(value)


def _is_object(line: bytes, allowance: Allowance) -> bool:
    try:
        return isinstance(read_json(line, allowance.row), dict)
    except ValueError:
        return False


def _elements(
    path: Path, array: Array, name: str, allowance: Allowance
) -> Iterator[tuple[str, Any] | Problem]:
    for settled in settle(path, array.spans, allowance):
        position = f"{name}[{settled.span.number}]"
        if not settled.reason:
            yield position, settled.value
        elif settled.broken_off:
            before = settled.span.number
            message = f"the file breaks off or is damaged here ({settled.reason}); "
            message += f"the {before} elements before it are read" if before else "nothing can be read"
            yield Problem(path=str(path), position=position, message=message, kind="broken_off")
        else:
            message = f"{not_json(settled.reason)}; this element is left out"
            kind = "too_large" if settled.large else "left_out"
            yield Problem.model_validate(
                {"path": str(path), "position": position, "message": message, "kind": kind}
            )
    if not array.whole:
        message = "there are more elements than can be remembered within the memory that reading may take "
        message += "(ingest.memory_gib); the others are left out"
        position = f"{name}[{len(array.spans)}]"
        yield Problem(path=str(path), position=position, message=message, kind="too_large")
