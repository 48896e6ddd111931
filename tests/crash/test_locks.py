"""Locks are freed by death, and an item stays due until its materialization is recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from trace_assets.cli import loudness
from trace_assets.store import Home, item_locks
from trace_assets.store.database import database_of
from trace_assets.store.item_locks import (
    INTERRUPTED,
    due_items,
    is_item_held,
    item_holder,
    item_lock,
    mark_due,
    settle_recorded,
)
from trace_assets.store.locks import Holder, exclusive, holder, is_held, sync_lock, waiting_words
from trace_assets.store.presence import announce, dead_here, forget_dead, is_alive, living


@pytest.fixture
def home(tmp_path: Path, kept_in: Callable[[Home], Home]) -> Home:
    return kept_in(Home.open(tmp_path))


def wait_until(look: Callable[[], bool]) -> None:
    """A database learns of a death some milliseconds later."""
    give_up = time.monotonic() + 600
    while not look():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def other_process(home: Home, code: str) -> subprocess.Popen[bytes]:
    """Run code in another process until it says that it is ready."""
    text = f"import sys, time\nfrom trace_assets.store import Home\nhome = Home.open({str(home.path)!r})\n"
    process = subprocess.Popen([sys.executable, "-c", text + textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


ITEM = """
    from trace_assets.store.item_locks import item_lock
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
    item = ("config/labels", "a.b")
    assert is_item_held(home, *item) and due_items(home) == {}
    found = item_holder(home, *item)
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
    wait_until(lambda: not is_item_held(home, *item))
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
    assert not is_held(path) and holder(path) is None
    assert path.exists() == (database_of(home.path) is None)
    path.write_text('{"pid": 1')  # cut off by a kill
    assert holder(path) is None
    with exclusive(path, "a test", patience=0):
        pass


def test_who_waits_is_told_once_for_whom_and_gives_up_in_one_sentence(tmp_path: Path) -> None:
    path, told = tmp_path / "new" / "some.lock", list[Holder | None]()
    with exclusive(path, "the first"):
        with (
            pytest.raises(TimeoutError) as caught,
            exclusive(path, "the second", waiting=told.append, patience=0.12),
        ):
            pass
        (one,) = told
        assert one == holder(path) and one is not None and one.name == ""
        assert str(caught.value) == f"{path} was held for more than 0.12 s by {one}"
        path.write_text("{}")
        with (
            pytest.raises(TimeoutError, match=r"more than 0 s by another$"),
            exclusive(path, "x", patience=0),
        ):
            pass
    with exclusive(path, "free", waiting=told.append):
        assert holder(path) is not None and len(told) == 1


def test_a_lock_is_had_by_the_second_once_the_first_lets_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, order = tmp_path / "some.lock", list[str]()

    def second(patience: float | None) -> None:
        with exclusive(path, "the second", waiting=lambda _: order.append("waits"), patience=patience):
            order.append("has it")

    for patience in (None, 600.0):
        with exclusive(path, "the first"):
            thread = threading.Thread(target=second, args=(patience,))
            thread.start()
            while order[-1:] != ["waits"] or not waiting_words():
                time.sleep(0.01)
            assert waiting_words().startswith("waiting since 0 s for the first, process ")
            said = StringIO()
            with monkeypatch.context() as patch:
                patch.setattr(loudness, "SILENCE_SECONDS", 0.05)
                patch.setattr(sys, "stderr", said)
                with loudness.heartbeat("trace x is at work"):
                    while "\n" not in said.getvalue():
                        time.sleep(0.01)
            assert said.getvalue().startswith("… waiting since 0 s for the first, process ")
            order.append("lets go")
        thread.join(600)
        assert waiting_words() == ""
    assert order == ["waits", "lets go", "has it"] * 2


def test_what_a_lock_file_says_is_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    assert holder(path) is None and not is_held(path), "it is not there"
    whole = {"pid": 1, "host": "h", "since": "s", "what": "w"}
    path.write_text(json.dumps(whole))
    assert str(holder(path)) == "w, process 1 on h since s"
    for other in ({**whole, "more": 1}, {"pid": 1}, [1], 7):
        path.write_text(json.dumps(other))
        assert holder(path) is None


def test_an_item_that_is_held_is_given_up_in_one_sentence_and_names_its_holder(home: Home) -> None:
    told = list[Holder | None]()
    with item_lock(home, "config/labels", "a.b"):
        with (
            pytest.raises(TimeoutError) as caught,
            item_lock(home, "config/labels", "a.b", waiting=told.append, patience=0.2),
        ):
            pass
        assert told == [item_holder(home, "config/labels", "a.b")] and told[0] is not None
        said = f"config~labels@a.b.lock was held for more than 0.2 s by {told[0]}"
        assert str(caught.value).replace("@a.b was", "@a.b.lock was").endswith(said)
        with item_lock(home, "config/labels", "a", waiting=told.append, patience=0):
            pass
    assert item_holder(home, "config/labels", "a.b") is None and len(told) == 1
    assert sync_lock(home) == home.path / "sync.lock"


@pytest.mark.parametrize("kept_in", ["files"], indirect=True)
def test_marks_of_a_dead_run_go_where_its_work_is_recorded(home: Home) -> None:
    """Its own and the earlier ones that it found; a later one is news."""
    run = "0123-4567-89ab-cdef"
    early = mark_due(home, "config/labels", "a.b", "early")
    own = mark_due(home, "config/labels", "a.b", INTERRUPTED, run)
    late = mark_due(home, "config/labels", "a.b", "late")
    other = mark_due(home, "config/labels", "a", "another item", run)
    third = mark_due(home, "tasks", "", "without a partition", run)
    assert own.name == "config~labels@a.b.0123456789ab.due"
    for mark, second in ((early, 1), (own, 2), (late, 3), (other, 2), (third, 2)):
        os.utime(mark, (second, second))
    asked = list[tuple[str, str]]()

    def recorded(asset: str, partition: str) -> bool:
        asked.append((asset, partition))
        return partition == "a.b"

    settle_recorded(home, "another-run", recorded)
    assert asked == [] and len(due_items(home)) == 3
    settle_recorded(home, run, recorded)
    assert sorted(asked) == [("config/labels", "a"), ("config/labels", "a.b"), ("tasks", "")]
    assert not early.exists() and not own.exists() and late.exists()
    third.write_text("")
    assert due_items(home) == {
        ("config/labels", "a"): "another item",
        ("config/labels", "a.b"): "late",
        ("tasks", ""): INTERRUPTED,
    }


@pytest.mark.parametrize("kept_in", ["files"], indirect=True)
def test_a_mark_that_another_removes_in_the_very_moment_is_no_fault(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with item_lock(home, "labels", "b", by="a-run") as lock:
        (mark,) = lock.marks
        mark.unlink()
        lock.settle()
    mark_due(home, "labels", "b", "again", "a-run")
    laid, asked = item_locks._laid, list[Path]()

    def vanishing(mark: Path) -> int:
        asked.append(mark)
        if len(asked) > 1:
            mark.unlink()
        return min(laid(mark), 1)

    monkeypatch.setattr(item_locks, "_laid", vanishing)
    settle_recorded(home, "a-run", lambda *_: True)
    assert len(asked) == 2 and due_items(home) == {}


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
    wait_until(lambda: not is_alive(home, other))
    assert is_alive(home, own)
    assert set(living(home)) == {own} and dead_here(home) == [other]
    assert forget_dead(home) == [other] and set(living(home)) == {own}
