"""Connections to the SQLite files of Dagster's history, kept open for as long as a piece of work lasts.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

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
