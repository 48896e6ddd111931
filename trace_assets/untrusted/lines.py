"""Lines of a text file, none of which is held when it is longer than it may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BOM = b"\xef\xbb\xbf"
"""How many programs on Windows begin a file of UTF-8."""
_SKIPPED = 1 << 20


class Line(NamedTuple):
    """One line.

    Attributes:
        number: From 1.
        data: Its bytes without what ends it; None when it is too long.
        size: How many bytes it has.
        ended: Whether something ended it; not so where the file breaks off.
    """

    number: int
    data: bytes | None
    size: int
    ended: bool


def read_lines(stream: BinaryIO, longest: int) -> Iterator[Line]:
    """Yield the lines of a file, a mark of its encoding left out.

    Args:
        stream: At the file's beginning.
        longest: Bytes of a line that may be held.
    """
    number = 0
    while True:
        data = stream.readline(longest + 1)
        if not data:
            return
        number += 1
        if number == 1:
            data = data.removeprefix(BOM)
        ended = data.endswith(b"\n")
        if ended or len(data) <= longest:
            yield Line(number, data.rstrip(b"\r\n"), len(data), ended)
            continue
        size = len(data)
        del data
        while part := stream.readline(_SKIPPED):
            size += len(part)
            ended = part.endswith(b"\n")
            if ended:
                break
        yield Line(number, None, size, ended)
