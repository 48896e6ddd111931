"""Locks are freed by death, and an item stays due until its materialization is recorded."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from trace_assets.store import Home
from trace_assets.store.locks import (
    INTERRUPTED,
    Holder,
    due_items,
    exclusive,
    holder,
    is_held,
    item_lock,
    mark_due,
)
from trace_assets.store.presence import announce, forget_dead, is_alive, living


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path)


def other_process(home: Home, code: str) -> subprocess.Popen[bytes]:
    """Run code in another process until it says that it is ready."""
    text = f"import sys, time\nfrom trace_assets.store import Home\nhome = Home.open({str(home.path)!r})\n"
    process = subprocess.Popen([sys.executable, "-c", text + textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


ITEM = """
    from trace_assets.store.locks import item_lock
    with item_lock(home, "config/labels", "a.b"):
        print("ready", flush=True)
        time.sleep(600)
"""


def test_an_item_is_due_from_its_start_until_it_is_settled(home: Home) -> None:
    with item_lock(home, "labels", "b") as lock:
        assert due_items(home) == {}, "somebody is at it"
        lock.settle()
    assert due_items(home) == {}
    with pytest.raises(ValueError), item_lock(home, "labels", "b"):
        raise ValueError
    assert due_items(home) == {("labels", "b"): INTERRUPTED}
    with item_lock(home, "labels", "b") as lock:
        lock.settle()
    assert due_items(home) == {}


def test_a_killed_holder_leaves_a_free_lock_and_a_due_item(home: Home) -> None:
    process = other_process(home, ITEM)
    path = home.path / "locks" / "items" / "config~labels@a.b.lock"
    assert is_held(path) and due_items(home) == {}
    found = holder(path)
    assert found is not None and found.pid == process.pid and "config~labels@a.b" in str(found)
    told: list[Holder | None] = []
    with (
        pytest.raises(TimeoutError, match="held"),
        item_lock(home, "config/labels", "a.b", waiting=told.append, patience=0.1),
    ):
        pass
    assert told == [found]
    process.kill()
    process.wait()
    assert not is_held(path)
    assert due_items(home) == {("config/labels", "a.b"): INTERRUPTED}


def test_a_lock_is_waited_for(home: Home) -> None:
    process = other_process(home, ITEM)
    began = time.monotonic()
    threading.Timer(0.3, process.kill).start()
    with item_lock(home, "config/labels", "a.b") as lock:
        lock.settle()
    assert time.monotonic() - began > 0.25
    process.wait()


def test_a_mark_made_during_the_work_outlives_it(home: Home) -> None:
    mark_due(home, "trajectories", "x", "new files")
    assert due_items(home) == {("trajectories", "x"): "new files"}
    with item_lock(home, "trajectories", "x") as lock:
        mark_due(home, "trajectories", "x", "newer files")
        lock.settle()
    assert due_items(home) == {("trajectories", "x"): "newer files"}


def test_items_whose_names_begin_alike_are_not_confused(home: Home) -> None:
    mark_due(home, "labels", "a", "one")
    mark_due(home, "labels", "a.b", "two")
    with item_lock(home, "labels", "a") as lock:
        lock.settle()
    assert due_items(home) == {("labels", "a.b"): "two"}


def test_a_lock_file_tells_nothing_once_it_is_let_go(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    with exclusive(path, "a test"):
        assert is_held(path) and str(holder(path)).startswith(f"a test, process {os.getpid()}")
    assert not is_held(path) and holder(path) is None and path.exists()
    path.write_text('{"pid": 1')  # cut off by a kill
    assert holder(path) is None
    with exclusive(path, "a test", patience=0):
        pass


def test_a_process_is_seen_as_long_as_it_lives(home: Home) -> None:
    assert living(home) == {} and not is_alive(home, "unheard-of")
    own = announce(home)
    assert announce(home) == own
    process = other_process(
        home,
        """
        from trace_assets.store.presence import announce
        announce(home)
        print("ready", flush=True)
        time.sleep(600)
        """,
    )
    (other,) = set(living(home)) - {own}
    assert is_alive(home, other) and forget_dead(home) == []
    process.kill()
    process.wait()
    assert not is_alive(home, other) and is_alive(home, own)
    assert forget_dead(home) == [other] and set(living(home)) == {own}
