"""What is already played: one folder of JSON lines, written trajectory by trajectory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.records import Trajectory


class Journal:
    """Finished trajectories of an unfinished run.

    Every process writes a file of its own, so any number may share the folder. A process that is killed in
    the middle of a line leaves a torn last line, which is dropped on reading: that trial is played again.

    Args:
        folder: Where the files lie; made when the first trajectory is appended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._file: IO[str] | None = None

    def load(self) -> dict[str, Trajectory]:
        """Read all that is there, by trajectory id.

        Of two with one id the unfaulted one counts, then the later one.

        Raises:
            InputError: A line other than a torn last one is not a trajectory of this version.
        """
        found: dict[str, Trajectory] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for trajectory in _read(path):
                earlier = found.get(trajectory.trajectory_id)
                if earlier is None or trajectory.fault is None or earlier.fault is not None:
                    found[trajectory.trajectory_id] = trajectory
        return found

    def append(self, trajectory: Trajectory) -> None:
        """Add one trajectory; it is in the hands of the operating system when this returns."""
        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{time.time_ns():020d}-{os.getpid()}.jsonl"
            self._file = path.open("x", encoding="utf-8")
        self._file.write(trajectory.model_dump_json(exclude_defaults=True) + "\n")
        self._file.flush()

    def clear(self) -> None:
        """Forget everything: the run is complete and stored elsewhere."""
        self.close()
        for path in self.folder.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it was never made, or something else lies in it
            self.folder.rmdir()

    def close(self) -> None:
        """Close this process's file; a later append opens a new one."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(path: Path) -> Iterator[Trajectory]:
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            yield Trajectory.model_validate_json(line)
        except ValidationError as error:
            if number == len(lines):  # no newline behind it: the write was cut off
                return
            raise InputError(
                f"{path}, line {number} is not a trajectory that this version can read "
                f"({error.errors()[0]['msg']}); delete the file to play its trials again."
            ) from error
