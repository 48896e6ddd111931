"""The DuckDB file of views: what BI tools and the duckdb shell see, and what it never overwrites."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.quick import one_of_each
from trace_assets.errors import InputError
from trace_assets.records import TABLES, Message, Trajectory
from trace_assets.records.table import polars_schema
from trace_assets.store import Home, Store, Warehouse
from trace_assets.store.trajectories import write_trajectories
from trace_assets.store.views import ready_queries
from trace_assets.store.warehouse_file import MARK, build_warehouse


def batch(home: Home, name: str, *passed: bool) -> None:
    trajectories = [
        Trajectory(
            trajectory_id=f"{name}-{number}",
            task_id="desk/1",
            target="desk",
            task_batch=name,
            policy="p",
            success=success,
            messages=(Message(role="user", content="it's me"),),
        )
        for number, success in enumerate(passed)
    ]
    write_trajectories(Store(home.tables), trajectories, name)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.open(tmp_path / "it's home")  # a quote, for what is quoted
    batch(home, "b1", True, False)
    return home


def ask(file: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("copy", one_of_each([False, True]))
def test_file_holds_all_tables_views_and_ready_queries(home: Home, tmp_path: Path, copy: bool) -> None:
    file = tmp_path / "trace.duckdb"
    made = build_warehouse(home, file, copy=copy)
    assert made.tables == tuple(record.table for record in TABLES)
    assert set(made.queries) == {f"q_{name}" for name in ready_queries()}
    assert {"gap_table", "tool_calls", "ancestors"} <= set(made.views)
    with duckdb.connect(str(file), read_only=True) as connection, Warehouse(home) as warehouse:
        for name in (*made.tables, *made.views):
            connection.execute(f'SELECT * FROM "{name}" LIMIT 1')
        for name in ready_queries():
            rows = connection.execute(f"FROM q_{name}").fetchall()
            assert rows == warehouse.ready(name).rows(), name
    assert ask(file, "SELECT round(wilson_low(8, 50), 3)") == [(0.083,)]
    ((comment,),) = ask(file, "SELECT comment FROM duckdb_views() WHERE view_name = 'q_pass_rate'")
    assert str(comment).startswith("Pass rate by target")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's home", "trace.duckdb"]


def test_views_follow_the_home_and_a_copy_does_not(home: Home, tmp_path: Path) -> None:
    live, copied = tmp_path / "live.duckdb", tmp_path / "copied.duckdb"
    build_warehouse(home, live)
    build_warehouse(home, copied, copy=True)
    batch(home, "b2", True)
    assert ask(live, "SELECT n, passed FROM q_pass_rate ORDER BY task_batch") == [(2, 1), (1, 1)]
    assert ask(copied, "SELECT n, passed FROM q_pass_rate") == [(2, 1)]
    shutil.rmtree(home.path)
    assert ask(copied, "SELECT content FROM messages LIMIT 1") == [("it's me",)]
    with pytest.raises(duckdb.IOException, match="No files found"):
        ask(live, "FROM messages")
    ((note,),) = ask(live, f"SELECT note FROM {MARK}")
    assert str(home.tables) in str(note) and "trace warehouse build" in str(note)


def test_tables_that_do_not_exist_yet_are_empty_with_their_columns(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "trace.duckdb"
    build_warehouse(home, file)
    with duckdb.connect(str(file), read_only=True) as connection:
        for record in TABLES:
            names = [row[0] for row in connection.execute(f'DESCRIBE "{record.table}"').fetchall()]
            assert names == list(polars_schema(record)), record.table
    assert ask(file, "SELECT count(*) FROM adapters") == [(0,)]


def test_building_again_replaces_a_warehouse_and_nothing_else(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "trace.duckdb"
    build_warehouse(home, file)
    reader = duckdb.connect(str(file), read_only=True)
    build_warehouse(home, file, copy=True)
    assert reader.execute("SELECT copied FROM " + MARK).fetchall() == [(False,)]
    reader.close()
    assert ask(file, f"SELECT copied FROM {MARK}") == [(True,)]
    own = tmp_path / "notes.txt"
    own.write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt exists and was not built"):
        build_warehouse(home, own)
    assert own.read_text() == "mine"
    foreign = tmp_path / "sales.duckdb"
    duckdb.connect(str(foreign)).execute("CREATE TABLE sales AS SELECT 1 AS n").close()
    with pytest.raises(InputError, match="not built by"):
        build_warehouse(home, foreign)
    assert ask(foreign, "FROM sales") == [(1,)]


def test_place_that_cannot_be_written_is_told(home: Home, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.duckdb cannot be written"):
        build_warehouse(home, tmp_path / "nowhere" / "x.duckdb")
    with pytest.raises(InputError, match="exists and was not built"):
        build_warehouse(home, tmp_path)


def test_failure_half_way_leaves_the_old_file(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "trace.duckdb"
    build_warehouse(home, file)
    (home.tables / "tasks").mkdir()
    (home.tables / "tasks" / "b1.parquet").write_bytes(b"broken")
    with pytest.raises(InputError, match="'tasks' cannot be read"):
        build_warehouse(home, file)
    assert ask(file, "SELECT count(*) FROM trajectories") == [(2,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's home", "trace.duckdb"]


@pytest.mark.ci
def test_command_builds_and_says_how_to_open(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "trace.duckdb"
    environment = {"TRACE_HOME": str(home.path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "trace_assets", "warehouse", "build", str(file)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "duckdb -readonly" in done.stdout and f"{len(TABLES)} views" in done.stdout
    done = subprocess.run([*command, "--json"], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["copied"] is False
    wrong = subprocess.run([*command[:-1], "/nowhere/x"], env=environment, capture_output=True, text=True)
    assert wrong.returncode == 2 and "/nowhere/x cannot be written" in wrong.stderr
