"""How much memory the reading of foreign files may take, and what of it each step may use."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from trace_assets.system.processes import memory_bytes

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SHARE = 4
"""The reading may take one part in so many of the machine's memory, unless a setting says otherwise."""
LEAST = 64 << 20
"""Bytes below which nothing useful can be read."""
RATIO = 1000
"""A file may unfold to so many times its own size: compressed text seldom exceeds 100."""
UNFOLDED = 64 << 20
"""Bytes to which a file may unfold however small it is."""


class TooLarge(ValueError):
    """What is to be read would take more memory than it may; the message says so in one sentence."""


class UnfoldsTooFar(TooLarge):
    """All that came out of a file so far has no proportion to it: no more of it is to be read."""


@dataclass(frozen=True)
class Allowance:
    """Bytes of memory that reading may take, beside what the program itself takes.

    The shares add up to less than the whole, as one file is read at a time: half for one row while it is
    parsed and made into tables, a quarter for what is remembered of all rows, an eighth for what waits to be
    written, and what a helper process unfolds.

    Attributes:
        total: Bytes in all.
    """

    total: int

    @classmethod
    def of_machine(cls, gibibytes: float = 0.0) -> Allowance:
        """Return what a setting says; 0 takes a quarter of the machine's or the container's memory."""
        return cls(max(LEAST, int(gibibytes * 2**30) if gibibytes else memory_bytes() // SHARE))

    @property
    def row(self) -> int:
        """For one row, from its text to its tables."""
        return self.total // 2

    @property
    def messages(self) -> int:
        """For the messages of many small rows that are made into tables together."""
        return self.total // 4

    @property
    def kept(self) -> int:
        """For what is remembered of all rows: their names, their tasks."""
        return self.total // 4

    @property
    def waiting(self) -> int:
        """For rows that wait to be written together."""
        return self.total // 32

    @property
    def unfolding(self) -> int:
        """For a process that unpacks a compressed file."""
        return self.total // 4


def size_in_words(n: float) -> str:
    """Return a number of bytes as people say it.

    >>> size_in_words(512), size_in_words(3_400_000), size_in_words(11.2e9)
    ('512 bytes', '3.4 MB', '11 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= unit:
            return f"{n / unit:.2g} {name}" if n < 10 * unit else f"{n / unit:,.0f} {name}"
    return f"{n:.0f} bytes"


class Unfolding:
    """Counts what a file unfolds to, and ends it where that has no proportion to the file.

    Args:
        size: Bytes of the file as it lies on disk.
    """

    def __init__(self, size: int) -> None:
        self._most = max(UNFOLDED, RATIO * size)
        self._size, self._seen = size, 0

    @property
    def left(self) -> int:
        """Bytes that may still come."""
        return max(0, self._most - self._seen)

    def count(self, n: int) -> None:
        """Count bytes that came out of it.

        Raises:
            UnfoldsTooFar: It is too many.
        """
        self._seen += n
        if self._seen > self._most:
            raise UnfoldsTooFar(
                f"the file of {size_in_words(self._size)} unfolds to more than {size_in_words(self._most)}"
            )


OF_MACHINE = Allowance.of_machine()
"""What reading may take where no setting says so."""


# Lines of a text file, none of which is held when it is longer than it may be.


BOM = b"\xef\xbb\xbf"
"""How many programs on Windows begin a file of UTF-8."""
_SKIPPED = 1 << 20


class _Returns(io.FileIO):
    """A file whose lines end with a carriage return alone, read as if they ended as everybody else's do.

    A byte stands for a byte, so every position in it is the file's own.
    """

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer."""
        size = super().readinto(buffer) or 0
        view = memoryview(buffer).cast("B")[:size]
        view[:] = bytes(view).replace(b"\r", b"\n")
        return size

    def readall(self) -> bytes:
        """Read all that is left."""
        return super().readall().replace(b"\r", b"\n")


def open_lines(path: Path) -> BinaryIO:
    """Open a file of JSON to read its lines, however they end.

    A carriage return is white space in JSON and never stands in one of its texts, so what the first line ends
    with is what all do.

    Raises:
        OSError: The file cannot be opened.
    """
    with path.open("rb") as stream:
        while part := stream.read(_SKIPPED):
            ends = [place for mark in (b"\r", b"\n") if (place := part.find(mark)) >= 0]
            if ends:
                after = part[min(ends) :][:2]
                after += stream.read(1) if len(after) == 1 else b""
                if after[:1] == b"\r" and after[1:] != b"\n":
                    return io.BufferedReader(_Returns(path))
                break
    return path.open("rb")


def with_line_ends(head: bytes) -> bytes:
    r"""Return how a file begins as `open_lines` gives it.

    >>> with_line_ends(b'{"a": 1}\r{"a": 2}\r'), with_line_ends(b'{"a": 1}\r\n')
    (b'{"a": 1}\n{"a": 2}\n', b'{"a": 1}\r\n')
    """
    return head if b"\n" in head or head.lstrip()[:1] not in (b"{", b"[") else head.replace(b"\r", b"\n")


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
