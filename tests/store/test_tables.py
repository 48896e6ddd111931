"""Tables are written whole, versions follow content, wrong rows are told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.errors import InputError
from trace_assets.orchestration.recovery import _hash_unlisted
from trace_assets.records import TABLES, Task, TrainingPoint, TrajectoryHead
from trace_assets.records.table import from_frame, polars_schema, to_frame
from trace_assets.store import Store, folder_version, frame_version
from trace_assets.store.files import Home, replacing_folder
from trace_assets.store.history import metered
from trace_assets.store.manifest import manifest_of


def task(number: int, **changes: object) -> Task:
    return Task(task_id=f"desk/{number}", target="desk", task_batch="b", payload={"seed": number}).model_copy(
        update=changes
    )


def test_every_table_has_a_name_a_key_and_a_schema() -> None:
    names = [record.table for record in TABLES]
    assert len(set(names)) == len(names) and all(names)
    for record in TABLES:
        assert set(record.key) <= set(polars_schema(record))
        assert record.volatile <= set(polars_schema(record))


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=20), st.randoms())
@settings(max_examples=examples(30), deadline=None)
def test_version_ignores_order_and_sees_content(numbers: list[int], random: object) -> None:
    rows = [task(number) for number in numbers]
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    version = frame_version(to_frame(rows, Task), Task)
    assert frame_version(to_frame(shuffled, Task), Task) == version
    if rows:
        edited = [rows[0].model_copy(update={"instruction": "x"}), *rows[1:]]
        assert frame_version(to_frame(edited, Task), Task) != version
    assert from_frame(to_frame(shuffled, Task), Task) == sorted(rows, key=lambda row: row.task_id)


@pytest.mark.parametrize("mark", [*"\n\r\x0b\x0c\x1c\x1d\x1e\x85", "\u2028", "\u2029"])
def test_version_sees_texts_that_change_places_around_any_line_end(mark: str) -> None:
    texts = (f"A{mark}B", f"C{mark}B")
    one, other = (
        to_frame([task(n, instruction=text) for n, text in enumerate(order)], Task)
        for order in (texts, texts[::-1])
    )
    assert frame_version(one, Task) != frame_version(other, Task)


def test_json_columns_keep_the_order_of_their_keys() -> None:
    rows = [task(1, payload={"b": {"z": 1, "a": 2}, "a": 3})]
    back = from_frame(to_frame(rows, Task), Task)
    assert list(back[0].payload) == ["b", "a"] and list(back[0].payload["b"]) == ["z", "a"]


def test_volatile_columns_do_not_change_the_version() -> None:
    def head(seconds: float, reward: float) -> TrajectoryHead:
        return TrajectoryHead(
            trajectory_id="t",
            task_id="a",
            target="d",
            task_batch="b",
            policy="p",
            seconds=seconds,
            reward=reward,
        )

    def version(row: TrajectoryHead) -> str:
        return frame_version(to_frame([row], TrajectoryHead), TrajectoryHead)

    assert version(head(1.0, 0.5)) == version(head(2.0, 0.5))
    assert version(head(1.0, 0.5)) != version(head(1.0, 0.6))


def test_write_replaces_one_partition_only(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.write([task(1)], Task, "one")
    store.write([task(2)], Task, "two")
    assert store.write([task(1)], Task, "one") == first == store.version(Task, "one")
    assert store.partitions(Task) == ["one", "two"]
    assert [row.task_id for row in store.read(Task)] == ["desk/1", "desk/2"]
    store.drop(Task, "one")
    assert store.partitions(Task) == ["two"]


def test_empty_table_is_written_and_missing_one_reads_empty(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert not store.has(Task) and store.read(Task) == []
    store.write([], Task)
    assert store.has(Task) and store.frame(Task).schema == polars_schema(Task)


def test_doubled_key_is_refused_and_the_old_table_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write([task(1)], Task)
    with pytest.raises(InputError, match="desk/2"):
        store.write([task(2), task(2)], Task)
    assert [row.task_id for row in store.read(Task)] == ["desk/1"]


def test_interrupted_write_leaves_the_old_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.write([task(1)], Task)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        store.write([task(2)], Task)
    assert [row.task_id for row in store.read(Task)] == ["desk/1"]
    assert [file.name for file in (tmp_path / "tasks").iterdir()] == ["all.parquet"]


def test_row_that_does_not_fit_is_named(tmp_path: Path) -> None:
    frame = to_frame([task(1)], Task).with_columns(pl.lit("nowhere").alias("split"))
    with pytest.raises(InputError, match=r"row 0 of table 'tasks'.*'split'"):
        from_frame(frame, Task)


def test_a_field_that_older_files_lack_has_its_default_there(tmp_path: Path) -> None:
    """Also beside partitions that have it: their union holds nulls."""
    store = Store(tmp_path)
    point = TrainingPoint(name="old", iteration=1, reward_mean=0.5, reward_std=0.1, success_rate=0.5, n=8,
                          dead_groups=0.0)  # fmt: skip
    for name in ("old", "young"):
        store.write([point.model_copy(update={"name": name})], TrainingPoint, name)
    older = store.path(TrainingPoint, "old")
    pl.read_parquet(older).drop("redrawn_groups", "rollouts").write_parquet(older)
    assert [row.redrawn_groups for row in store.read(TrainingPoint)] == [0, 0]
    assert store.read(TrainingPoint)[0] == point


@pytest.mark.parametrize("partition", ["../x", "a/b", "", "a,b", ".hidden"])
def test_partition_names_cannot_leave_the_table(tmp_path: Path, partition: str) -> None:
    with pytest.raises(InputError, match="partition"):
        Store(tmp_path).path(Task, partition)


def test_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with replacing_folder(target) as building:
        (building / "a.txt").write_text("1")
    version = folder_version(target)
    with pytest.raises(RuntimeError), replacing_folder(target) as building:
        (building / "a.txt").write_text("2")
        raise RuntimeError
    assert folder_version(target) == version
    with replacing_folder(target) as building:
        (building / "a.txt").write_text("2")
    assert folder_version(target) != version
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_ledger_counts_finished_work_only(tmp_path: Path) -> None:
    store = Home.open(tmp_path)
    tables = Store(store.tables)
    with metered(tables, stage="s", asset="a", partition="p") as spending:
        spending.add("rollouts", 3, "episodes", cost_usd=0.5)
        spending.add("rollouts", 2, "episodes")
    with pytest.raises(ValueError), metered(tables, stage="s", asset="b"):
        raise ValueError
    from trace_assets.records import LedgerEntry

    rows = tables.read(LedgerEntry)
    assert {row.kind: row.quantity for row in rows}["rollouts"] == 5
    assert {row.asset for row in rows} == {"a"} and sum(row.cost_usd for row in rows) == 0.5


def homely(path: Path) -> Store:
    store = Store.of(Home(path))
    store.write([task(1), task(2)], Task, "b")
    store.write([], Task, "c")
    store.write([], Task, "d")  # equal to the one before, and no copy of it
    return store


@pytest.mark.parametrize("name", ["b-copy", "a", "b.sync-conflict-1"])
def test_a_copy_beside_a_table_is_no_second_part_of_it(tmp_path: Path, name: str) -> None:
    """As a backup by hand or a program that synchronizes folders lays it there."""
    store = homely(tmp_path)
    copy = store.path(Task, "b").with_stem(name)
    shutil.copy(store.path(Task, "b"), copy)
    with pytest.raises(InputError, match=rf"{name}\.parquet doubles rows of b\.parquet beside it; move it"):
        store.frame(Task)
    assert f"{name}.parquet doubles rows" in store.problem(Task)
    assert store.frame(Task, "b").height == 2
    hashed = _hash_unlisted(manifest_of(tmp_path))
    assert not hashed, "it was taken for one of ours"
    copy.unlink()
    assert store.frame(Task).height == 2 and not store.problem(Task)


def test_nothing_stands_beside_a_table_without_partitions(tmp_path: Path) -> None:
    store = Store.of(Home(tmp_path))
    store.write([task(1)], Task)
    old = store.path(Task).read_bytes()
    store.write([task(1), task(2)], Task)
    store.path(Task).with_stem("all-yesterday").write_bytes(old)
    with pytest.raises(InputError, match=r"all-yesterday\.parquet doubles rows of all\.parquet"):
        store.frame(Task)


def test_a_file_whose_entry_was_lost_is_taken_as_it_is(tmp_path: Path) -> None:
    store = homely(tmp_path)
    manifest = manifest_of(tmp_path)
    manifest.forget([manifest.name(store.path(Task, one)) for one in ("b", "c")])
    assert store.frame(Task).height == 2 and not store.problem(Task)
    assert len(_hash_unlisted(manifest)) == 2
