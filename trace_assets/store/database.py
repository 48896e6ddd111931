"""Which database, if any, holds the leases of a home: the home itself says so, to all who work on it.

Were it left to each command's settings, two could take the same item, one by files and one by rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from trace_assets.errors import InputError
from trace_assets.store.files import Home, make_folder, sync_folder, write_text
from trace_assets.store.postgres import SCHEMA, Database, checked_url

FILE = "locks/database.json"


@dataclass(frozen=True)
class Carried:
    """What files or rows say, on its way to the other.

    Attributes:
        epochs: How often each item was begun.
        marks: (name of the mark, item, reason, run) of what is due, oldest first.
        usd: What the home's model calls have cost.
        calls: Their number.
    """

    epochs: dict[str, int]
    marks: list[tuple[str, str, str, str]]
    usd: float = 0.0
    calls: int = 0


_opened: dict[tuple[int, str, str], Database] = {}
"""By process, address and study: a forked child has no use for its parent's connections."""


def database_of(home: Path) -> Database | None:
    """Return the database that holds a home's leases; None where files do. Connects to nothing yet."""
    said = _said(home / FILE)
    if said is None:
        return None
    key = (os.getpid(), *said)
    if key not in _opened:
        _opened[key] = Database(*said)
    return _opened[key]


def database_around(file: Path) -> tuple[Database, str] | None:
    """Return the database of the home that a file lies in, or a folder of it, and the file's name there."""
    for home in (file.parent, file.parent.parent):
        if (database := database_of(home)) is not None:
            return database, file.relative_to(home).as_posix()
    return None


def _said(file: Path) -> tuple[str, str] | None:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return str(said["url"]), str(said["study"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file} does not say which database holds the leases of this home ({type(error).__name__}): put "
            'it back, as {"url": "postgresql://HOST:5432/NAME", "study": ID}, the id being that of the home '
            "in the table trace.study there."
        ) from error


def join(home: Home, url: str, carried: Callable[[], Carried]) -> None:
    """Have a database hold the leases of a home from now on, unless it does already.

    Args:
        home: The home. It knows its database from then on, also where no setting names it.
        url: Address of the database.
        carried: What the home's files say, asked for where they move now: nobody may be at work then.

    Raises:
        InputError: Another database holds them.
        Unavailable: The database does not answer.
    """
    known = _said(home.path / FILE)
    if known is not None and known[0] == url:
        return
    checked_url(url)
    if known is not None:
        there = Database(url, known[1])
        if not there.rows("SELECT to_regclass('trace.study')")[0][0] or not there.rows(
            "SELECT 1 FROM trace.study WHERE study = %s", known[1]
        ):
            raise InputError(
                f"the leases of {home.path} are in {known[0]}, not in {url}: mend [cluster] database, take "
                "the schema `trace` over with pg_dump, or end it with `trace cluster files`."
            )
        _note(home, url, known[1])
        return
    database = Database(url, uuid4().hex)
    _make(database, str(home.path), carried())
    _note(home, url, database.study)


def leave(home: Home, lay: Callable[[Carried], None]) -> None:
    """Have files hold the leases of a home again.

    Raises:
        InputError: No database holds them.
        Unavailable: The database does not answer.
    """
    database = database_of(home.path)
    if database is None:
        raise InputError(f"no database holds the leases of {home.path}.")
    found = dict(database.rows("SELECT item, epoch FROM trace.lease WHERE study = %s", database.study))
    marks = database.rows(
        "SELECT mark, item, reason, run FROM trace.mark WHERE study = %s ORDER BY laid", database.study
    )
    lay(Carried(found, [(str(a), str(b), str(c), str(d)) for a, b, c, d in marks]))
    (home.path / FILE).unlink()
    sync_folder((home.path / FILE).parent)
    database.rows("DELETE FROM trace.study WHERE study = %s", database.study)


def forget_database(home: Home) -> None:
    """Have files hold the leases of a home again whose database is gone for good, with what it knew.

    Raises:
        InputError: No database holds them.
    """
    try:
        (home.path / FILE).unlink()
    except FileNotFoundError:
        raise InputError(f"no database holds the leases of {home.path}.") from None
    sync_folder((home.path / FILE).parent)


def _make(database: Database, home: str, carried: Carried) -> None:
    study = database.study

    def make(connection: Any) -> None:
        # Two who come at once would both find no schema.
        connection.execute("SELECT pg_advisory_xact_lock(7234510021)")
        if not connection.execute("SELECT to_regclass('trace.reservation')").fetchone()[0]:
            connection.execute(SCHEMA)
        put = connection.cursor().executemany
        connection.execute("INSERT INTO trace.study VALUES (%s, %s) ON CONFLICT DO NOTHING", (study, home))
        connection.execute(
            "INSERT INTO trace.account VALUES (%s, %s::numeric, %s) ON CONFLICT DO NOTHING",
            (study, repr(carried.usd), carried.calls),
        )
        put(
            "INSERT INTO trace.lease (study, item, epoch) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            [(study, item, epoch) for item, epoch in carried.epochs.items()],
        )
        put(
            "INSERT INTO trace.mark (study, mark, item, reason, run) VALUES (%s, %s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING",
            [(study, *mark) for mark in carried.marks],
        )

    database.run(make)


def _note(home: Home, url: str, study: str) -> None:
    file = home.path / FILE
    make_folder(file.parent)
    write_text(file, json.dumps({"url": url, "study": study}) + "\n")
