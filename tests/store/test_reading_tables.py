"""How a table is read back: large files as small ones, what is wrong with a file, and how it comes back."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from trace_assets.errors import InputError
from trace_assets.records import LedgerEntry, Task
from trace_assets.records.table import polars_schema, to_frame
from trace_assets.store import Store, frame_version, tables
from trace_assets.store.files import Home
from trace_assets.store.manifest import manifest_of
from trace_assets.store.tables import is_readable


def task(number: int) -> Task:
    return Task(task_id=f"desk/{number}", target="desk", task_batch="b", payload={"seed": number})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store.of(Home(tmp_path))
    made.write([task(1), task(2)], Task, "b")
    return made


def alter(path: Path) -> None:
    """Change one byte in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("at_once", [0, 1 << 28], ids=["large", "small"])
def test_a_file_is_compared_whatever_its_size(
    store: Store, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(tables, "READ_AT_ONCE", at_once)
    assert [row.task_id for row in store.read(Task)] == ["desk/1", "desk/2"]
    path = store.path(Task, "b")
    alter(path)
    with pytest.raises(InputError) as caught:
        store.frame(Task, "b")
    assert str(caught.value) == (
        f"table 'tasks': {path} is not what was written: its content was altered, or it is another file; run "
        "`trace sync`, which makes it again."
    )


@pytest.mark.parametrize("at_once", [0, 1 << 28], ids=["large", "small"])
def test_what_is_no_table_is_one_sentence_where_nothing_says_what_it_should_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(tables, "READ_AT_ONCE", at_once)
    store = Store(tmp_path)
    store.write([task(1)], Task, "b")
    path = store.path(Task, "b")
    assert is_readable(path)
    path.write_bytes(b"no Parquet")
    assert not is_readable(path) and not is_readable(tmp_path / "nowhere")
    with pytest.raises(InputError) as caught:
        store.frame(Task, "b")
    said = str(caught.value)
    assert said.startswith(f"{path} cannot be read (") and "\n" not in said
    assert said.endswith("); move it away and run `trace sync`, which makes it again.")


def test_a_file_that_is_gone_is_no_table_with_fewer_rows(store: Store) -> None:
    store.write([task(3)], Task, "c")
    path = store.path(Task, "b")
    path.unlink()
    assert store.partitions(Task) == ["b", "c"] and store.has(Task, "b") and not store.has(Task, "d")
    for read in (store.frame, store.read, lambda record: store.version(record, "b"), _scanned(store)):
        with pytest.raises(InputError, match=r"table 'tasks': .*b\.parquet .*run `trace sync`"):
            read(Task)
    assert store.problem(Task).startswith(f"table 'tasks': {path} ")
    assert [row.task_id for row in store.read(Task, "c")] == ["desk/3"]
    store.drop(Task, "b")
    assert store.partitions(Task) == ["c"] and not store.has(Task, "b") and store.problem(Task) == ""
    assert store.frame(Task, "b").schema == polars_schema(Task) and store.version(Task, "b") is None


def _scanned(store: Store):  # type: ignore[no-untyped-def]
    return lambda record: store.scan(record, "b")


def test_how_a_lost_table_comes_back_is_said_by_its_record_or_by_whoever_opened_it(tmp_path: Path) -> None:
    store = Store.of(Home(tmp_path))
    entry = LedgerEntry(
        recorded_at=datetime.now(UTC), stage="s", asset="a", kind="wall", quantity=1.0, unit="s"
    )
    for one, record in ((entry, LedgerEntry), (task(1), Task)):
        store.write([one], record)  # type: ignore[list-item, type-var]
        store.path(record).unlink()
    history = (
        "it is history that nothing makes again: put the file back from a backup, or go on without it by"
    )
    assert f"; {history} `trace doctor --accept-losses`." in store.problem(LedgerEntry)
    assert store.problem(Task).endswith("; run `trace sync`, which makes it again.")
    other = Store(store.folder, manifest_of(tmp_path), "take it from the shelf")
    assert other.problem(Task).endswith("; take it from the shelf.")


def test_of_a_very_large_file_a_query_compares_size_and_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([task(1).model_copy(update={"instruction": os.urandom(200_000).hex()})], Task, "b")
    path = store.path(Task, "b")
    assert path.stat().st_size > 3 << 16, "or its ends are the whole of it"
    alter(path)
    with monkeypatch.context() as small:
        small.setattr(tables, "ENOUGH", path.stat().st_size - 1)
        assert store.problem(Task) == "", "what is between its ends was not read"
    assert "is not what was written" in store.problem(Task)


def test_rows_lie_in_groups_in_the_order_of_their_keys(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(tables, "ROW_GROUP_ROWS", 2)
    version = store.write([task(number) for number in (5, 3, 1, 4, 2)], Task, "b")
    file = pq.ParquetFile(store.path(Task, "b"))
    assert [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)] == [2, 2, 1]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert version == store.version(Task, "b") == frame_version(store.frame(Task, "b"), Task)
    found = store.scan(Task, "b").select("task_id").collect()["task_id"].to_list()
    assert found == [f"desk/{number}" for number in range(1, 6)]


def test_rows_that_share_a_key_are_counted_and_one_is_shown(store: Store) -> None:
    frame = to_frame([task(1), task(2), task(3)], Task)
    with pytest.raises(InputError) as caught:
        store.write_frame(pl.concat([frame, frame[:2]]), Task, "b")
    assert "table 'tasks' (b) would hold 4 rows that share a key, such as {'task_id': 'desk/" in str(
        caught.value
    )
    assert str(caught.value).endswith("each task_id may occur once.")


def test_a_store_beside_a_manifest_takes_it_and_one_without_compares_nothing(store: Store) -> None:
    path = store.path(Task, "b")
    path.unlink()
    beside = Store(store.folder)
    assert beside.manifest is not None and beside.has(Task, "b")
    alone = Store(store.folder / "elsewhere")
    assert alone.manifest is None and alone.partitions(Task) == [] and alone.problem(Task) == ""
    alone.check(Task, "b")
    assert alone.version(Task) is None
