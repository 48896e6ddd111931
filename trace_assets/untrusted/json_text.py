"""JSON from outside: parsed within bounds of memory and depth, whatever it holds.

There is one judge of what JSON text may be read. What a text will take is estimated from its bytes before it
is parsed; the estimate is an upper bound that was measured on the worst of every kind (`tests/untrusted`).
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from trace_assets.untrusted.allowance import TooLarge, size_in_words

DEEPEST = 200
"""Containers inside each other; agents' logs have some ten, and Python itself gives up near 1,000."""
_TEXT, _WIDE_TEXT = 14, 21
"""Bytes that a byte of plain text takes from the file to the table; the second where one character may make
Python store all of a text in four bytes each."""
_OBJECT, _LIST, _ITEM = 260, 110, 110
"""Bytes for each object, each list and each item of them, beside their text."""
_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""What texts in other encodings begin with."""
_HALVES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.S
)
"""Escapes; the group holds halves of a surrogate pair that have lost the other half."""


def json_cost(data: bytes | memoryview) -> int:
    """Return the memory that a JSON text may take until it is written to a table, in bytes.

    Commas and brackets inside strings count as well: such strings are often JSON themselves.
    """
    whole = bytes(data) if isinstance(data, memoryview) else data
    plain = whole.isascii() and b"\\u" not in whole
    objects, lists = whole.count(b"{"), whole.count(b"[")
    items = whole.count(b",") + objects + lists
    return len(whole) * (_TEXT if plain else _WIDE_TEXT) + objects * _OBJECT + lists * _LIST + items * _ITEM


def longest(most: int) -> int:
    """Return how many bytes of JSON text can at all be parsed within some memory."""
    return most // _TEXT


def check_cost(data: bytes, most: int) -> int:
    """Return what a JSON text will take.

    Raises:
        TooLarge: It is more than `most`.
    """
    if len(data) > longest(most):
        raise too_long(len(data), most)
    cost = json_cost(data)
    if cost > most:
        raise too_dear(cost, most)
    return cost


def too_long(size: int, most: int) -> TooLarge:
    """Return the sentence about a text of so many bytes that may take `most` bytes of memory."""
    return too_dear(size * _TEXT, most)


def too_dear(cost: float, most: int) -> TooLarge:
    """Return the sentence about something that takes more memory than it may."""
    return TooLarge(
        f"reading it would take some {size_in_words(cost)} of memory, and {size_in_words(most)} are allowed "
        "(ingest.memory_gib)"
    )


def read_json(data: bytes, most: int) -> Any:
    """Parse JSON, the numbers that JSON does not have (NaN, Infinity) included.

    Half a surrogate pair, which no table can hold, becomes U+FFFD.

    Args:
        data: UTF-8 text.
        most: Memory that it may take, in bytes.

    Raises:
        TooLarge: It would take more.
        ValueError: It is not JSON, or is nested too deeply; the message says which.
    """
    check_cost(data, most)
    return parse_json(data)


def parse_json(data: bytes) -> Any:
    """Parse a JSON text whose cost is known; otherwise as `read_json`."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if isinstance(error, RecursionError):
            raise ValueError("it is nested too deeply") from error
        try:
            return json.loads(whole_pairs(data).decode("utf-8-sig"))
        except RecursionError:
            raise ValueError("it is nested too deeply") from error
        except UnicodeDecodeError:
            raise ValueError(f"it is not UTF-8 text{other_encoding(data)}") from error
        except ValueError as reason:
            if "integer string conversion" in str(reason):
                raise ValueError("a number has more digits than can be read") from reason
            raise ValueError(str(error).partition(" (byte")[0]) from error


def read_embedded(text: str) -> Any:
    """Parse JSON that stands as text inside JSON, such as a tool call's arguments; its cost is known.

    Raises:
        ValueError: It is no JSON that can be handled; the text itself is then what there is.
    """
    value = parse_json(text.encode("utf-8", "replace"))
    if is_deep(value):
        raise ValueError("it is nested too deeply")
    return value


def whole_pairs(data: bytes) -> bytes:
    """Return a JSON text of the same length in which no half of a surrogate pair stands alone."""
    if b"\\u" not in data:
        return data
    return _HALVES.sub(lambda match: rb"\ufffd" if match.group(1) else match.group(0), data)


def other_encoding(data: bytes) -> str:
    """Return which encoding a text seems to have instead of UTF-8, to end a sentence; empty for none.

    >>> other_encoding('{"a": 1}'.encode("utf-16")), other_encoding(b"{}")
    (' but UTF-16; save it as UTF-8', '')
    """
    name = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "")
    if not name and data[1:2] == b"\0" and data[:1] in b'[{" \n':
        name = "UTF-32" if data[2:4] == b"\0\0" else "UTF-16"
    return f" but {name}; save it as UTF-8" if name else ""


def is_deep(value: Any, deepest: int = DEEPEST) -> bool:
    """Tell whether containers are nested deeper than can be handled everywhere.

    >>> is_deep([[[]]], 3), is_deep([[[]]], 2), is_deep({"a": 1})
    (False, True, False)
    """
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(deepest):
        if not level:
            return False
        level = [
            inner
            for one in level
            for inner in (one.values() if isinstance(one, dict) else one)
            if isinstance(inner, dict | list | tuple)
        ]
    return bool(level)
