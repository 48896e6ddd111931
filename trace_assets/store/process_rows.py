"""Processes at work on a home, as rows of a database that several machines share; by files: `presence`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_assets.store.postgres import Database, dead


@dataclass(frozen=True)
class Row:
    """A process that announced itself.

    Attributes:
        name: Under which it is known.
        said: What it said of itself.
        is_dead: Whether nobody holds its life any more.
    """

    name: str
    said: Mapping[str, Any]
    is_dead: bool


def enter(database: Database, name: str, said: Mapping[str, Any]) -> None:
    """Announce this process; it is there until it is struck out."""
    database.live()
    database.rows(
        "INSERT INTO trace.process (study, name, life, server, said) "
        "VALUES (%s, %s, %s, pg_postmaster_start_time(), %s::jsonb) ON CONFLICT DO NOTHING",
        database.study, name, database.life, json.dumps(dict(said)),
    )  # fmt: skip


def strike(database: Database, names: Sequence[str], *, patience: float | None = None) -> None:
    """Take note that processes are dead, or have ended."""
    database.rows(
        "DELETE FROM trace.process WHERE study = %s AND name = ANY(%s)",
        database.study,
        list(names),
        patience=patience,
    )


def processes(database: Database) -> list[Row]:
    """Return the processes that are noted there, and whether each is dead."""
    found = database.rows(
        f"SELECT name, said, {dead()} FROM trace.process WHERE study = %s ORDER BY name", database.study
    )
    return [Row(str(name), dict(said), bool(is_dead)) for name, said, is_dead in found]


def is_noted(database: Database, name: str) -> bool:
    """Whether a process is noted there, dead or not."""
    return bool(
        database.rows("SELECT 1 FROM trace.process WHERE study = %s AND name = %s", database.study, name)
    )
