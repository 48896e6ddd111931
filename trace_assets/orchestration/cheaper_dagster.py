"""Dagster made cheaper: its files stay open, a run takes a part of one job, threads follow its output.

Connections to the SQLite files of its history are kept open for as long as a piece of work lasts.

Dagster opens a file anew for each row that it reads or writes, and compiles its statements anew too. Whoever
closes a file last also moves what was committed out of its log, which waits for the disk four times: most of
what it takes to record an event. A commit waits for the disk here as it does there.

This reaches into Dagster, for speed alone: a Dagster that is built otherwise opens its files as it does.

Meanwhile nothing else in this process may open the files themselves: whoever closes a file that SQLite has
open in the same process takes its locks from it, and others then write as if nobody had it open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

import dagster as dg
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine
from sqlalchemy.pool import QueuePool

_STORAGES = (
    "dagster._core.storage.event_log.sqlite.sqlite_event_log",
    "dagster._core.storage.runs.sqlite.sqlite_run_storage",
)
"""Modules that ask for an engine by the name `create_engine`; private, so looked up and not relied on."""
BUSY_SECONDS = 30
"""How long a statement waits for another process that writes: as long as Dagster's wait."""


class _Kept:
    """The engines of a process, by address.

    Attributes:
        users: How many pieces of work are under way that want them kept.
        engines: What they have opened; between them none of it has a connection.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0
        self.engines: dict[str, Engine] = {}
        self.make: Callable[..., Engine] = create_engine

    def open(self, address: str, **options: Any) -> Engine:
        """Return the engine of an address; where nobody wants it kept, one as Dagster makes it."""
        with self.lock:
            if not self.users:
                return self.make(address, **options)
            if address not in self.engines:
                # A further thread that asks meanwhile has a connection of its own, which is closed after it.
                pooled = {
                    "poolclass": QueuePool,
                    "pool_size": 1,
                    "max_overflow": -1,
                    "connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False},
                }
                engine = self.make(address, **{**options, **pooled})
                engine.dispose = _not_yet  # type: ignore[method-assign]  # Dagster does after each event
                self.engines[address] = engine
            return self.engines[address]

    def close(self) -> None:
        """Close all connections; what the engines know of statements is kept for the next piece of work."""
        with self.lock:
            for engine in self.engines.values():
                Engine.dispose(engine)

    def drop(self, address: str) -> None:
        """Close the connections of an address that is not asked for again."""
        with self.lock:
            engine = self.engines.pop(address, None)
        if engine is not None:
            Engine.dispose(engine)

    def forget(self) -> None:
        """Let go, in a child, of what is the parent's: to close it here would be to meddle with its files."""
        self.lock, self.users = threading.RLock(), 0
        while self.engines:
            Engine.dispose(self.engines.popitem()[1], close=False)


def _not_yet(close: bool = True) -> None:
    """Leave an engine as it is: it is closed with the work that it was opened for."""


_kept = _Kept()
os.register_at_fork(after_in_child=_kept.forget)


@contextmanager
def kept_connections() -> Iterator[None]:
    """Keep what Dagster opens in the body open until it ends, or until the outermost such body does.

    In the body a home's history is neither made, copied nor sent: these read the files.
    """
    for name in _STORAGES:
        with suppress(ImportError):
            storage = vars(import_module(name))
            if storage.get("create_engine") is create_engine:
                storage["create_engine"] = _kept.open
    with _kept.lock:
        _kept.users += 1
    try:
        yield
    finally:
        with _kept.lock:
            _kept.users -= 1
            if not _kept.users:
                _kept.close()


def close_run(storage: Any, run_id: str) -> None:
    """Close the file of a run's events: nothing more is written into it.

    Args:
        storage: Dagster's event log; of one that is not in SQLite nothing is closed.
        run_id: The run.
    """
    with suppress(AttributeError):
        _kept.drop(storage.conn_string_for_shard(run_id))


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


# Dagster has two `tail` follow the files of a step's output, and two Pythons look whether these were
# orphaned: four processes a run, which take as long as most items. Here a thread follows each file; it
# ends with its process. A Dagster that is built otherwise follows them as it does.

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
