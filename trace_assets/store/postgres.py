"""A Postgres that several machines share: connections, what becomes of them when it is away, who is alive.

Each process that works with one holds a lock of its own there, its life, for as long as it is connected:
when it ends, however it ends, or its machine is gone, the server frees the lock, and everybody can tell. Who
was taken for dead and was not only loses work: what is put in place hangs on epochs (`store.shared_rows`),
not on this.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from trace_assets.errors import InputError, Unavailable, require_extra

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

AWAY_SECONDS = 600.0
"""How long one waits for a database that was there before and is away: it may be started again."""
FIRST_SECONDS = 30.0
"""How long one waits for a database that this process has not reached yet."""
BUSY_SECONDS = 10
"""How long a statement waits for a row that another holds, before it is tried again."""
STUCK_SECONDS = 30
"""The server lets go what a process has begun and not finished in that time: it was stopped, or cut off."""
RESTART_SECONDS = 15
"""After a start of the server the living have so long to come back before they are taken for dead."""
BEAT_SECONDS = 2.0
"""Between two looks of a process at its own connection."""

SCHEMA = """
CREATE SCHEMA IF NOT EXISTS trace;
CREATE TABLE IF NOT EXISTS trace.study (
    study text PRIMARY KEY, home text NOT NULL, since timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS trace.lease (
    study text NOT NULL REFERENCES trace.study ON DELETE CASCADE, item text NOT NULL,
    epoch bigint NOT NULL DEFAULT 0, token text NOT NULL DEFAULT '',
    life bigint NOT NULL DEFAULT 0, server timestamptz, holder jsonb, PRIMARY KEY (study, item));
CREATE TABLE IF NOT EXISTS trace.mark (
    study text NOT NULL REFERENCES trace.study ON DELETE CASCADE, mark text NOT NULL, item text NOT NULL,
    reason text NOT NULL, run text NOT NULL, laid bigserial, PRIMARY KEY (study, mark));
CREATE TABLE IF NOT EXISTS trace.process (
    study text NOT NULL REFERENCES trace.study ON DELETE CASCADE, name text NOT NULL,
    life bigint NOT NULL, server timestamptz NOT NULL, said jsonb NOT NULL, PRIMARY KEY (study, name));
CREATE TABLE IF NOT EXISTS trace.account (
    study text PRIMARY KEY REFERENCES trace.study ON DELETE CASCADE,
    usd numeric NOT NULL DEFAULT 0, calls bigint NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS trace.reservation (
    study text NOT NULL REFERENCES trace.study ON DELETE CASCADE, ticket text NOT NULL,
    life bigint NOT NULL, server timestamptz NOT NULL, usd numeric NOT NULL, call jsonb NOT NULL,
    PRIMARY KEY (study, ticket));
"""
"""One database serves many homes; each is a study of its own there."""

SET_UP = """
SELECT set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),
    set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),
    set_config('tcp_keepalives_count', '4', false), set_config('tcp_user_timeout', '15000', false)
"""
DEAD = """
pg_try_advisory_xact_lock_shared(life) AND (server = pg_postmaster_start_time()
    OR now() > pg_postmaster_start_time() + make_interval(secs => {seconds}))
"""
"""Whether nobody holds the life in a row; at once after a start of the server nobody is taken for dead."""
HOPELESS = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")
"""What waiting does not mend."""


def dead() -> str:
    """Return the condition, in SQL, that the process whose `life` and `server` a row holds is dead."""
    return DEAD.format(seconds=RESTART_SECONDS)


class Database:
    """One study's part of a database, as this process uses it. Any thread may call any method.

    Args:
        url: Such as `postgresql://db:5432/trace`; the user is libpq's to know (PGUSER, ~/.pgpass).
        study: Id of the study there.
    """

    def __init__(self, url: str, study: str) -> None:
        self.url, self.study = url, study
        self.life = secrets.randbits(62)
        self._lock = threading.Lock()
        self._idle: list[Connection[Any]] = []
        self._was_there = False
        self._begun: threading.Event | None = None
        self._owed: list[Callable[[Connection[Any]], None]] = []

    def run(self, work: Callable[[Connection[Any]], T], *, patience: float | None = None) -> T:
        """Do something in one transaction; when the database is away, wait for it and do it once more.

        Args:
            work: Is given a connection. What it does must come to the same when it is done twice: whether
                a transaction was committed is not known when the connection is lost just then.
            patience: Seconds to wait at most; None waits `AWAY_SECONDS`, or `FIRST_SECONDS` the first time.

        Raises:
            Unavailable: The database was away for longer than that, or refuses what is asked.
        """

        def attempt() -> T:
            connection = self._taken()
            try:
                with connection.transaction():
                    found = work(connection)
            except BaseException:
                self._drop(connection)
                raise
            self._give_back(connection)
            return found

        return self._patiently(attempt, patience)

    def _patiently(self, attempt: Callable[[], T], patience: float | None = None) -> T:
        require_extra("psycopg", "cluster", "[cluster] database")
        import psycopg

        began, pause = time.monotonic(), 0.1
        while True:
            try:
                found = attempt()
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                wait = (AWAY_SECONDS if self._was_there else FIRST_SECONDS) if patience is None else patience
                hopeless = not self._was_there and any(words in str(error) for words in HOPELESS)
                if hopeless or time.monotonic() - began > wait:
                    raise Unavailable(self._away(error)) from error
                time.sleep(pause)
                pause = min(2.0, pause * 1.5)
            except psycopg.Error as error:
                raise Unavailable(self._away(error)) from error
            else:
                self._was_there = True
                return found

    def rows(self, query: str, *values: Any, patience: float | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, done in a transaction of its own; see `run`."""

        def ask(connection: Connection[Any]) -> list[tuple[Any, ...]]:
            found = connection.execute(query, values)
            return found.fetchall() if found.description else []

        return self.run(ask, patience=patience)

    @contextmanager
    def guarded(self, look: Callable[[Connection[Any]], None]) -> Iterator[None]:
        """Do the body while a transaction keeps locked what was looked at, and look again if that was lost.

        Args:
            look: Looks, and locks what it looks at; raises where the body must not be done.
        """
        import psycopg

        def begin() -> Connection[Any]:
            connection = self._taken()
            try:
                connection.execute("BEGIN")
                look(connection)
            except BaseException:
                self._drop(connection)
                raise
            return connection

        connection = self._patiently(begin)
        is_whole = False
        try:
            yield
            try:
                connection.execute("COMMIT")
                is_whole = True
            except psycopg.Error:
                self.run(look)  # whether it is as it was seen: if so, nobody came between
        finally:
            (self._give_back if is_whole else self._drop)(connection)

    def live(self) -> None:
        """Hold this process's life from now on, until it ends."""
        with self._lock:
            begins = self._begun is None
            if begins:
                self._begun = threading.Event()
        assert self._begun is not None
        if begins:
            threading.Thread(target=self._stay, args=(self._begun,), name="life", daemon=True).start()
        if not self._begun.wait(FIRST_SECONDS):
            self.rows("SELECT 1")  # says why, or that it has come back
            self._begun.wait(AWAY_SECONDS)

    def owe(self, work: Callable[[Connection[Any]], None]) -> None:
        """Have something done once the database is back, that it was away for."""
        with self._lock:
            self._owed.append(work)

    def _stay(self, begun: threading.Event) -> None:
        connection: Connection[Any] | None = None
        while True:
            try:
                if connection is None:
                    connection = self._connected()
                    connection.execute("SELECT pg_advisory_lock(%s)", (self.life,))
                    begun.set()
                connection.execute("SELECT 1")
                while self._owed:
                    self._owed[0](connection)
                    with self._lock:
                        self._owed.pop(0)
            except Exception:
                if connection is not None:
                    with suppress(Exception):
                        connection.close()
                connection = None
                time.sleep(0.3)
                continue
            time.sleep(BEAT_SECONDS)

    def _taken(self) -> Connection[Any]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._connected()

    def _connected(self) -> Connection[Any]:
        import psycopg

        connection: Connection[Any] = psycopg.connect(
            self.url,
            autocommit=True,
            connect_timeout=10,
            application_name=f"trace {os.getpid()}",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=4,
            tcp_user_timeout=15000,
            prepare_threshold=None,  # a PgBouncer before it may lead each transaction elsewhere
        )
        connection.execute(SET_UP, (f"{BUSY_SECONDS}s", f"{STUCK_SECONDS}s"))
        return connection

    def _give_back(self, connection: Connection[Any]) -> None:
        with self._lock:
            if len(self._idle) < 2:
                self._idle.append(connection)
                return
        connection.close()

    def _drop(self, connection: Connection[Any] | None) -> None:
        """Close a connection of which it is not known what state it is in, and those from its time."""
        if connection is None:
            return
        with self._lock:
            dropped = [connection, *self._idle]
            self._idle.clear()
        for one in dropped:
            with suppress(Exception):
                one.close()

    def _away(self, error: Exception) -> str:
        said = " ".join(str(error).split())
        return (
            f"the database {self.url}, which holds the leases of this home, does not answer ({said}): have "
            "it run again, or mend [cluster] database, then run the command again; what was finished is kept."
        )


def checked_url(url: str) -> str:
    """Return a database's address, where it is one and names no user: it is written into the home.

    Raises:
        InputError: It is none, or names one.

    >>> checked_url("postgresql://db:5432/trace")
    'postgresql://db:5432/trace'
    """
    parts = urlsplit(url)
    known = parts.scheme in ("postgresql", "postgres") and parts.path.strip("/") and "@" not in url
    if not known or "password" in parts.query:
        raise InputError(
            "[cluster] database must look like postgresql://HOST:5432/NAME; user and password come from "
            "PGUSER and PGPASSWORD, or ~/.pgpass."
        )
    return url
