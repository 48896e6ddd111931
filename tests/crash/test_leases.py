"""A writer whose item was begun anew elsewhere puts nothing in place, whenever it wakes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trace_assets.records import LedgerEntry
from trace_assets.store import Home, Store, leases
from trace_assets.store.item_locks import due_items, is_item_held, item_holder, item_lock
from trace_assets.store.leases import Superseded, begin, epoch_of, holding, is_struck_out
from trace_assets.store.manifest import manifest_of
from trace_assets.store.presence import announce, forget, withdraw

WRITER = """
import sys
from test_leases import entry
from trace_assets.store import Home, Store
from trace_assets.store.leases import Superseded
from trace_assets.store.item_locks import item_lock
from trace_assets.store.presence import announce

home = Home.open(sys.argv[1])
announce(home)
with item_lock(home, "labels", "b") as lock:
    print("begun", flush=True)
    sys.stdin.readline()
    for do in (lambda: Store.of(home).write([entry("late")], entry("late").__class__, "b"), lock.settle):
        try:
            do()
            print("done", flush=True)
        except Superseded as error:
            print(error, flush=True)
"""


def entry(kind: str) -> LedgerEntry:
    return LedgerEntry(
        recorded_at=datetime(2026, 1, 1, tzinfo=UTC), stage="a", asset="labels", partition="b", kind=kind,
        quantity=1.0, unit="s", cost_usd=0.0, run_id="",
    )  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, kept_in: Callable[[Home], Home]) -> Iterator[Home]:
    home = kept_in(Home.open(tmp_path / "home"))
    announce(home)
    yield home
    withdraw()


@contextmanager
def stopped_writer(home: Home) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun an item and was stopped before it wrote anything."""
    folder = str(Path(__file__).parent)
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.communicate()


def wake(process: subprocess.Popen[str]) -> list[str]:
    """Let a process go on to its end, and return what it says."""
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate("go on\n", timeout=60)
    return said.splitlines()


def test_a_writer_that_wakes_after_its_item_was_begun_anew_commits_nothing(home: Home) -> None:
    store = Store.of(home)
    with stopped_writer(home) as late:
        before = item_holder(home, "labels", "b")
        assert before is not None and before.pid == late.pid and is_item_held(home, "labels", "b")
        forget(home, before.name)  # as a cluster does that has lost its node
        assert not is_item_held(home, "labels", "b")
        assert due_items(home) == {("labels", "b"): "its last materialization was interrupted"}
        with item_lock(home, "labels", "b", patience=0.0) as lock:
            store.write([entry("mine")], LedgerEntry, "b")
            assert is_item_held(home, "labels", "b")
            said = wake(late)
            assert [row.kind for row in store.read(LedgerEntry)] == ["mine"]
            lock.settle()
    assert len(said) == 2 and all("labels@b was begun anew elsewhere (for the 2. time" in one for one in said)
    assert [row.kind for row in store.read(LedgerEntry)] == ["mine"]
    assert due_items(home) == {} and not is_item_held(home, "labels", "b")
    assert manifest_of(home.path).problems(manifest_of(home.path).entries()) == {}
    assert not list((home.tables / "ledger").glob(".*"))


@pytest.mark.ci
def test_it_commits_nothing_either_when_the_other_has_long_ended(home: Home) -> None:
    with stopped_writer(home) as late:
        before = item_holder(home, "labels", "b")
        assert before is not None
        forget(home, before.name)
        for kind in ("second", "third"):
            with item_lock(home, "labels", "b", patience=0.0) as lock:
                Store.of(home).write([entry(kind)], LedgerEntry, "b")
                lock.settle()
        assert all("for the 3. time" in one for one in wake(late))
    assert [row.kind for row in Store.of(home).read(LedgerEntry)] == ["third"]
    assert due_items(home) == {}


def test_a_stopped_writer_that_nobody_struck_out_is_waited_for_and_commits(home: Home) -> None:
    with stopped_writer(home) as late:
        with (
            pytest.raises(TimeoutError, match="held for more than"),
            item_lock(home, "labels", "b", patience=0.2),
        ):
            pass
        assert wake(late) == ["done", "done"]
    assert [row.kind for row in Store.of(home).read(LedgerEntry)] == ["late"]


@pytest.mark.parametrize("kept_in", ["files"], indirect=True)
def test_what_is_put_in_place_in_the_very_moment_is_found_to_be_another_file(home: Home) -> None:
    store, manifest = Store.of(home), manifest_of(home.path)
    store.write([entry("before")], LedgerEntry, "b")
    path = store.path(LedgerEntry, "b")
    late = path.with_name(".late.partial")
    late.write_bytes(path.read_bytes() + b"late")
    with (
        holding(home.path, begin(home.path, "labels@b")),
        pytest.raises(Superseded),
        manifest.placing(manifest.name(path), late),
    ):
        begin(home.path, "labels@b")  # it was stopped between its look and its rename
        os.replace(late, path)
    assert "bytes in place of" in manifest.problem(manifest.name(path))


def test_who_has_lost_one_item_begins_no_other(home: Home) -> None:
    with item_lock(home, "labels", "b") as lock:
        begin(home.path, "labels@b")
        with pytest.raises(Superseded), item_lock(home, "labels", "c"):
            pass
        with pytest.raises(Superseded):
            lock.settle()
    assert ("labels", "b") in due_items(home)


@pytest.mark.ci
def test_of_many_who_come_for_a_lost_item_one_at_a_time_has_it(home: Home) -> None:
    at_once, most, failed = 0, 0, []

    def take() -> None:
        nonlocal at_once, most
        try:
            with item_lock(home, "labels", "b", patience=60.0) as lock:
                at_once += 1
                most = max(most, at_once)
                time.sleep(0.01)
                at_once -= 1
                lock.settle()
        except BaseException as error:
            failed.append(error)

    with stopped_writer(home):
        before = item_holder(home, "labels", "b")
        assert before is not None
        forget(home, before.name)
        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert (failed, most) == ([], 1)
    assert epoch_of(home.path, "labels@b") == 9
    assert not list((home.path / "locks" / "items").glob(".*"))


class _AsReadBefore(list[leases.Lease]):
    """What a process holds, as a thread read it just before another one let go of it."""

    def __init__(self, before: Iterable[leases.Lease]) -> None:
        super().__init__()
        self._before = list(before)

    def __iter__(self) -> Iterator[leases.Lease]:
        before, self._before = self._before, []
        return iter(before)


def test_what_another_thread_let_go_of_meanwhile_is_not_lost(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = os.getpid(), home.path
    with item_lock(home, "labels", "b") as lock:
        held = [*leases._held[place]]
        lock.settle()
    begin(home.path, "labels@b")
    monkeypatch.setitem(leases._held, place, _AsReadBefore(held))
    leases.confirm_all(home.path)
    monkeypatch.setitem(leases._held, place, held)
    with pytest.raises(Superseded):
        leases.confirm_all(home.path)


def test_only_who_announced_itself_can_be_struck_out(home: Home) -> None:
    assert not is_struck_out(home.path, "")
    assert not is_struck_out(home.path, announce(home)) and is_struck_out(home.path, "0" * 32)
    withdraw()
    with item_lock(home, "labels", "b"):
        assert is_item_held(home, "labels", "b")
