"""Where the elements of one large JSON array begin and end, without parsing or holding the file.

A tau2 file is one object whose array `simulations` may be gigabytes long. Its elements are found by a guess
that the parser then proves: all elements begin alike (their first two keys), so every place that looks like
such a beginning is taken for one. A piece that starts at a true beginning and parses as one JSON value ends
at the true end, since no shorter or longer piece is balanced. Pieces that do not parse are settled by
`settle`, which parses on from the last true beginning; so a wrong guess costs time, never content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

WINDOW = 1 << 23
"""Bytes read at once."""
_REACH = 4096
"""Bytes behind a beginning that are looked at to confirm it."""
_STRING = rb'"(?:[^"\\]|\\.)*"'
_KEY = re.compile(rb"\{\s*(" + _STRING + rb")\s*:")
_SCALAR = rb"(?:" + _STRING + rb"|[-+.\deE]+|null|true|false)"
_DECODER = json.JSONDecoder()
_HEAD = 1 << 28
"""Bytes in which the array must have begun."""
_EXTEND = 16
"""Pieces that are joined at most to make one element whole."""


class Span(NamedTuple):
    """One piece of the file that should hold one element.

    Attributes:
        number: Place in the array, from 0.
        start: Offset of its first byte.
        end: Offset behind its last byte, separators included.
    """

    number: int
    start: int
    end: int


@dataclass(frozen=True)
class Array:
    """An array inside a file.

    Attributes:
        head: Everything before the array's first element, the opening bracket included.
        spans: The pieces, in the order of the file; the last one runs to the end of the file.
        ids: For each piece the value of the key `id` when that comes first, else None.
    """

    head: bytes
    spans: Sequence[Span]
    ids: Sequence[str | None]


class Settled(NamedTuple):
    """One element, or why there is none at this place.

    Attributes:
        span: Where it is.
        value: The parsed element; None when it cannot be parsed.
        reason: Why not; empty when it was parsed.
        broken_off: Whether the file ends inside it.
    """

    span: Span
    value: Any
    reason: str = ""
    broken_off: bool = False


def find_array(path: Path, key: str) -> Array | None:
    """Find the array behind a key of a file's outermost object.

    Args:
        path: A JSON file.
        key: The array's key.

    Returns:
        Its pieces, or None when the file has no such array in its outermost object.

    Raises:
        OSError: The file cannot be read.
    """
    pattern = re.compile(rb'"' + re.escape(key.encode()) + rb'"\s*:\s*\[')
    with path.open("rb", buffering=0) as stream:
        seen = b""
        while True:
            data = stream.read(WINDOW)
            if not data or len(seen) > _HEAD:
                return None
            begin, seen = max(0, len(seen) - 256), seen + data
            for match in pattern.finditer(seen, begin):
                if _outermost(seen[: match.end()]):
                    stream.seek(match.end())
                    return _pieces(stream, seen[: match.end()], match.end())


def _outermost(head: bytes) -> bool:
    try:
        json.loads(head + b"]}")
    except (ValueError, UnicodeDecodeError):
        return False
    return True


def _pieces(stream: Any, head: bytes, offset: int) -> Array:
    data = stream.read(WINDOW)
    begin = len(data) - len(data.lstrip())
    first = _KEY.match(data, begin)
    if first is None:
        size = stream.seek(0, 2)
        empty = data[begin : begin + 1] == b"]"
        return Array(head, () if empty else (Span(0, offset + begin, size),), () if empty else (None,))
    literal, confirm, named = _likeness(data, first)
    starts: list[int] = []
    ids: list[str | None] = []
    base = offset
    while True:
        ended = len(data) < WINDOW
        limit = len(data) if ended else len(data) - _REACH
        at = data.find(literal)
        while 0 <= at < limit:
            match = confirm.match(data, at)
            if match is not None:
                starts.append(base + at)
                value = match.group(1)
                plain = named and value[:1] == b'"' and b"\\" not in value
                ids.append(value[1:-1].decode("utf-8", "replace") if plain else None)
            at = data.find(literal, at + 1)
        if ended:
            break
        base += limit
        stream.seek(base)
        data = stream.read(WINDOW)
    size = stream.seek(0, 2)
    starts = starts or [offset + begin]
    spans = [Span(n, a, b) for n, (a, b) in enumerate(zip(starts, [*starts[1:], size], strict=True))]
    return Array(head, spans, ids or [None])


def _likeness(data: bytes, first: re.Match[bytes]) -> tuple[bytes, re.Pattern[bytes], bool]:
    """Return how elements begin: the exact bytes to look for, what confirms them, whether `id` is first."""
    key = re.escape(first.group(1))
    second = re.compile(rb"\s*(" + _SCALAR + rb")\s*,\s*(" + _STRING + rb")\s*:").match(data, first.end())
    behind = rb"\s*,\s*" + re.escape(second.group(2)) + rb"\s*:" if second else rb""
    confirm = re.compile(rb"\{\s*" + key + rb"\s*:\s*(" + (_SCALAR if second else rb"") + rb")" + behind)
    return first.group(0), confirm, first.group(1) == b'"id"'


def settle(path: Path, spans: Sequence[Span]) -> Iterator[Settled]:
    """Parse neighbouring pieces one by one, joining and splitting where the guess was wrong.

    Args:
        path: The file.
        spans: Pieces of it without gaps between them, in order; separators lie at their ends.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        index, position, count = 0, spans[0].start if spans else 0, 0
        while index < len(spans):
            settled, position = _one(stream, spans[index:], position, size)
            if settled is not None:
                # Counted, not taken from the piece: pieces may have been joined or split.
                number = spans[0].number + count
                yield settled._replace(span=settled.span._replace(number=number))
                count += 1
            if settled is None or settled.reason:
                index += 1
                position = spans[index].start if index < len(spans) else position
                continue
            while index < len(spans) and spans[index].end <= position:
                index += 1


def _one(stream: Any, spans: Sequence[Span], position: int, size: int) -> tuple[Settled | None, int]:
    """Parse one element at a position; return it and where it ended (None: nothing but separators)."""
    first, reason, end = spans[0], "", position
    for span in spans[:_EXTEND]:
        end = span.end
        stream.seek(position)
        data = stream.read(end - position)
        blank = len(data) - len(data.lstrip(b" \t\r\n,"))
        if data[blank : blank + 1] in (b"", b"]"):
            return None, end
        try:
            text = data[blank:].decode("utf-8")
            value, length = _DECODER.raw_decode(text)
        except UnicodeDecodeError:
            return Settled(first, None, "it is not UTF-8 text"), first.end
        except RecursionError:
            return Settled(first, None, "it is nested too deeply"), first.end
        except json.JSONDecodeError as error:
            reason = reason or error.msg
            continue
        start = position + blank
        after = start + len(text[:length].encode())
        return Settled(Span(first.number, start, after), value), after
    return Settled(first, None, reason, broken_off=end == size and len(spans) <= _EXTEND), first.end
