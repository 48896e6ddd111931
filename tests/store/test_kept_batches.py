"""A process puts a batch of trajectories together once, and notices every change of its files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.records import CheckRow, Message, MessageRow, Trajectory, TrajectoryHead
from trace_assets.store import Home, Store, trajectories
from trace_assets.store.trajectories import Kept, read_trajectories, write_trajectories


def run(name: str, target: str = "desk", said: str = "hello") -> Trajectory:
    return Trajectory(
        trajectory_id=name,
        task_id=f"desk/{name}",
        target=target,
        task_batch="b",
        policy="p",
        messages=(Message(role="user", content=said), Message(role="assistant", content="yes")),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two batches in a home."""
    store = Store.of(Home.open(tmp_path / "home"))
    write_trajectories(store, [run("a1"), run("a2", "shop")], "a")
    write_trajectories(store, [run("b1")], "b")
    return store


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str | None]:
    """How often each batch was put together; nothing is kept at first."""
    calls, real = Counter[str | None](), trajectories._put_together

    def put(store: Store, partition: str | None, target: str | None) -> list[Trajectory]:
        calls[partition] += 1
        return real(store, partition, target)

    monkeypatch.setattr(trajectories, "_put_together", put)
    monkeypatch.setattr(trajectories, "_kept", Kept(trajectories.MOST_MESSAGES))
    return calls


def names(found: list[Trajectory]) -> list[str]:
    return [one.trajectory_id for one in found]


def test_a_batch_is_put_together_once(store: Store, made: Counter[str | None]) -> None:
    assert names(read_trajectories(store)) == ["a1", "a2", "b1"]
    assert names(read_trajectories(store, "a")) == ["a1", "a2"]
    assert names(read_trajectories(store, target="shop")) == ["a2"]
    other = Store.of(Home.open(store.folder.parent))
    assert read_trajectories(other) == read_trajectories(store)
    assert made == {"a": 1, "b": 1}
    first = read_trajectories(store, "a")
    first.clear()  # the list is the reader's own
    assert names(read_trajectories(store, "a")) == ["a1", "a2"]


def test_of_one_target_alone_nothing_is_kept(store: Store, made: Counter[str | None]) -> None:
    assert names(read_trajectories(store, target="shop")) == ["a2"]
    assert names(read_trajectories(store)) == ["a1", "a2", "b1"] and made == {"a": 2, "b": 2}


def test_what_is_replaced_is_read_anew(store: Store, made: Counter[str | None]) -> None:
    before = read_trajectories(store)
    write_trajectories(store, [run("b1", said="other")], "b")
    after = read_trajectories(store)
    assert after[:2] == before[:2] and after[2].messages[0].content == "other"
    assert made == {"a": 1, "b": 2}
    write_trajectories(store, [], "b")
    assert names(read_trajectories(store)) == ["a1", "a2"]


@pytest.mark.parametrize("record", [TrajectoryHead, MessageRow, CheckRow])
@pytest.mark.parametrize("damage", ["gone", "altered"])
def test_what_is_damaged_is_told_of(
    store: Store, made: Counter[str | None], record: Any, damage: str
) -> None:
    for _ in range(2):
        read_trajectories(store)
    file = store.path(record, "a")
    if damage == "gone":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    for partition in ("a", None):
        with pytest.raises(InputError, match=record.table):
            read_trajectories(store, partition)
    assert names(read_trajectories(store, "b")) == ["b1"]


def test_rows_of_one_run_in_two_batches_belong_together(store: Store, made: Counter[str | None]) -> None:
    write_trajectories(store, [run("a1", said="again")], "b")
    found = read_trajectories(store)
    assert names(found) == ["a1", "a2", "a1"] and len(found[0].messages) == 4 and made[None] == 1


def test_without_a_manifest_nothing_is_kept(tmp_path: Path, made: Counter[str | None]) -> None:
    bare = Store(tmp_path / "bare")
    write_trajectories(bare, [run("a1")], "a")
    for _ in range(2):
        assert names(read_trajectories(bare)) == ["a1"]
    assert made == {"a": 2} and read_trajectories(Store(tmp_path / "none")) == []


def test_no_more_messages_are_kept_than_may_be(store: Store, made: Counter[str | None]) -> None:
    kept, contents = Kept(5), {key: trajectories._content(store, key) for key in "ab"}
    a, b = (contents[key] for key in "ab")
    assert a is not None and b is not None
    both = {key: read_trajectories(store, key) for key in "ab"}
    kept.put(b, both["b"])
    kept.put(a, both["a"])
    assert kept.get(b) is None and kept.get(a) == both["a"], "six messages: the oldest batch went"
    kept.put(b, [])
    assert kept.get(a) is not None and kept.get(b) == []
    kept.put(a, both["a"] * 2)
    assert kept.get(a) == both["a"] and kept.get(b) == [], "what is too large drives nothing out"


def test_a_batch_beyond_what_may_be_kept_is_read_each_time(
    store: Store, made: Counter[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectories, "_kept", Kept(3))
    for _ in range(2):
        assert names(read_trajectories(store)) == ["a1", "a2", "b1"]
    assert made == {"a": 2, "b": 1}
