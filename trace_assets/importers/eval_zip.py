"""Members of a zip archive whose entries may be compressed with Zstandard.

Inspect writes its `.eval` logs so (zip method 93), which Python's zipfile reads from 3.14 on; pyarrow, which
is here anyway, has the codec.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from types import TracebackType

import pyarrow as pa

_ZSTANDARD = 93
_LOCAL = struct.Struct("<4s22xHH")  # signature, then the lengths of name and extra field
_LARGEST = 1 << 31


class EvalZip:
    """A zip archive that is read member by member.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a zip archive.
    """

    def __init__(self, path: Path) -> None:
        self._stream = path.open("rb")
        try:
            self._zip = zipfile.ZipFile(self._stream)
        except (zipfile.BadZipFile, EOFError) as error:
            self._stream.close()
            raise ValueError(f"it is a broken zip archive ({error})") from error

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
            ValueError: It is missing, damaged, or larger than 2 GiB.
        """
        try:
            info = self._zip.getinfo(name)
            if info.file_size > _LARGEST:
                raise ValueError(f"'{name}' is larger than 2 GiB")
            return self._zip.read(info) if info.compress_type != _ZSTANDARD else self._unpack(info)
        except (KeyError, zipfile.BadZipFile, EOFError, OSError, NotImplementedError, struct.error) as error:
            raise ValueError(f"'{name}' cannot be read from the archive ({error})") from error

    def _unpack(self, info: zipfile.ZipInfo) -> bytes:
        self._stream.seek(info.header_offset)
        signature, name, extra = _LOCAL.unpack(self._stream.read(_LOCAL.size))
        if signature != b"PK\x03\x04":
            raise zipfile.BadZipFile("its entry is not where the list says")
        self._stream.seek(info.header_offset + _LOCAL.size + name + extra)
        packed = self._stream.read(info.compress_size)
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            data: bytes = stream.read(info.file_size + 1)
        if len(data) != info.file_size:
            raise zipfile.BadZipFile("it is damaged")
        return data
