"""A history is what Dagster would have made, and made quicker."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import dagster as dg
import pytest
from alembic.script import ScriptDirectory

from trace_assets.errors import InputError
from trace_assets.orchestration import instance as module
from trace_assets.orchestration.instance import lay_run_file, old_schemas, open_instance, prepare_instance
from trace_assets.store import Home

FIRST, SECOND, THIRD = (str(UUID(int=n, version=4)) for n in (1, 2, 3))


@dg.op
def _nothing() -> None:
    pass


@dg.job
def _job() -> None:
    _nothing()


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    monkeypatch.setattr(module, "_made", {})
    with prepare_instance(Home.open(tmp_path / "home")) as instance:
        yield instance


def _file(instance: dg.DagsterInstance, run_id: str) -> Path:
    storage: Any = instance.event_log_storage
    return Path(storage.path_for_shard(run_id))


def _schema(file: Path) -> tuple[list[tuple[str, ...]], str, str]:
    with closing(sqlite3.connect(file)) as connection:
        tables = connection.execute("select type, name, sql from sqlite_master order by 1, 2").fetchall()
        (version,) = connection.execute("select version_num from alembic_version").fetchone()
        (mode,) = connection.execute("pragma journal_mode").fetchone()
        return tables, version, mode


def _run(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    assert _job.execute_in_process(instance=instance, run_id=run_id).success
    records = instance.get_records_for_run(run_id).records
    return [str(record.event_log_entry.dagster_event_type) for record in records]


def test_a_copied_file_is_what_dagster_makes_and_takes_a_runs_events(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage: Any = instance.event_log_storage
    made, real = [], storage._initdb
    monkeypatch.setattr(storage, "_initdb", lambda engine, **named: made.append(real(engine, **named)))
    lay_run_file(instance, FIRST)
    lay_run_file(instance, SECOND)
    assert len(made) == 1, "the second is a copy"
    modes = {_file(instance, name).stat().st_mode for name in (FIRST, SECOND, "index")}
    assert len(modes) == 1, "others may write to it where they may write to the history"
    by_itself = _run(instance, THIRD)
    assert _schema(_file(instance, FIRST)) == _schema(_file(instance, SECOND))
    assert _schema(_file(instance, SECOND)) == _schema(_file(instance, THIRD))
    assert by_itself[-1] == str(dg.DagsterEventType.RUN_SUCCESS)
    assert _run(instance, FIRST) == _run(instance, SECOND) == by_itself


def test_where_it_cannot_be_laid_dagster_makes_it(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(place: Path) -> Any:
        raise OSError(28, "No space left on device")

    lay_run_file(instance, FIRST)
    monkeypatch.setattr(module, "replacing_file", full)
    lay_run_file(instance, SECOND)
    assert not _file(instance, SECOND).exists()
    assert _run(instance, SECOND)[-1] == str(dg.DagsterEventType.RUN_SUCCESS)
    assert [path.name for path in _file(instance, SECOND).parent.glob("*.partial")] == []


def test_a_file_that_somebody_looks_at_is_not_kept(instance: dg.DagsterInstance) -> None:
    storage: Any = instance.event_log_storage
    with storage.run_connection(FIRST) as held:
        held.exec_driver_sql("select count(*) from event_logs")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(storage, "_db_lock", _Unlocked())
            lay_run_file(instance, FIRST)
    assert module._made == {}


class _Unlocked:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_a_history_in_memory_has_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_made", {})
    with dg.DagsterInstance.ephemeral() as instance:
        lay_run_file(instance, FIRST)
        assert module._made == {}
        assert _run(instance, FIRST)[-1] == str(dg.DagsterEventType.RUN_SUCCESS)


def test_migrations_are_read_once_in_a_process_however_many_homes_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, real = [], ScriptDirectory._load_revisions

    def counted(self: ScriptDirectory) -> Any:
        read.append(self.dir)
        return real(self)

    monkeypatch.setattr(ScriptDirectory, "_load_revisions", counted)
    for name in ("one", "two"):
        for _ in range(2):
            with prepare_instance(Home.open(tmp_path / name)) as instance:
                assert old_schemas(instance) == []
    assert len(read) <= 3, "of runs, events and schedules, each once"


def test_somebody_elses_history_is_not_opened_and_a_copy_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    umask = os.umask(0o002)
    try:
        home = Home.open(tmp_path / "home")
        prepare_instance(home).dispose()
    finally:
        os.umask(umask)
    databases = [file for file in home.dagster.rglob("*") if file.suffix == ".db"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in databases} == {0o664}, "a group's home is a group's"
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).suffix != ".db" and real(path, mode))
    for file in home.dagster.rglob("*.db-*"):
        file.unlink()
    with pytest.raises(InputError, match="is not writable"):
        Home.open(home.path)
    for opened in (prepare_instance(home), open_instance(home)):
        with opened as instance:
            assert instance.get_runs() == []
    assert not list(home.dagster.rglob("*.db-*")), "a log of this user's would lock its owner out"
