"""Dagster's runs made cheaper: one job of which each run takes a part, and threads that follow its output."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

import dagster as dg


def asset_job(definitions: dg.Definitions) -> dg.JobDefinition:
    """Return the job of all assets of some definitions, to be executed in this process.

    It is resolved once for the definitions; `dg.materialize` would resolve everything for each run. For each
    run Dagster then makes a job of the assets that it takes, twice, and describes both and the whole for its
    history: as much work as most items are. Here the next run of the same assets finds them made.
    """
    job: Any = definitions.resolve_implicit_global_asset_job_def()
    if hasattr(job, "as_ephemeral_job") and "as_ephemeral_job" not in vars(job):
        job.as_ephemeral_job = _Parts(job)
    return cast(dg.JobDefinition, job)


class _Parts:
    """The parts of a job, by the assets that they make."""

    def __init__(self, job: Any) -> None:
        self._whole = type(job).as_ephemeral_job(job, {}, {})
        self._made: dict[frozenset[dg.AssetKey], Any] = {}

    def __call__(
        self,
        resource_defs: Mapping[str, Any],
        input_values: Mapping[str, object],
        op_selection: Sequence[str] | None = None,
        asset_selection: Sequence[dg.AssetKey] | None = None,
    ) -> Any:
        """Return the part that makes some assets; the arguments are those of Dagster's method."""
        if resource_defs or input_values or op_selection or not asset_selection:
            raise TypeError("a run of this job takes assets, and nothing else that would be kept with it")
        chosen = frozenset(asset_selection)
        if chosen not in self._made:
            part = self._whole.get_subset(asset_selection=chosen)
            again = part.get_subset(asset_selection=chosen)  # what Dagster records is a part of the part
            part.get_subset = lambda **_: again
            self._made[chosen] = part
        return self._made[chosen]


COMPUTE_LOGS = "dagster._core.execution.compute_logs"
"""Where Dagster's own way is, by the name `tail_to_stream`; private, so looked up and not relied on."""
POLL_SECONDS = 0.2
CHUNK = 1 << 16


def show_by_threads() -> None:
    """Have the output of this process's runs shown by threads."""
    with suppress(ImportError):
        names = vars(import_module(COMPUTE_LOGS))
        if "tail_to_stream" in names:
            names["tail_to_stream"] = shown


@contextmanager
def shown(path: str, stream: IO[str]) -> Iterator[tuple[int | None, int | None]]:
    """Write on to a stream what comes into a file, until the body ends.

    Args:
        path: The file.
        stream: Where what the body writes is led into the file; one without a descriptor is left alone.

    Yields:
        What Dagster's own would, the ids of its two processes: here there is none.
    """
    try:
        place = os.dup(stream.fileno())
    except (AttributeError, OSError, ValueError):  # of a test, or closed
        yield None, None
        return
    over = threading.Event()
    thread = threading.Thread(target=_follow, args=(path, place, over), name="step output", daemon=True)
    thread.start()
    try:
        yield None, None
    finally:
        over.set()
        thread.join()
        os.close(place)


def _follow(path: str, place: int, over: threading.Event) -> None:
    with suppress(OSError), Path(path).open("rb") as file:  # whoever read the output has seen enough
        while True:
            last = over.is_set()
            while chunk := file.read(CHUNK):
                while chunk:
                    chunk = chunk[os.write(place, chunk) :]
            if last:
                return
            over.wait(POLL_SECONDS)
