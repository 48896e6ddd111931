"""A new run's file in Dagster's history, copied rather than made table by table.

Where the history is in SQLite, Dagster keeps the events of every run in a file of its own, and makes the
tables and indexes of each in thirty transactions, every one of them waited for until it is on the disk:
together they may take longer than the run.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
from sqlalchemy.exc import SQLAlchemyError

from trace_assets.store.files import replacing_file

_made: dict[type, bytes] = {}
"""Kind of storage to the file of a run without events, as this process has seen one made."""


def lay_run_file(instance: dg.DagsterInstance, run_id: str) -> None:
    """Lay the file of a run that begins now; Dagster makes a process's first one, which is kept to copy.

    Nothing is laid where the history is not in SQLite, or where the file cannot be written: Dagster then
    tries for itself, and what is wrong is said as it is everywhere.

    Args:
        instance: Whose history it is.
        run_id: Of a run that has no file yet.
    """
    storage: Any = instance.event_log_storage
    if not hasattr(storage, "path_for_shard"):
        return
    place = Path(storage.path_for_shard(run_id))
    with suppress(OSError, SQLAlchemyError):
        if (empty := _made.get(type(storage))) is not None:
            with replacing_file(place) as file:
                file.write_bytes(empty)
            return
        with storage.run_connection(run_id):
            pass
        # What is still in the file's log, for somebody else looks at it, would be missing from the copy.
        if not place.with_name(f"{place.name}-wal").exists():
            _made[type(storage)] = place.read_bytes()
