"""Several processes on one home: nothing is lost, doubled, half written or made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.assets.scripted_loop import Loop, stand_ins
from tests.assets.sync_process import PARTS
from trace_assets.errors import Unavailable
from trace_assets.orchestration.sync import sync
from trace_assets.orchestration.worker_pool import WorkerPool
from trace_assets.records import TABLES, Label, LedgerEntry, MessageRow, Record, TrajectoryHead
from trace_assets.store import Home, Store
from trace_assets.store.content import frame_version
from trace_assets.store.item_locks import is_item_held
from trace_assets.store.locks import exclusive, sync_lock
from trace_assets.store.warehouse import Warehouse

SCRIPT = Path(__file__).with_name("sync_process.py")
ROOT = SCRIPT.parent.parent.parent


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(home), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err[-3000:]
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert not found["failed"], found["failed"]
    return found


def until(condition: Any, process: subprocess.Popen[str]) -> None:
    give_up = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < give_up
        time.sleep(0.02)


COUNTED: tuple[type[Record], ...] = tuple(
    record for record in TABLES if record is not LedgerEntry and not record.table.startswith("lineage")
)
"""Tables whose content does not name runs or times."""


def contents(home: Path) -> dict[str, str]:
    store = Store(Home.open(home).tables)
    return {
        f"{record.table}/{partition}": frame_version(store.frame(record, partition), record)
        for record in COUNTED
        for partition in store.partitions(record)
    }


def made_how_often(home: Path) -> Counter[tuple[str, str]]:
    rows = Store(Home.open(home).tables).read(LedgerEntry)
    return Counter((row.asset, row.partition) for row in rows if row.kind == "wall")


@pytest.mark.parametrize(("cores", "asked", "threads"), [(8, None, "4"), (1, None, "1"), (8, "3", "3")])
def test_workers_share_the_cores_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, cores: int, asked: str | None, threads: str
) -> None:
    monkeypatch.setattr("trace_assets.orchestration.worker_pool.whole_cores", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert WorkerPool(2).variables["OMP_NUM_THREADS"] == threads


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one sync alone makes, on a home of its own."""
    with stand_ins():
        loop = Loop(tmp_path_factory.mktemp("alone"))
        loop.sync(selection=PARTS["sync"])
    return contents(loop.home.path)


class Reader:
    """Reads while others write, and keeps what must never be seen."""

    def __init__(self, home: Path, final: dict[str, int]) -> None:
        self.home, self.final = Home.open(home), final
        self.reads = 0
        self.seen: dict[str, set[int]] = {name: set() for name in final}

    def look(self) -> None:
        """Read every watched table both ways; a broken file raises."""
        store = Store(self.home.tables)
        with Warehouse(self.home) as warehouse:
            for record in (TrajectoryHead, MessageRow, Label):
                key = ", ".join(record.key)
                rows, distinct = warehouse.query(
                    f'SELECT count(*), count(DISTINCT ({key})) FROM "{record.table}"'
                ).row(0)
                assert rows == distinct, f"doubled rows in {record.table}"
                frame = store.frame(record)
                assert not frame.select(pl.struct(record.key).is_duplicated().any()).item()
                self.seen[record.table] |= {rows, frame.height}
        self.reads += 1


@pytest.fixture(scope="module")
def final(undisturbed: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    home = next(path for path in tmp_path_factory.getbasetemp().glob("alone*"))
    store = Store(Home.open(home).tables)
    yield {record.table: store.frame(record).height for record in (TrajectoryHead, MessageRow, Label)}


@pytest.mark.slow
def test_two_syncs_at_once_make_everything_once_and_a_reader_sees_whole_tables_only(
    tmp_path: Path, undisturbed: dict[str, str], final: dict[str, int]
) -> None:
    processes = [start(tmp_path, "sync"), start(tmp_path, "sync")]
    reader = Reader(tmp_path, final)
    while any(process.poll() is None for process in processes):
        reader.look()
        time.sleep(0.1)
    results = [result(process) for process in processes]
    worked, waited = sorted(results, key=lambda one: -len(one["made"]))
    assert len(worked["made"]) == len(set(worked["made"])) > 15
    assert (
        waited["made"] == [] and len(waited["waited"]) == 1 and "trace sync, process" in waited["waited"][0]
    )
    assert contents(tmp_path) == undisturbed
    assert set(made_how_often(tmp_path).values()) == {1}
    assert reader.reads >= 5
    for table, seen in reader.seen.items():
        assert seen <= {0, final[table]}, f"{table} was seen with {seen} rows"


@pytest.mark.slow
def test_a_sync_leaves_an_item_to_the_run_that_makes_it_already(
    tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    home = Home.open(tmp_path)
    result(start(tmp_path, "begin"))
    by_hand = start(tmp_path, "trajectories/embedded", "trajectories", "4")
    until(lambda: is_item_held(home, "trajectories", "embedded"), by_hand)
    synced = result(start(tmp_path, "sync"))
    assert result(by_hand)["made"] == ["trajectories[embedded]"]
    assert "trajectories[embedded]" not in synced["made"] and "labels[embedded]" in synced["made"]
    assert contents(tmp_path) == undisturbed
    assert made_how_often(tmp_path)["trajectories", "embedded"] == 1


@pytest.mark.ci
def test_two_runs_of_one_item_take_turns(tmp_path: Path) -> None:
    one = start(tmp_path, "base_model", "base_model", "1.5")
    two = start(tmp_path, "base_model", "base_model", "1.5")
    assert result(one)["made"] == result(two)["made"] == ["base_model"]
    spans = sorted(
        tuple(map(float, line.split())) for line in (tmp_path / "work.log").read_text().splitlines()
    )
    assert len(spans) == 2 and spans[0][1] <= spans[1][0]


@pytest.mark.slow
def test_an_interrupted_sync_leaves_nothing_behind_and_the_next_goes_on(
    tmp_path: Path, undisturbed: dict[str, str]
) -> None:
    home = Home.open(tmp_path)
    cut = start(tmp_path, "sync", "tasks", "60")
    until(lambda: is_item_held(home, "tasks", "embedded"), cut)
    os.killpg(cut.pid, signal.SIGINT)
    out, err = cut.communicate(timeout=900)
    assert cut.returncode == 130, (out, err[-2000:])
    assert not is_item_held(home, "tasks", "embedded")
    synced = result(start(tmp_path, "sync"))
    assert "tasks[embedded]" in synced["made"] and contents(tmp_path) == undisturbed


def test_who_will_not_wait_is_told_who_works(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    study = loop.study()
    with exclusive(sync_lock(loop.home), "trace sync"), pytest.raises(Unavailable) as told:
        sync(loop.definitions(study), loop.instance, study, {}, jobs=0, waiting=None)
    assert told.value.exit_code == 3
    assert f"process {os.getpid()}" in str(told.value) and str(tmp_path) in str(told.value)
