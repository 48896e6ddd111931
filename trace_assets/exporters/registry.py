"""Which forms trajectories can be written in, and the one door to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.exporters.atif import write_atif
from trace_assets.exporters.huggingface import write_huggingface
from trace_assets.exporters.scout import write_scout
from trace_assets.exporters.selection import Selection
from trace_assets.records import Trajectory
from trace_assets.store import Store
from trace_assets.store.home import replacing_file

Exporter = Callable[[Path, Iterable[Trajectory]], tuple[int, int]]
"""Writes trajectories to a file; returns how many it wrote and how many it had to leave out."""

EXPORTERS: Mapping[str, Exporter] = {
    "atif": write_atif,
    "huggingface": write_huggingface,
    "scout": write_scout,
}


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: The file.
        written: Trajectories in it.
        left_out: Trajectories that the form cannot hold (ATIF: those without a message).
    """

    path: Path
    written: int
    left_out: int


def export(store: Store, path: Path, format: str, selection: Selection) -> Exported:
    """Write chosen trajectories to a file, which is put in place when it is whole.

    Raises:
        InputError: The format is not known, nothing fits the selection, or the file cannot be written.
    """
    if format not in EXPORTERS:
        raise InputError(f"there is no format '{format}' to write; choose one of {', '.join(EXPORTERS)}.")
    try:
        with replacing_file(path) as partial:
            written, left = EXPORTERS[format](partial, selection.trajectories(store))
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); choose another place.") from error
    return Exported(path, written, left)
