"""Leases, due marks and processes at work as rows of a database that machines share.

The epoch of an item is compared in the transaction in which something is put in place: its row stays locked
until that has happened, so nobody can begin the item between the comparison and the rename.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from trace_assets.errors import Unavailable
from trace_assets.store.postgres import Database, dead

LOOK_SECONDS = 0.2
"""Between two looks at whether another has let go."""


@dataclass(frozen=True)
class Taken:
    """One beginning of an item.

    Attributes:
        item: Its name.
        epoch: How often the item had been begun with this one.
        token: What its row holds as long as this is the last beginning.
    """

    item: str
    epoch: int
    token: str


def take(
    database: Database, item: str, holder: dict[str, Any], *, whoever_holds: bool = False
) -> Taken | dict[str, Any]:
    """Begin an item; whoever began it before can put nothing in place from then on.

    Args:
        database: Where its row is.
        item: Its name.
        holder: Who takes it, for those who wait; `name` is that of a process that announced itself.
        whoever_holds: Also where another holds it and lives; it is held by nobody then.

    Returns:
        The beginning; or who holds it.
    """
    database.live()
    token = uuid4().hex

    def begin(connection: Any) -> Taken | dict[str, Any]:
        key = (database.study, item)
        connection.execute(
            "INSERT INTO trace.lease (study, item) VALUES (%s, %s) ON CONFLICT DO NOTHING", key
        )
        row = connection.execute(
            f"SELECT epoch, token, life = 0 OR ({dead()}) OR {_STRUCK_OUT}, holder "
            "FROM trace.lease WHERE study = %s AND item = %s FOR UPDATE",
            key,
        ).fetchone()
        if row[1] == token:
            return Taken(item, row[0], token)
        if not row[2] and not whoever_holds:
            return dict(row[3] or {})
        connection.execute(
            "UPDATE trace.lease SET epoch = epoch + 1, token = %s, life = %s, holder = %s::jsonb, "
            "server = pg_postmaster_start_time() WHERE study = %s AND item = %s",
            (token, 0 if whoever_holds else database.life, json.dumps(holder), *key),
        )
        return Taken(item, row[0] + 1, token)

    return database.run(begin)


_STRUCK_OUT = (
    "(coalesce(holder->>'name', '') <> '' AND NOT EXISTS (SELECT FROM trace.process p "
    "WHERE p.study = lease.study AND p.name = holder->>'name'))"
)


@contextmanager
def held(
    database: Database,
    item: str,
    holder: Callable[[], dict[str, Any]],
    waiting: Callable[[dict[str, Any]], None],
    patience: float | None,
) -> Iterator[Taken]:
    """Hold an item while the body runs; wait for it as long as a living process does.

    Args:
        database: Where its row is.
        item: Its name.
        holder: Says who takes it, asked before each attempt.
        waiting: Told once who is in the way.
        patience: Seconds to wait at most; None waits as long as it takes.

    Raises:
        TimeoutError: It was not to be had in that time.
    """
    give_up = float("inf") if patience is None else time.monotonic() + patience
    told = False
    while isinstance(found := take(database, item, holder()), dict):
        if not told:
            waiting(found)
            told = True
        if time.monotonic() > give_up:
            who = "{what}, process {pid} on {host} since {since}".format(**found) if found else "another"
            raise TimeoutError(f"{item} was held for more than {patience:g} s by {who}")
        time.sleep(LOOK_SECONDS)
    try:
        yield found
    finally:
        _let_go(database, found)


def _let_go(database: Database, taken: Taken) -> None:
    def let_go(connection: Any) -> None:
        connection.execute(
            "UPDATE trace.lease SET life = 0, holder = NULL WHERE study = %s AND item = %s AND token = %s",
            (database.study, taken.item, taken.token),
        )

    try:
        database.run(let_go, patience=0.0)
    except Unavailable:  # nothing hangs on it: what was put in place is in place
        database.owe(let_go)


def is_taken(database: Database, item: str) -> bool:
    """Whether a living process holds an item."""
    return item in taken_items(database)


def taken_items(database: Database) -> set[str]:
    """Return the items that living processes hold."""
    found = database.rows(
        f"SELECT item FROM trace.lease WHERE study = %s AND life <> 0 "
        f"AND NOT ({dead()}) AND NOT {_STRUCK_OUT}",
        database.study,
    )
    return {str(item) for (item,) in found}


def holder_of(database: Database, item: str) -> dict[str, Any] | None:
    """Return who holds an item, or held it last and never let go; None when nobody does."""
    found = database.rows(
        "SELECT holder FROM trace.lease WHERE study = %s AND item = %s", database.study, item
    )
    return dict(found[0][0]) if found and found[0][0] else None


def epoch_of(database: Database, item: str) -> int:
    """Return how often an item was begun."""
    found = database.rows(
        "SELECT epoch FROM trace.lease WHERE study = %s AND item = %s", database.study, item
    )
    return int(found[0][0]) if found else 0


@dataclass(frozen=True)
class Lost:
    """What a process holds no more.

    Attributes:
        taken: The beginning that was followed by another; None where the process was taken for dead.
        epoch: How often the item was begun by now.
    """

    taken: Taken | None
    epoch: int = 0


def first_lost(connection: Any, study: str, mine: Sequence[Taken], name: str) -> Lost | None:
    """Return what of a process's own is lost, and keep the rest from being lost in this transaction.

    Args:
        connection: In the transaction.
        study: The study.
        mine: What the process has begun.
        name: Under which it announced itself; empty where it did not.
    """
    for one in sorted(mine, key=lambda taken: taken.item):
        row = connection.execute(
            "SELECT token, epoch FROM trace.lease WHERE study = %s AND item = %s FOR SHARE", (study, one.item)
        ).fetchone()
        if row is None or row[0] != one.token:
            return Lost(one, row[1] if row else 0)
    if name:
        alive = connection.execute(
            "SELECT 1 FROM trace.process WHERE study = %s AND name = %s FOR KEY SHARE", (study, name)
        ).fetchone()
        if alive is None:
            return Lost(None)
    return None


# Due marks: they outlive whoever lays them.


def lay_mark(database: Database, mark: str, item: str, reason: str, run: str) -> None:
    """Say that an item has to be made again."""
    database.rows(
        "INSERT INTO trace.mark (study, mark, item, reason, run) VALUES (%s, %s, %s, %s, %s) "
        "ON CONFLICT (study, mark) DO UPDATE SET reason = excluded.reason",
        database.study, mark, item, reason, run,
    )  # fmt: skip


@dataclass(frozen=True)
class Mark:
    """That an item is due.

    Attributes:
        mark: Its own name.
        item: The item's.
        reason: Why.
        run: Of the run that laid it, where one did.
        laid: Grows with each.
    """

    mark: str
    item: str
    reason: str
    run: str
    laid: int


def marks(database: Database) -> list[Mark]:
    """Return the marks that lie there, in the order in which they were laid."""
    found = database.rows(
        "SELECT mark, item, reason, run, laid FROM trace.mark WHERE study = %s ORDER BY laid", database.study
    )
    return [Mark(*row) for row in found]


def drop_marks(database: Database, names: Sequence[str]) -> None:
    """Remove marks; those that are gone already are no matter."""
    database.rows("DELETE FROM trace.mark WHERE study = %s AND mark = ANY(%s)", database.study, list(names))


def settle(database: Database, taken: Taken, names: Sequence[str]) -> Lost | None:
    """Remove marks where a beginning is still the last, in one transaction; else say what was lost."""

    def drop(connection: Any) -> Lost | None:
        lost = first_lost(connection, database.study, [taken], "")
        if lost is None:
            connection.execute(
                "DELETE FROM trace.mark WHERE study = %s AND mark = ANY(%s)", (database.study, list(names))
            )
        return lost

    return database.run(drop)


@dataclass(frozen=True)
class ProcessRow:
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


def processes(database: Database) -> list[ProcessRow]:
    """Return the processes that are noted there, and whether each is dead."""
    found = database.rows(
        f"SELECT name, said, {dead()} FROM trace.process WHERE study = %s ORDER BY name", database.study
    )
    return [ProcessRow(str(name), dict(said), bool(is_dead)) for name, said, is_dead in found]


def is_noted(database: Database, name: str) -> bool:
    """Whether a process is noted there, dead or not."""
    return bool(
        database.rows("SELECT 1 FROM trace.process WHERE study = %s AND name = %s", database.study, name)
    )
