"""A finished file of one store becomes a partition of another: linked where it can be, copied elsewhere."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import polars as pl
import pytest

from trace_assets.errors import InputError
from trace_assets.records import Task
from trace_assets.store import Store


def task(number: int) -> Task:
    return Task(task_id=f"desk/{number}", target="desk", task_batch="b")


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """A partition of another store."""
    other = Store(tmp_path / "other")
    other.write([task(1), task(2)], Task, "part")
    return other.path(Task, "part")


@pytest.mark.parametrize("linked", [True, False], ids=["one file system", "two file systems"])
def test_it_is_taken_whole_with_its_version(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    if not linked:

        def apart(*_: object, **__: object) -> None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        monkeypatch.setattr(os, "link", apart)
    before, store = finished.read_bytes(), Store(tmp_path / "own")
    for _ in range(2):  # the second time in the place of the first
        version = store.adopt(finished, Task, "here")
        assert version == store.version(Task, "here") == Store(tmp_path / "other").version(Task, "part")
        assert [row.task_id for row in store.read(Task, "here")] == ["desk/1", "desk/2"]
    assert finished.read_bytes() == before == store.path(Task, "here").read_bytes()
    assert os.path.samefile(finished, store.path(Task, "here")) is linked
    assert sorted(file.name for file in store.path(Task).parent.glob("[!.]*")) == ["here.parquet"]


def test_without_a_partition_it_is_the_whole_table(tmp_path: Path, finished: Path) -> None:
    store = Store(tmp_path / "own")
    store.adopt(finished, Task)
    assert store.has(Task) and not store.has(Task, "part")


def test_a_file_without_a_version_is_none_of_a_store(tmp_path: Path) -> None:
    file = tmp_path / "foreign.parquet"
    pl.DataFrame({"task_id": ["x"]}).write_parquet(file)
    store = Store(tmp_path / "own")
    with pytest.raises(InputError, match=r"foreign\.parquet holds no content version"):
        store.adopt(file, Task)
    assert not store.has(Task)


def test_an_adoption_that_breaks_off_leaves_the_old_partition(
    tmp_path: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "own")
    store.write([task(7)], Task)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", full)
        patched.setattr("shutil.copyfile", full)
        with pytest.raises(OSError, match="No space"):
            store.adopt(finished, Task)
    assert [row.task_id for row in store.read(Task)] == ["desk/7"]


def test_dropping_what_is_not_there_is_no_fault(tmp_path: Path) -> None:
    Store(tmp_path).drop(Task, "none")
