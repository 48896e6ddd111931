"""What is kept open of Dagster's history while work goes on, and that it is closed after it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.snap import JobSnap
from sqlalchemy import event
from sqlalchemy.pool import Pool

from trace_assets.definitions import build
from trace_assets.orchestration import cheaper_dagster
from trace_assets.orchestration.cheaper_dagster import asset_job, kept_connections
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.materialization import materialize_here
from trace_assets.orchestration.planner import Item
from trace_assets.settings import Settings
from trace_assets.store import Home
from trace_assets.study import Study


@pytest.fixture
def opened() -> Iterator[Counter[str]]:
    """How often each database was opened, by its file's name."""
    counts = Counter[str]()

    def count(connection: sqlite3.Connection, _: object) -> None:
        (row,) = connection.execute("PRAGMA database_list").fetchall()
        counts[Path(row[2]).name] += 1

    event.listen(Pool, "connect", count)
    yield counts
    event.remove(Pool, "connect", count)


def logs(home: Home) -> list[str]:
    """Return the logs of databases that somebody has open, or did not close."""
    return sorted(file.name for file in home.dagster.rglob("*.db-wal"))


def test_a_database_is_opened_once_while_work_goes_on_and_closed_after_it(
    tmp_path: Path, opened: Counter[str]
) -> None:
    home = Home.open(tmp_path)
    prepare_instance(home).dispose()
    with prepare_instance(home) as instance, kept_connections():
        instance.get_runs()
        opened.clear()
        with kept_connections():
            for number in range(6):
                instance.add_dynamic_partitions("task_batch", [f"batch-{number}"])
        assert opened == {"index.db": 1} and logs(home) == ["index.db-wal", "runs.db-wal"]
        read = (
            "import dagster as dg; print(len(dg.DagsterInstance.get().get_dynamic_partitions('task_batch')))"
        )
        environment = {**os.environ, "DAGSTER_HOME": str(home.dagster)}
        done = subprocess.run(
            [sys.executable, "-c", read], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["6"]  # what is committed is there for others
    assert logs(home) == []
    with prepare_instance(home) as instance:
        opened.clear()
        assert len(instance.get_dynamic_partitions("task_batch")) == 6
        instance.get_dynamic_partitions("task_batch")
        assert opened["index.db"] > 1  # as Dagster does where nobody asks for more


def test_what_fails_leaves_nothing_open(tmp_path: Path) -> None:
    home = Home.open(tmp_path)
    with prepare_instance(home) as instance, pytest.raises(KeyboardInterrupt), kept_connections():
        instance.get_runs()
        assert logs(home) == ["runs.db-wal"]
        raise KeyboardInterrupt
    assert logs(home) == []


def test_a_child_lets_go_of_its_parents_connections(tmp_path: Path) -> None:
    home = Home.open(tmp_path)
    with prepare_instance(home) as instance, kept_connections():
        instance.add_dynamic_partitions("task_batch", ["one"])
        child = os.fork()
        if child == 0:
            os._exit(0 if not cheaper_dagster._kept.engines and not cheaper_dagster._kept.users else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert logs(home) == ["index.db-wal"]
        assert instance.get_dynamic_partitions("task_batch") == ["one"]


def test_runs_of_the_same_assets_are_described_once(
    tmp_path: Path, opened: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study(Home.open(tmp_path), Settings())
    definitions, items = build(study), [Item("config/discovery", "")]
    described = list[str]()
    describe = JobSnap.from_job_def.__func__  # type: ignore[attr-defined]

    def described_as(kind: type[JobSnap], job: dg.JobDefinition) -> JobSnap:
        described.append(job.name)
        snapshot: JobSnap = describe(kind, job)
        return snapshot

    monkeypatch.setattr(JobSnap, "from_job_def", classmethod(described_as))
    with prepare_instance(study.home) as instance:
        first = materialize_here(definitions, study, instance, items, True)
        once = len(described)
        opened.clear()
        again = materialize_here(definitions, study, instance, items, True)
        assert first[0].made and again[0].made and 0 < once == len(described)
        one, other = instance.get_runs()
        assert one.job_snapshot_id == other.job_snapshot_id and one.run_id != other.run_id
        # Each database a few times, however many events were recorded.
        assert sum(opened.values()) <= 6 < len(instance.all_logs(one.run_id))
        other_item = materialize_here(definitions, study, instance, [Item("config/labels", "")], True)
        assert other_item[0].made and len(described) > once
    assert logs(study.home) == []


def test_a_dagster_that_is_built_otherwise_works_as_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is reached for in Dagster makes it faster; nothing hangs on it."""
    monkeypatch.setattr(cheaper_dagster, "_STORAGES", ("dagster._core.storage.nowhere", "dagster.version"))
    monkeypatch.setattr(cheaper_dagster, "COMPUTE_LOGS", "dagster._core.execution.nowhere")
    monkeypatch.delattr(dg.JobDefinition, "as_ephemeral_job")
    study = Study(Home.open(tmp_path), Settings())
    definitions = build(study)
    assert asset_job(definitions) is definitions.resolve_implicit_global_asset_job_def()
    with kept_connections():
        cheaper_dagster.show_by_threads()
