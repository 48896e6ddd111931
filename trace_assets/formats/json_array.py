"""Where the elements of one large JSON array begin and end, without parsing or holding the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from trace_assets.untrusted.allowance import OF_MACHINE, Allowance, TooLarge
from trace_assets.untrusted.json_text import check_cost, longest, too_long, whole_pairs

WINDOW = 1 << 23
"""Bytes read at once."""
_REACH = 4096
"""Bytes behind a beginning that are looked at to confirm it."""
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(_STRING + rb'|["\[\]{}]', re.S)
"""Strings and brackets; a quotation mark alone begins a string whose end is not seen yet."""
_BRACKET = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_OPENS = re.compile(rb"\s*+:\s*+\[")
_KEY = re.compile(rb"\{\s*(" + _STRING + rb")\s*:")
_SCALAR = rb"(?:" + _STRING + rb"|[-+.\deE]+|null|true|false)"
_DECODER = json.JSONDecoder()
_HEAD = 1 << 28
"""Bytes in which the array must have begun."""
_EXTEND = 16
"""Pieces that are joined at most to make one element whole."""
_LONGEST_ID = 1000
"""Bytes of an id that is read beforehand; of elements with longer ones the parser tells."""
_PIECE = 1600
"""Bytes of memory that it takes to remember a piece and its id."""
_FIRST_LOOK = 1 << 12
"""Bytes of a piece that are parsed at first: a piece may hold a million elements behind the one at its
beginning, and what they cost is not to be put down to that one."""


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
        whole: Whether all elements are here: there may be more than can be remembered.
    """

    head: bytes
    spans: Sequence[Span]
    ids: Sequence[str | None]
    whole: bool = True


class Settled(NamedTuple):
    """One element, or why there is none at this place.

    Attributes:
        span: Where it is.
        value: The parsed element; None when it cannot be parsed.
        reason: Why not; empty when it was parsed.
        broken_off: Whether the file ends inside it.
        large: Whether it is only too large.
    """

    span: Span
    value: Any
    reason: str = ""
    broken_off: bool = False
    large: bool = False


def find_array(path: Path, key: str, allowance: Allowance = OF_MACHINE) -> Array | None:
    """Find the array behind a key of a file's outermost object.

    Args:
        path: A JSON file.
        key: The array's key.
        allowance: Memory that this may take.

    Returns:
        Its pieces, or None when the file has no such array in its outermost object, or too far behind.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb", buffering=0) as stream:
        head = _head(stream, b'"' + key.encode() + b'"', min(_HEAD, longest(allowance.row)))
        if head is None:
            return None
        stream.seek(len(head))
        return _pieces(stream, head, len(head), allowance.kept // _PIECE)


def find_elements(path: Path, allowance: Allowance = OF_MACHINE) -> Array | None:
    """Find the elements of a file that is one array; None when it is none.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb", buffering=0) as stream:
        begins = _BRACKET.match(stream.read(WINDOW))
        if begins is None:
            return None
        stream.seek(begins.end())
        return _pieces(stream, begins.group(), begins.end(), allowance.kept // _PIECE)


def _head(stream: BinaryIO, key: bytes, most: int) -> bytes | None:
    """Return what a file holds up to the opening bracket of its array; None when that does not come."""
    seen, depth, at = b"", 0, 0
    while True:
        # Twice as much each time: a string that no window ends in is not looked through again and again.
        data = stream.read(max(WINDOW, len(seen)))
        seen += data
        for token in _TOKEN.finditer(seen, at):
            text = token.group()
            if text in b"[{":
                depth += 1
            elif text in b"]}":
                depth -= 1
            elif depth == 1 and text == key:
                opens = _OPENS.match(seen, token.end())
                if opens is not None:
                    return seen[: opens.end()]
                if data and len(seen) - token.end() < _REACH:
                    break  # the bracket may come with what is read next
            elif text == b'"':
                break
            at = token.end()
        if not data or len(seen) > most:
            return None


def _pieces(stream: BinaryIO, head: bytes, offset: int, most: int) -> Array:
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
        while 0 <= at < limit and len(starts) <= most:
            match = confirm.match(data, at)
            if match is not None:
                starts.append(base + at)
                value = match.group(1)
                plain = named and value[:1] == b'"' and b"\\" not in value and len(value) <= _LONGEST_ID
                ids.append(value[1:-1].decode("utf-8", "replace") if plain else None)
            at = data.find(literal, at + 1)
        if ended or len(starts) > most:
            break
        base += limit
        stream.seek(base)
        data = stream.read(WINDOW)
    size = stream.seek(0, 2)
    starts = starts or [offset + begin]
    whole = len(starts) <= most
    starts, ids, size = (starts, ids, size) if whole else (starts[:most], ids[:most], starts[most])
    spans = [Span(n, a, b) for n, (a, b) in enumerate(zip(starts, [*starts[1:], size], strict=True))]
    return Array(head, spans, ids or [None], whole)


def _likeness(data: bytes, first: re.Match[bytes]) -> tuple[bytes, re.Pattern[bytes], bool]:
    """Return how elements begin: the exact bytes to look for, what confirms them, whether `id` is first."""
    key = re.escape(first.group(1))
    second = re.compile(rb"\s*(" + _SCALAR + rb")\s*,\s*(" + _STRING + rb")\s*:").match(data, first.end())
    behind = rb"\s*,\s*" + re.escape(second.group(2)) + rb"\s*:" if second else rb""
    confirm = re.compile(rb"\{\s*" + key + rb"\s*:\s*(" + (_SCALAR if second else rb"") + rb")" + behind)
    return first.group(0), confirm, first.group(1) == b'"id"'


def settle(path: Path, spans: Sequence[Span], allowance: Allowance = OF_MACHINE) -> Iterator[Settled]:
    """Parse neighbouring pieces one by one, joining and splitting where the guess was wrong.

    Args:
        path: The file.
        spans: Pieces of it without gaps between them, in order; separators lie at their ends.
        allowance: Memory that an element may take; one that takes more is told of like a damaged one.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        index, position, count = 0, spans[0].start if spans else 0, 0
        while index < len(spans):
            settled, position = _one(stream, spans[index : index + _EXTEND], position, size, allowance.row)
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


def _one(
    stream: BinaryIO, spans: Sequence[Span], position: int, size: int, most: int
) -> tuple[Settled | None, int]:
    """Parse one element at a position; return it and where it ended (None: nothing but separators)."""
    first, reason, end = spans[0], "", position
    for count in (1, 2, 4, 8, _EXTEND):
        if count // 2 >= len(spans):
            break
        end = spans[min(count, len(spans)) - 1].end
        looked = 0
        while looked < end - position:
            looked = min(end - position, max(_FIRST_LOOK, 4 * looked))
            if looked > longest(most):
                said = reason or str(too_long(looked, most))
                return Settled(first, None, said, large=not reason), first.end
            stream.seek(position)
            data = stream.read(looked)
            blank = len(data) - len(data.lstrip(b" \t\r\n,"))
            if data[blank : blank + 1] in (b"", b"]"):
                return None, end
            try:
                check_cost(data, most)
                text = _text(whole_pairs(data[blank:]), looked < end - position)
                value, length = _DECODER.raw_decode(text)
            except UnicodeDecodeError:
                return Settled(first, None, "it is not UTF-8 text"), first.end
            except RecursionError:
                return Settled(first, None, "it is nested too deeply"), first.end
            except TooLarge as error:
                return Settled(first, None, reason or str(error), large=not reason), first.end
            except json.JSONDecodeError as error:
                said = error.msg
                continue
            except ValueError:  # Python reads no longer number
                return Settled(first, None, "a number has more digits than can be read"), first.end
            start = position + blank
            after = start + len(text[:length].encode())
            return Settled(Span(first.number, start, after), value), after
        reason = reason or said
    return Settled(first, None, reason, broken_off=end == size), first.end


def _text(data: bytes, cut: bool) -> str:
    """Return bytes as text; where they were cut anywhere, without the character that was cut."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(data) - 4:
            raise
        return data[: error.start].decode("utf-8")
