"""Members of a zip archive whose entries may be compressed with Zstandard.

Inspect writes its `.eval` logs so (zip method 93), which Python's zipfile reads from 3.14 on; pyarrow, which
is here anyway, has the codec. What an archive says of its members' sizes is not believed: a member is
unpacked piece by piece, and no further than it may go.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import pyarrow as pa

from trace_assets.untrusted.allowance import OF_MACHINE, Allowance, TooLarge, Unfolding, size_in_words

_ZSTANDARD = 93
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, _ZSTANDARD)
_LOCAL = struct.Struct("<4s22xHH")  # signature, then the lengths of name and extra field
_PIECE = 1 << 20
_LISTED = 16
"""Bytes of memory for each byte of the list of members."""
_BROKEN = (KeyError, zipfile.BadZipFile, EOFError, OSError, NotImplementedError, struct.error, RuntimeError)


class EvalZip:
    """A zip archive that is read member by member.

    Args:
        path: The archive.
        allowance: Memory that its list and a member may take.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a zip archive, or its list of members is too long.
    """

    def __init__(self, path: Path, allowance: Allowance = OF_MACHINE) -> None:
        self._stream = path.open("rb")
        self._largest = allowance.row // 4
        self._unfolding = Unfolding(path.stat().st_size)
        try:
            self._zip = zipfile.ZipFile(_Bounded(self._stream, allowance.kept // _LISTED))
        except (*_BROKEN, UnicodeDecodeError) as error:
            self._stream.close()
            raise ValueError(f"it is a broken zip archive ({error})") from error
        except ValueError:
            self._stream.close()
            raise

    def __enter__(self) -> EvalZip:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()
        self._stream.close()

    def names(self) -> list[str]:
        """Return the members' names, in the archive's order."""
        return self._zip.namelist()

    def read(self, name: str) -> bytes:
        """Return one member.

        Raises:
            UnfoldsTooFar: All that was unpacked so far has no proportion to the archive: no more may be read.
            TooLarge: It takes more memory than it may; others may be read.
            ValueError: It is missing or damaged.
        """
        try:
            info = self._zip.getinfo(name)
            if info.compress_type not in _METHODS:
                raise ValueError(f"'{name}' is compressed in a way that is not read")
            if max(info.file_size, info.compress_size) > self._largest:
                raise self._too_large(name, max(info.file_size, info.compress_size))
            parts, size = [], 0
            for part in self._zstandard(info) if info.compress_type == _ZSTANDARD else self._plain(info):
                size += len(part)
                self._unfolding.count(len(part))
                if size > info.file_size:  # which is not above the largest
                    break
                parts.append(part)
            if size != info.file_size:
                raise zipfile.BadZipFile("it is damaged")
            return b"".join(parts)
        except _BROKEN as error:
            raise ValueError(f"'{name}' cannot be read from the archive ({error})") from error

    def _too_large(self, name: str, size: int) -> TooLarge:
        return TooLarge(
            f"'{name}' unfolds to {size_in_words(size)} or more, and {size_in_words(self._largest)} are "
            "allowed (ingest.memory_gib)"
        )

    def _plain(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        with self._zip.open(info) as stream:
            while part := stream.read(_PIECE):
                yield part

    def _zstandard(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        self._stream.seek(info.header_offset)
        signature, name, extra = _LOCAL.unpack(self._stream.read(_LOCAL.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile("its entry is not where the list says")
        self._stream.seek(info.header_offset + _LOCAL.size + name + extra)
        packed = self._stream.read(info.compress_size)
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            while part := stream.read(_PIECE):
                yield part


class _Bounded:
    """A file of which no more is read at once than may be held: zipfile reads the list of members whole."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        self._stream, self._most = stream, most

    def read(self, size: int = -1) -> bytes:
        """Read, at most so many bytes."""
        if size > self._most:
            raise TooLarge(
                f"its list of members takes {size_in_words(size)}, and {size_in_words(self._most)} are "
                "allowed (ingest.memory_gib)"
            )
        return self._stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
