"""One cap for many labellers at once, in a database: never above it, no call lost with its process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.postgres_server import VARIABLES, Server
from trace_assets.diagnosis.llm.budget import (
    Account,
    CapReached,
    open_account,
    read_calls,
    spent_by_files,
    totals,
)
from trace_assets.diagnosis.llm.client import ModelServer
from trace_assets.diagnosis.llm.recording import Answers
from trace_assets.diagnosis.llm.shared_account import SharedAccount, settled
from trace_assets.records import LedgerEntry
from trace_assets.settings import Analyst
from trace_assets.store import Home, Store
from trace_assets.store.database import database_of
from trace_assets.store.moving import to_database, to_files

SECTION = Analyst(base_url="http://h/v1", prompt_usd=100.0, completion_usd=1000.0, cap_usd=1.0)
"""A request of 1,000 bytes and 100 tokens costs 0.2 USD at most."""
ASKS = ("label", 1000, 100)
SAID = {"prompt_tokens": 400, "completion_tokens": 50}
"""0.09 USD."""

LABELLER = """
import sys, time
from pathlib import Path
from test_shared_account import ASKS, SAID, SECTION
from trace_assets.diagnosis.llm.budget import CapReached, open_account
from trace_assets.store import Home, Store

home, sleeps = Home.open(sys.argv[1]), float(sys.argv[2])
with open_account(Store.of(home), home.answers, SECTION, "labels", sys.argv[3]) as account:
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        while True:
            if (ticket := account.reserve(*ASKS)) is None:
                time.sleep(0.01)
                continue
            print("sent", flush=True)
            time.sleep(sleeps)
            account.settle(ticket, SAID)
    except CapReached:
        pass
"""


@pytest.fixture
def home(tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(__file__).parents[3]}")
    home = Home.open(tmp_path / "home")
    home.answers.mkdir()
    to_database(home, postgres.database(), lambda: spent_by_files(home.answers))
    return home


def labeller(home: Home, name: str, sleeps: float = 0.0) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LABELLER, str(home.path), str(sleeps), name],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def in_database(home: Home) -> tuple[float, int, int]:
    database = database_of(home.path)
    assert database is not None
    ((usd, calls),) = database.rows("SELECT usd, calls FROM trace.account WHERE study = %s", database.study)
    aside = database.rows("SELECT 1 FROM trace.reservation WHERE study = %s", database.study)
    return float(usd), int(calls), len(aside)


@pytest.mark.ci
def test_four_labellers_at_once_never_spend_more_than_the_cap(home: Home) -> None:
    processes = [labeller(home, f"b{n}", 0.01) for n in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    sent = 0
    for process in processes:
        said, _ = process.communicate(timeout=900)
        assert process.returncode == 0
        sent += said.count("sent")
    calls = read_calls(home.answers)
    assert 0.8 < totals(calls).usd <= 1.0, "what is left is less than a request may cost"
    assert len(calls) == len({call.ticket for call in calls}) == sent == 9
    assert in_database(home) == (pytest.approx(totals(calls).usd), 9, 0)
    assert len({call.partition for call in calls}) > 1, "one at a time would have spent it all"
    booked = [row for row in Store.of(home).read(LedgerEntry) if row.kind == "model_calls"]
    assert sum(row.quantity for row in booked) == 9
    assert sum(row.cost_usd for row in booked) == pytest.approx(totals(calls).usd)


def test_what_a_killed_labeller_had_in_flight_counts_at_its_highest_price(home: Home) -> None:
    process = labeller(home, "killed", 600.0)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "sent\n"
    assert in_database(home) == (0.0, 0, 1)
    with open_account(Store.of(home), home.answers, SECTION, "labels", "b") as account:
        tickets = [account.reserve(*ASKS) for _ in range(4)]
        assert None not in tickets and account.reserve(*ASKS) is None, "the other's may cost all that is left"
        process.kill()
        process.communicate()
        for ticket in tickets:
            assert ticket is not None
            account.release(ticket)
        spent, give_up = 0, time.monotonic() + 600
        while spent < 4:
            assert time.monotonic() < give_up
            if account.reserve(*ASKS) is not None:
                spent += 1
        while True:  # until the server has seen that the other is dead
            assert time.monotonic() < give_up
            account.reserve(*ASKS)
            if in_database(home)[1]:
                break
            time.sleep(0.05)
        assert in_database(home) == (pytest.approx(0.2), 1, 4)
        (lost,) = read_calls(home.answers)
        assert (lost.partition, lost.usd, lost.at_most) == ("killed", pytest.approx(0.2), True)


def test_a_request_whose_line_was_written_is_not_counted_twice(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the journal's line and the row: what it did cost counts, once."""
    from trace_assets.diagnosis.llm import shared_account

    with open_account(Store.of(home), home.answers, SECTION, "labels", "b") as account:
        ticket = account.reserve(*ASKS)
        assert ticket is not None and isinstance(account, SharedAccount)
        with monkeypatch.context() as patch:
            patch.setattr(shared_account, "_leave_row", lambda *_: None)
            account.settle(ticket, SAID)
        assert in_database(home) == (0.0, 0, 1)
        assert account.database is not None
        account.database.rows("UPDATE trace.reservation SET life = 1")  # nobody's
        settled(home.answers)
        settled(home.answers)
    assert in_database(home) == (pytest.approx(0.09), 1, 0) and len(read_calls(home.answers)) == 1


def test_what_was_spent_before_counts_and_goes_back_with_the_home(home: Home, postgres: Server) -> None:
    with open_account(Store.of(home), home.answers, SECTION, "labels", "b") as account:
        for _ in range(5):
            ticket = account.reserve(*ASKS)
            assert ticket is not None
            account.give_up(ticket)
        with pytest.raises(CapReached):
            account.reserve(*ASKS)
    to_files(home, lambda: settled(home.answers))
    with open_account(Store.of(home), home.answers, SECTION, "labels", "b") as account:
        assert type(account) is Account
        with pytest.raises(CapReached):
            account.reserve(*ASKS)
    to_database(home, postgres.database(), lambda: spent_by_files(home.answers))
    assert in_database(home) == (pytest.approx(1.0), 5, 0)
    with (
        open_account(Store.of(home), home.answers, SECTION, "labels", "b") as account,
        pytest.raises(CapReached),
    ):
        account.reserve(*ASKS)


def test_who_waits_for_room_that_another_holds_gets_it_when_the_other_lets_go(home: Home) -> None:
    where = (Store.of(home), home.answers, SECTION, "labels")
    with open_account(*where, "one") as one, open_account(*where, "two") as two:
        tickets = [one.reserve(*ASKS) for _ in range(5)]
        server = ModelServer(SECTION, Answers(home.answers), two)
        server.reply_tokens = ASKS[2]
        threading.Timer(0.3, lambda: one.release(str(tickets[0]))).start()
        assert asyncio.run(asyncio.wait_for(server.ticket(*ASKS[:2]), 60))
