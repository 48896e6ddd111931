"""The account of model calls in a database: one cap for labellers on any number of machines at once.

What a request may cost at most is a row before it is sent; the rows and what was spent never come to more
than the cap, in one transaction. What it did cost is a line of `answers/spent.jsonl` first, as with files;
then its row leaves: so the journal is whole also when the database is lost. Rows of a process that died are
booked at their highest price by whoever needs the room, unless the journal has their line.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from trace_assets.diagnosis.llm.budget import (
    SPENT,
    Account,
    Call,
    CapReached,
    Reserved,
    append_call,
    read_calls,
)
from trace_assets.store.database import database_of
from trace_assets.store.postgres import Database, dead


@dataclass
class SharedAccount(Account):
    """The spending of one stage on one home, under the cap of all.

    Attributes:
        database: Where the home's account is kept.
    """

    database: Database | None = None

    looks_again: ClassVar[float | None] = 0.5

    def reserve(self, kind: str, prompt_bytes: int, reply_tokens: int) -> str | None:
        """Set the most that a request can cost aside, before it is sent; see `Account.reserve`.

        Raises:
            CapReached: It does not fit although nobody has anything in flight.
        """
        ticket = uuid4().hex[:16]
        most = self.dearest(prompt_bytes, reply_tokens)
        self._reserved[ticket] = Reserved(kind, prompt_bytes, reply_tokens, most)
        call = self._at_most(ticket)
        self._there.live()
        for is_first in (True, False):
            in_flight = self._there.run(lambda tx: self._set_aside(tx, call))
            if in_flight is None:
                return ticket
            if not is_first or not settle_dead(self._there, self.folder):
                break
        del self._reserved[ticket]
        if in_flight:
            return None
        raise CapReached

    def release(self, ticket: str) -> None:
        """Give a reservation back: its request was never sent, or refused."""
        if self._reserved.pop(ticket, None) is not None:
            _leave_row(self._there, ticket, None)

    @property
    def _there(self) -> Database:
        assert self.database is not None
        return self.database

    def _set_aside(self, connection: Any, call: Call) -> int | None:
        """Lay a row for a request where it fits; else return how many are in flight."""
        study = self._there.study
        # The account's row is locked: of those who come at once one sees what the other has set aside.
        usd, calls = connection.execute(
            "SELECT usd, calls FROM trace.account WHERE study = %s FOR UPDATE", (study,)
        ).fetchone()
        aside, in_flight, mine = connection.execute(
            "SELECT coalesce(sum(usd), 0), count(*), count(*) FILTER (WHERE ticket = %s) "
            "FROM trace.reservation WHERE study = %s",
            (call.ticket, study),
        ).fetchone()
        if mine:  # committed before the connection was lost
            return None
        cap_usd, cap_calls = self.section.cap_usd, self.section.cap_calls
        over_usd = cap_usd is not None and float(usd + aside) + call.usd > cap_usd
        if over_usd or (cap_calls is not None and calls + in_flight + 1 > cap_calls):
            return int(in_flight)
        connection.execute(
            "INSERT INTO trace.reservation (study, ticket, life, server, usd, call) "
            "VALUES (%s, %s, %s, pg_postmaster_start_time(), %s::numeric, %s::jsonb)",
            (study, call.ticket, self._there.life, repr(call.usd), json.dumps(asdict(call))),
        )
        return None

    def _book(self, call: Call) -> None:
        with _alone(self._there):
            append_call(self.folder / SPENT, call)
        del self._reserved[call.ticket]
        self.spent.add(call)
        _leave_row(self._there, call.ticket, call.usd)


def _leave_row(database: Database, ticket: str, usd: float | None) -> None:
    """Take a request's row away, and count what it cost; once, also where that is asked for twice."""

    def leave(connection: Any) -> None:
        key = (database.study, ticket)
        connection.execute("SELECT 1 FROM trace.account WHERE study = %s FOR UPDATE", key[:1])
        gone = connection.execute(
            "DELETE FROM trace.reservation WHERE study = %s AND ticket = %s RETURNING 1", key
        ).fetchone()
        if gone and usd is not None:
            connection.execute(
                "UPDATE trace.account SET usd = usd + %s::numeric, calls = calls + 1 WHERE study = %s",
                (repr(usd), database.study),
            )

    database.run(leave)


def settle_dead(database: Database, folder: Path) -> int:
    """Book what dead processes had in flight at its highest price, or as the journal says that it cost.

    Args:
        database: Where the account is.
        folder: The home's `answers`.

    Returns:
        The number of such requests.
    """
    rows = database.rows(
        f"SELECT call FROM trace.reservation WHERE study = %s AND {dead()} ORDER BY ticket", database.study
    )
    for (said,) in rows:
        call = Call(**said)
        with _alone(database):
            known = {one.ticket: one.usd for one in read_calls(folder)}
            if call.ticket not in known:
                append_call(folder / SPENT, call)
        _leave_row(database, call.ticket, known.get(call.ticket, call.usd))
    return len(rows)


def _alone(database: Database) -> AbstractContextManager[None]:
    """Let nobody else write into the journal: machines would overwrite each other's lines."""

    def lock(connection: Any) -> None:
        connection.execute("SELECT 1 FROM trace.account WHERE study = %s FOR UPDATE", (database.study,))

    return database.guarded(lock)


def settled(folder: Path) -> None:
    """Book what dead processes had in flight, where the home has a database: nobody is at work on it."""
    if (database := database_of(folder.parent)) is not None:
        settle_dead(database, folder)
