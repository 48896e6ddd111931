"""A home that is put back from a backup, moved or replaced while a process works on it: nothing is mixed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.test_leases import entry
from trace_assets.records import LedgerEntry
from trace_assets.store import Home, Store
from trace_assets.store.item_locks import due_items, item_lock
from trace_assets.store.leases import Superseded
from trace_assets.store.presence import announce, living, withdraw


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home with one table."""
    one = Home.open(tmp_path / "home")
    write(one, "a", "old")
    yield one
    withdraw()


def write(home: Home, partition: str, kind: str) -> None:
    Store.of(home).write([entry(kind)], LedgerEntry, partition)


def kind_of(home: Home, partition: str) -> str:
    (row,) = Store.of(home).read(LedgerEntry, partition)
    return row.kind


def put_back(home: Home, how: str) -> None:
    kept = home.path.with_name("kept")
    if how == "copied":
        shutil.rmtree(home.path)
        shutil.copytree(kept, home.path)
    else:
        home.path.rename(home.path.with_name("away"))
        kept.rename(home.path)


@pytest.mark.parametrize("how", ["copied", "renamed"])
@pytest.mark.parametrize("kept", ["before", "meanwhile"])
def test_a_process_mixes_nothing_into_a_home_that_was_put_back(home: Home, kept: str, how: str) -> None:
    """A backup of meanwhile holds the process's file and its lease too: only they are not its own."""
    if kept == "before":
        shutil.copytree(home.path, home.path.with_name("kept"))
    announce(home)
    with (
        pytest.raises(Superseded, match="was put back, or another folder laid in its place"),
        item_lock(home, "labels", "b") as lock,
    ):
        if kept == "meanwhile":
            shutil.copytree(home.path, home.path.with_name("kept"))
        write(home, "a", "new")
        put_back(home, how)
        with pytest.raises(Superseded, match="put back"):
            lock.settle()
        write(home, "b", "new")
    assert kind_of(home, "a") == "old" and not (home.tables / "ledger" / "b.parquet").exists()
    assert (("labels", "b") in due_items(home)) == (kept == "meanwhile"), "what was begun in it is due"
    assert announce(home) in living(home), "the next command of the process goes on"
    write(home, "b", "new")
    assert kind_of(home, "b") == "new"


def test_a_home_that_was_moved_away_is_not_made_anew_in_its_old_place(home: Home) -> None:
    announce(home)
    moved = home.path.rename(home.path.with_name("moved"))
    with pytest.raises(Superseded, match="was moved or removed while process"):
        write(home, "b", "new")
    assert not home.path.exists()
    there = Home(moved)
    assert announce(there) in living(there)
    write(there, "b", "new")
    assert kind_of(there, "b") == "new"


def test_one_that_was_moved_away_and_back_is_the_same(home: Home) -> None:
    announce(home)
    home.path.rename(home.path.with_name("away")).rename(home.path)
    write(home, "b", "new")
    assert kind_of(home, "b") == "new"
