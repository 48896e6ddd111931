"""What is already played: one folder of JSON lines, written trajectory by trajectory."""

from __future__ import annotations

import logging
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
from trace_assets.store.durable import make_folder, sync_folder
from trace_assets.store.lines import read_lines, sealed

SYNC_SECONDS = 1.0
"""How often what was appended is brought to the disk."""
_log = logging.getLogger(__name__)


class Journal:
    """Finished trajectories of an unfinished run.

    Every process writes a file of its own, so any number may share the folder. A process that is killed in
    the middle of a line leaves a torn last line, which is dropped on reading, as is one that was altered:
    that trial is played again. A power cut loses no more than the trials of the last second.

    Args:
        folder: Where the files lie; made when the first trajectory is appended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._file: IO[bytes] | None = None
        self._synced = 0.0

    def load(self) -> dict[str, Trajectory]:
        """Read all that is there, by trajectory id.

        Of two with one id the unfaulted one counts, then the later one.

        Raises:
            InputError: A line that is as it was written is not a trajectory of this version.
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
            make_folder(self.folder)
            path = self.folder / f"{time.time_ns():020d}-{os.getpid()}.jsonl"
            self._file = path.open("xb")
            sync_folder(self.folder)
        self._file.write(sealed(trajectory.model_dump_json(exclude_defaults=True)))
        self._file.flush()
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

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
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(path: Path) -> Iterator[Trajectory]:
    lines = read_lines(path)
    if lines.altered:
        numbers = ", ".join(map(str, lines.altered))
        _log.warning("%s: line %s was altered or cut short; its trial is played again", path, numbers)
    for number, text in lines.whole:
        try:
            yield Trajectory.model_validate_json(text)
        except ValidationError as error:
            raise InputError(
                f"{path}, line {number} is not a trajectory that this version can read "
                f"({error.errors()[0]['msg']}); delete the file to play its trials again."
            ) from error
