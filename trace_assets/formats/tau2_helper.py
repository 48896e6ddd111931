"""A second process that converts chunks of a tau2 file beside the one that writes the tables.

It is a program of its own (`python -m trace_assets.formats.tau2_helper`), not a child of `multiprocessing`:
that would first import the program it is started from, which takes longer than reading 100 MB. What is large
comes back as a file: through a pipe the receiver would have to take the interpreter's lock for every 64 kB.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import pyarrow as pa

from trace_assets.formats.json_array import Span
from trace_assets.formats.tau2_columns import Converted, convert
from trace_assets.formats.tau2_file import Tau2File
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance

GIVEN = 4
"""Chunks that are given to the other process at once: it has work also while a row group is written here."""


class Helper:
    """The other process; it is started at once and takes chunks when it has come up.

    When it ends before its time, for whatever reason, `lost` holds what it was given and never returned.
    """

    def __init__(self) -> None:
        self.given: dict[int, Sequence[Span]] = {}
        self.lost: dict[int, Sequence[Span]] = {}
        self._ready = False
        self._folder = TemporaryDirectory(prefix="trace-import-")
        self._wire, theirs = Pipe()
        command = [sys.executable, "-P", "-m", __spec__.name, str(theirs.fileno()), self._folder.name]
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
        )
        theirs.close()

    def __enter__(self) -> Helper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._wire.close()
        self._folder.cleanup()

    def open(self, file: Tau2File, allowance: Allowance = OF_MACHINE) -> None:
        """Tell which file the chunks are of, and what memory there is; once, before the first of them."""
        self._send((file, allowance))

    @property
    def free(self) -> bool:
        """Whether it has come up and may be given a chunk."""
        return self._ready and len(self.given) < GIVEN

    def give(self, number: int, chunk: Sequence[Span]) -> None:
        """Give it a chunk to convert."""
        self.given[number] = chunk
        self._send((number, chunk))

    def take(self, wait: bool = False) -> dict[int, Converted]:
        """Return what it has converted, by number; wait for the first when told to and something is due."""
        found: dict[int, Converted] = {}
        try:
            while self._wire.poll(None if wait and self.given and not found else 0):
                answer = self._wire.recv()
                if answer is None:
                    self._ready = True
                    continue
                number, converted = answer
                found[number] = _with_tables(converted, Path(self._folder.name), number)
                del self.given[number]
        except (EOFError, OSError):
            self._gone()
        return found

    def _send(self, what: object) -> None:
        try:
            self._wire.send(what)
        except OSError:
            self._gone()

    def _gone(self) -> None:
        self._ready = False
        self.lost.update(self.given)
        self.given.clear()


def _with_tables(converted: Converted, folder: Path, number: int) -> Converted:
    """Return what came without its tables with them, as they lie in files, which are unlinked.

    A table stays mapped as long as it is held. Each has a file of its own, or the few rows of `trajectories`
    would hold the messages beside them until there are enough for a row group.
    """
    if converted.part is None:
        return converted
    tables = {}
    for name in converted.part.sums:
        path = _file(folder, number, name)
        with pa.memory_map(str(path)) as source:
            tables[name] = pa.ipc.open_stream(source).read_all()
        path.unlink()
    return replace(converted, part=replace(converted.part, tables=tables))


def _write(tables: Mapping[str, pa.Table], folder: Path, number: int) -> None:
    for name, table in tables.items():
        path = str(_file(folder, number, name))
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)


def _file(folder: Path, number: int, table: str) -> Path:
    return folder / f"{number}-{table}.arrow"


def main() -> None:
    """Convert what the other process sends until it hangs up."""
    wire, folder = Connection(int(sys.argv[1])), Path(sys.argv[2])
    gc.disable()  # parsed messages hold no cycles, and looking for them takes a tenth of the time
    wire.send(None)
    try:
        file, allowance = wire.recv()
        while True:
            number, chunk = wire.recv()
            converted = convert(file, chunk, allowance)
            if converted.part is not None:
                _write(converted.part.tables, folder, number)
                converted = replace(converted, part=replace(converted.part, tables={}))
            wire.send((number, converted))
    except (EOFError, OSError):
        shutil.rmtree(folder, ignore_errors=True)  # the other process may be dead: nobody else would


if __name__ == "__main__":
    main()
