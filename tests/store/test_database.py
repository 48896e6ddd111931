"""Leases in a database: compared until a file is in place; a server that is away is waited for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.postgres_server import VARIABLES, Server, server
from tests.postgres_server import why_not as why_no_postgres
from trace_assets.cli import main
from trace_assets.errors import InputError, Unavailable
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.records import LedgerEntry
from trace_assets.settings import Settings
from trace_assets.store import Home, Store, postgres
from trace_assets.store.database import FILE, database_of
from trace_assets.store.item_locks import (
    INTERRUPTED,
    due_items,
    is_item_held,
    item_lock,
    mark_due,
    settle_recorded,
)
from trace_assets.store.leases import Superseded, begin, epoch_of, holding
from trace_assets.store.locks import exclusive, is_held, sync_lock
from trace_assets.store.manifest import manifest_of
from trace_assets.store.moving import to_database, to_files
from trace_assets.store.presence import announce, living, withdraw
from trace_assets.study import Study


def nothing_spent() -> tuple[float, int]:
    return 0.0, 0


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that a test may stop."""
    if reason := why_no_postgres():
        pytest.skip(reason)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    with server() as found:
        yield found


@pytest.fixture
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found: Server = request.getfixturevalue("postgres")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    return found.database()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    yield Home.open(tmp_path / "home")
    withdraw()


def entry(kind: str) -> LedgerEntry:
    return LedgerEntry(
        recorded_at=datetime(2026, 1, 1, tzinfo=UTC), stage="a", asset="labels", partition="b", kind=kind,
        quantity=1.0, unit="s", cost_usd=0.0, run_id="",
    )  # fmt: skip


def test_whoever_begins_an_item_waits_for_what_is_just_being_put_in_place(home: Home, url: str) -> None:
    to_database(home, url, nothing_spent)
    path = home.tables / "ledger" / "b.parquet"
    path.parent.mkdir(parents=True)
    late = path.with_name(".late.partial")
    late.write_bytes(b"late")
    order: list[str] = []

    def other() -> None:
        begin(home.path, "labels@b")
        order.append("begun anew")

    thread = threading.Thread(target=other)
    manifest = manifest_of(home.path)
    with holding(home.path, begin(home.path, "labels@b")) as _:
        with manifest.placing(manifest.name(path), late):
            thread.start()
            thread.join(0.5)
            os.replace(late, path)
            order.append("in place")
        thread.join(600)
        with pytest.raises(Superseded), manifest.placing(manifest.name(path), path):
            order.append("never")
    assert order == ["in place", "begun anew"]
    assert manifest.problem(manifest.name(path)) == ""


def test_a_home_that_has_a_database_keeps_to_it(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_due(home, "labels", "b", "new files")
    with item_lock(home, "labels", "c") as lock:
        lock.settle()
    monkeypatch.setenv("TRACE__CLUSTER__DATABASE", url)
    Study.open(home.path)
    monkeypatch.delenv("TRACE__CLUSTER__DATABASE")
    assert (found := database_of(home.path)) is not None and found.url == url
    assert due_items(home) == {("labels", "b"): "new files"} and epoch_of(home.path, "labels@c") == 1
    with item_lock(home, "labels", "c") as lock, exclusive(sync_lock(home), "trace sync"):
        assert is_held(sync_lock(home)) and not sync_lock(home).read_text()
        mark_due(home, "labels", "d", "newer files")
        with pytest.raises(Unavailable, match="only while nobody is"):
            to_files(home, lambda: None)
        lock.settle()
    announce(home)
    monkeypatch.setenv("TRACE_HOME", str(home.path))
    monkeypatch.setattr(sys, "argv", ["trace", "cluster", "files"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    assert database_of(home.path) is None and living(home) == {}
    assert set(due_items(home)) == {("labels", "b"), ("labels", "d")} and epoch_of(home.path, "labels@c") == 2
    with item_lock(home, "labels", "b") as lock:
        lock.settle()
    assert set(due_items(home)) == {("labels", "d")}
    to_database(home, url, nothing_spent)  # a study of its own: nothing of before is taken for its own
    assert set(due_items(home)) == {("labels", "d")}


def test_leases_do_not_move_while_somebody_is_at_work(home: Home, url: str) -> None:
    with exclusive(sync_lock(home), "trace sync"), pytest.raises(Unavailable, match="only while nobody is"):
        to_database(home, url, nothing_spent)
    assert database_of(home.path) is None


def test_another_database_is_refused_and_the_same_under_another_name_is_not(
    home: Home, url: str, postgres: Server
) -> None:
    to_database(home, url, nothing_spent)
    with pytest.raises(InputError, match=r"the leases of .* are in .*, not in"):
        to_database(home, postgres.database(), nothing_spent)
    alias = url.replace("127.0.0.1", "localhost")
    to_database(home, alias, nothing_spent)
    assert json.loads((home.path / FILE).read_text())["url"] == alias


def test_marks_of_a_dead_run_go_where_its_work_is_recorded(home: Home, url: str) -> None:
    """Its own and the earlier ones that it found; a later one is news."""
    to_database(home, url, nothing_spent)
    run = "0123-4567-89ab-cdef"
    mark_due(home, "config/labels", "a.b", "early")
    mark_due(home, "config/labels", "a.b", INTERRUPTED, run)
    mark_due(home, "config/labels", "a", "another item", run)
    mark_due(home, "tasks", "", "", run)
    asked = list[tuple[str, str]]()

    def recorded(asset: str, partition: str) -> bool:
        asked.append((asset, partition))
        return partition == "a.b"

    settle_recorded(home, "another-run", recorded)
    assert asked == [] and len(due_items(home)) == 3
    settle_recorded(home, run, recorded)
    assert sorted(asked) == [("config/labels", "a"), ("config/labels", "a.b"), ("tasks", "")]
    assert due_items(home) == {("config/labels", "a"): "another item", ("tasks", ""): INTERRUPTED}
    mark_due(home, "config/labels", "a.b", INTERRUPTED, run)
    mark_due(home, "config/labels", "a.b", "late")
    settle_recorded(home, run, recorded)
    assert due_items(home)["config/labels", "a.b"] == "late"


@pytest.mark.parametrize("wrong", ["mysql://db/trace", "postgresql://db", "postgresql://me@db/trace"])
def test_an_address_is_one_of_a_postgres_and_names_no_user(home: Home, wrong: str) -> None:
    with pytest.raises(InputError, match="postgresql://HOST:5432/NAME"):
        to_database(home, wrong, nothing_spent)
    assert database_of(home.path) is None


def test_no_setting_holds_a_password() -> None:
    with pytest.raises(ValueError, match="password"):
        Settings.model_validate({"cluster": {"database": "postgresql://me:secret@db/trace"}})


def test_a_database_that_is_not_there_is_said_in_one_sentence(
    home: Home, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = own_server.database()
    to_database(home, url, nothing_spent)
    own_server.stop()
    before = (home.path / FILE).read_text()
    with monkeypatch.context() as impatient:  # with what is there, patience is as ever: it may be busy
        impatient.setattr(postgres, "AWAY_SECONDS", 0.5)
        impatient.setattr(postgres, "FIRST_SECONDS", 0.5)
        with pytest.raises(Unavailable) as refused:
            due_items(home)
        said = str(refused.value)
        assert url in said and "run again" in said and "is kept" in said and "\n" not in said
        with pytest.raises(Unavailable):
            mark_due(home, "labels", "b", "new files")
    own_server.start()
    assert due_items(home) == {} and (home.path / FILE).read_text() == before
    with pytest.raises(Unavailable, match="does not exist"):  # not waited for
        to_database(Home.open(home.path.parent / "other"), url + "x", nothing_spent)


def test_a_database_that_is_lost_for_good_takes_nothing_with_it(
    home: Home, own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.inbox / "shop").mkdir(parents=True)
    (home.inbox / "shop" / "version").write_text("1")
    to_database(home, own_server.database(), nothing_spent)
    mark_due(home, "trajectories", "shop", "new files")
    own_server.stop()
    monkeypatch.setenv("TRACE_HOME", str(home.path))
    monkeypatch.setattr(sys, "argv", ["trace", "cluster", "files", "--lost"])
    for code in (0, 2):  # the second time there is none to forget
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == code
    assert ("trajectories", "shop") in due_items(home)


@pytest.mark.ci
def test_a_server_that_is_started_again_in_the_middle_costs_nothing(home: Home, own_server: Server) -> None:
    to_database(home, own_server.database(), nothing_spent)
    name = announce(home)
    store = Store.of(home)
    with item_lock(home, "labels", "b") as lock:
        store.write([entry("before")], LedgerEntry, "b")
        own_server.stop()
        restart = threading.Timer(1.0, own_server.start)
        restart.start()
        store.write([entry("after")], LedgerEntry, "b")  # waits
        restart.join()
        assert is_item_held(home, "labels", "b"), "the living are not taken for dead at once"
        assert announce(home) == name and set(living(home)) == {name}
        lock.settle()
    assert [row.kind for row in store.read(LedgerEntry)] == ["after"] and due_items(home) == {}


@pytest.mark.ci
def test_it_is_lost_while_a_file_is_being_put_in_place_and_the_file_counts(
    home: Home, own_server: Server
) -> None:
    to_database(home, own_server.database(), nothing_spent)
    manifest = manifest_of(home.path)
    path = home.tables / "ledger" / "b.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"it")
    with item_lock(home, "labels", "b") as lock:
        with manifest.placing(manifest.name(path), path):
            own_server.stop()
            own_server.start()
        lock.settle()
    assert manifest.name(path) in manifest.entries() and due_items(home) == {}


@pytest.mark.ci
def test_what_was_not_let_go_while_it_was_away_is_let_go_when_it_is_back(
    home: Home, own_server: Server
) -> None:
    to_database(home, own_server.database(), nothing_spent)
    with item_lock(home, "labels", "b") as lock:
        lock.settle()
        own_server.stop()
    own_server.start()
    give_up = time.monotonic() + 600
    while is_item_held(home, "labels", "b"):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_home_that_is_given_a_database_first_has_its_history_there_and_several_machines_at_work(
    home: Home, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dagster_postgres", reason="the extra `cluster` (dagster-postgres) is not installed")
    to_database(home, url, nothing_spent)

    def elsewhere() -> subprocess.CompletedProcess[str]:
        program = Path(__file__).parents[1] / "crash" / "other_machine.py"
        return subprocess.run(
            [sys.executable, str(program), str(home.path), "come"],
            capture_output=True,
            text=True,
            check=False,
        )

    announce(home)
    assert elsewhere().stdout.startswith("refused: another machine works on")
    with prepare_instance(home) as instance:
        instance.add_dynamic_partitions("task_batch", ["shop"])
    with prepare_instance(home) as instance:
        assert instance.get_dynamic_partitions("task_batch") == ["shop"]
    assert not list(home.dagster.rglob("*.db"))
    database = database_of(home.path)
    assert database is not None
    schemas = {name for (name,) in database.rows("SELECT DISTINCT schemaname FROM pg_tables")}
    assert f"history_{database.study[:16]}" in schemas and "public" not in schemas
    assert elsewhere().returncode == 0
