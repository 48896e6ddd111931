"""SQL reads everything of a home and nothing else, writes nothing, and says what is wrong with a query."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest

import trace_assets
from trace_assets.errors import InputError
from trace_assets.records import TABLES, Message, MessageRow, Task, ToolCall, Trajectory, TrajectoryHead
from trace_assets.records.table import polars_schema
from trace_assets.store import Home, Store, Warehouse
from trace_assets.store.trajectories import read_trajectories, write_trajectories
from trace_assets.store.views import scripts, touched


def trajectory(number: int, success: bool | None) -> Trajectory:
    call = ToolCall(id="c1", name="get_order", arguments={"order": "A1", "né": [1, {"x": None}]})
    return Trajectory(
        trajectory_id=f"t{number}",
        task_id=f"desk/{number // 2}",
        target="desk",
        task_batch="b1",
        policy="p",
        success=success,
        reward=None if success is None else float(success),
        n_messages=3,
        messages=(
            Message(role="user", content="where is A1?"),
            Message(role="assistant", tool_calls=(call,)),
            Message(
                role="tool", content="no such order", tool_call_id="c1", tool_name="get_order", is_error=True
            ),
        ),
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path)


def fill(home: Home) -> Home:
    write_trajectories(Store(home.tables), [trajectory(0, True)], "b1")
    write_trajectories(Store(home.tables), [trajectory(1, False), trajectory(2, None)], "b2")
    return home


@pytest.fixture
def filled(home: Home) -> Home:
    return fill(home)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """A filled warehouse, asked one question after the other: whatever it is asked, it stays as it is."""
    with Warehouse(fill(Home.open(tmp_path_factory.mktemp("opened") / "home"))) as warehouse:
        yield warehouse


def test_characters_of_the_folder_s_name_choose_no_files_and_no_values(tmp_path: Path) -> None:
    """DuckDB takes `[3]` and `*` for patterns, and `policy=other` for a column; polars the patterns."""
    home = Home.open(tmp_path / "policy=other" / "it's [3] 100% *?")
    store = Store.of(home)
    write_trajectories(store, [trajectory(0, True)], "b1")
    with Warehouse(home) as sql:
        assert sql.query("SELECT policy, target FROM trajectories").rows() == [("p", "desk")]
    assert store.scan(TrajectoryHead, "b1").collect().height == store.frame(TrajectoryHead, "b1").height == 1


def test_trajectories_come_back_equal(home: Home) -> None:
    store = Store(home.tables)
    written = [trajectory(0, True), trajectory(1, False), trajectory(2, None)]
    write_trajectories(store, written, "b1")
    assert read_trajectories(store) == written
    assert read_trajectories(store, target="other") == []


def test_views_see_new_batches_and_join_results(filled: Home) -> None:
    with Warehouse(filled) as warehouse:
        calls = warehouse.query("SELECT * FROM tool_calls ORDER BY trajectory_id")
        assert calls["result_index"].to_list() == [2, 2, 2]
        assert calls["is_error"].all()
        write_trajectories(Store(filled.tables), [trajectory(5, True)], "b3")
        assert warehouse.query("SELECT count(*) FROM trajectories").item() == 4
        assert warehouse.row_counts()["messages"] == 12


def test_call_gets_the_next_result_of_its_id(home: Home) -> None:
    def call(*ids: str) -> Message:
        return Message(
            role="assistant", tool_calls=tuple(ToolCall(id=one, name=f"tool_{one}") for one in ids)
        )

    def result(id: str, content: str, wrong: bool = False) -> Message:
        return Message(role="tool", tool_call_id=id, content=content, is_error=wrong)

    said = (
        result("a", "before any call"),
        call("a", "b"),
        result("b", "of b"),
        result("a", "of the first a", wrong=True),
        call("a"),
        call("c"),
        result("a", "of the second a"),
    )
    own = trajectory(0, True).model_copy(update={"messages": said, "n_messages": len(said)})
    write_trajectories(Store(home.tables), [own, trajectory(1, True)], "b1")
    with Warehouse(home) as warehouse:
        calls = warehouse.query(
            "SELECT call_index, tool_call_id, result, result_index, is_error FROM tool_calls "
            "WHERE trajectory_id = 't0' ORDER BY ALL"
        )
    assert calls.rows() == [
        (1, "a", "of the first a", 3, True),
        (1, "b", "of b", 2, False),
        (4, "a", "of the second a", 6, False),
        (5, "c", None, None, False),
    ]


def test_no_progress_bar_gets_into_the_output(home: Home) -> None:
    with Warehouse(home) as warehouse:
        assert warehouse.query("SELECT current_setting('enable_progress_bar')").item() in (False, "false")


def test_columns_are_the_records_also_where_nothing_was_written(home: Home) -> None:
    with Warehouse(home) as warehouse:
        for record in TABLES:
            frame = warehouse.query(f'SELECT * FROM "{record.table}"')
            assert frame.schema == polars_schema(record), record.table


def test_table_of_an_earlier_version_has_its_new_columns_as_null(home: Home) -> None:
    Store(home.tables).write([trajectory(0, True).head()], TrajectoryHead, "old")
    file = home.tables / "trajectories" / "old.parquet"
    pl.read_parquet(file).drop("stop", "cost_usd").write_parquet(file)
    with Warehouse(home) as warehouse:
        frame = warehouse.query("SELECT * FROM trajectories")
        assert frame.columns == list(polars_schema(TrajectoryHead)) and frame["stop"].to_list() == [None]
        assert warehouse.ready("pass_rate")["n"].to_list() == [1]


def test_what_spills_lies_in_a_private_folder_that_goes_with_it(home: Home) -> None:
    with Warehouse(home) as warehouse:
        (spill,) = warehouse.query("SELECT current_setting('temp_directory') AS d")["d"].to_list()
        assert stat.S_IMODE(os.stat(spill).st_mode) == 0o700 and str(os.getpid()) not in spill
    assert not Path(spill).exists()


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("FROM labels", {"labels"}),
        ('SELECT count(*) FROM "Labels" -- and messages', {"labels", "messages"}),
        ("FROM failures", {"trajectories", "triage"}),
        ("SELECT 1", set()),
        ("FROM query('FROM lab' || 'els')", None),
        ("FROM '/home/tables/l*/all.parquet'", None),
        ("FROM read_blob('x')", None),
    ],
)
def test_the_tables_that_a_query_may_read(query: str, tables: set[str] | None) -> None:
    every = [record.table for record in TABLES]
    found = touched(query, every, scripts())
    assert found == set(every) if tables is None else found >= tables
    assert tables is None or tables or not found


def test_broken_file_is_named(home: Home) -> None:
    folder = home.tables / "tasks"
    folder.mkdir(parents=True)
    (folder / "b1.parquet").write_bytes(b"not parquet")
    with Warehouse(home) as warehouse:
        with pytest.raises(InputError, match=r"'tasks' cannot be read.*b1\.parquet.*`trace sync`"):
            warehouse.query("FROM tasks")
        assert warehouse.query("SELECT count(*) AS n FROM labels")["n"].to_list() == [0]
        assert "tasks" not in warehouse.row_counts()


@pytest.mark.parametrize(
    "sql",
    [
        "FROM messages",
        "TABLE messages",
        "VALUES (1)",
        "DESCRIBE messages",
        "SUMMARIZE trajectories",
        "SHOW TABLES",
        "EXPLAIN SELECT 1",
        "explain analyze SELECT count(*) FROM messages",
        "EXPLAIN (FORMAT json) SELECT 1",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) FROM n",
        "PIVOT trajectories ON policy USING count(*) GROUP BY success",
        "SELECT payload ->> 'seed' FROM tasks;",
        "-- a comment\nSELECT 1",
    ],
)
def test_everything_that_reads_is_allowed(opened: Warehouse, sql: str) -> None:
    if sql.startswith("PIVOT") and duckdb.__version__ < "2":
        pytest.skip("this version of DuckDB takes a PIVOT for several statements")
    assert opened.query(sql).width >= 1


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("DROP VIEW failures", "read-only"),
        ("SELECT '\udce9'", "not UTF-8"),
        ("CREATE TABLE x AS SELECT 1", "read-only"),
        ("CREATE TEMP TABLE x AS SELECT 1", "read-only"),
        ("COPY tasks TO 'x.csv'", "read-only"),
        ("EXPLAIN ANALYZE COPY tasks TO '{tables}/x.csv'", "read-only"),
        ("EXPLAIN /* no */ ANALYZE COPY tasks TO '{tables}/x.csv'", "read-only|syntax"),
        ("EXPLAIN (ANALYZE) CREATE TABLE x AS SELECT 1", "read-only"),
        ("EXPORT DATABASE '{tables}/x'", "read-only"),
        ("ATTACH '{tables}/x.duckdb'", "read-only"),
        ("INSTALL httpfs", "read-only"),
        ("LOAD httpfs", "read-only"),
        ("SET threads = 1", "read-only"),
        ("PRAGMA disable_profiling", "read-only"),
        (
            "WITH x AS (INSERT INTO tasks (task_id) VALUES ('a') RETURNING *) FROM x",
            "not an? table|needs a SELECT",
        ),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT 1; COPY tasks TO '{tables}/x.csv'", "2 statements"),
        ("SELECT nothing FROM tasks", "nothing"),
        ("SELECT task_idd FROM tasks", "Candidate bindings.*task_id"),
        ("SELECT * FROM taskz", "Did you mean"),
        ("SELECT * FROM read_text('/etc/passwd')", "disabled"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled"),
        ("SELECT * FROM read_blob('{tables}/../secret')", "disabled"),
        ("SELECT * FROM glob('/etc/*')", "disabled"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM query('DROP VIEW failures')", "SELECT"),
        ("SELECT $a", "value for \\$a"),
        ("", "0 statements"),
        ("   -- only a comment", "0 statements"),
    ],
)
def test_what_would_write_or_look_elsewhere_is_refused(opened: Warehouse, sql: str, word: str) -> None:
    home = opened.home
    (home.path / "secret").write_text("x")
    before = sorted(path for path in home.path.rglob("*"))
    with pytest.raises(InputError, match=f"(?s){word}"):
        opened.query(sql.format(tables=home.tables))
    assert opened.query("SELECT count(*) FROM failures").item() == 0
    assert sorted(path for path in home.path.rglob("*")) == before


def test_frames_of_the_caller_are_not_tables(filled: Home) -> None:
    secret = pl.DataFrame({"a": [1]})
    with Warehouse(filled) as warehouse, pytest.raises(InputError, match="secret"):
        warehouse.query("SELECT * FROM secret")
    assert secret.height == 1


def test_parameters_must_be_those_of_the_query(filled: Home) -> None:
    with Warehouse(filled) as warehouse:
        found = warehouse.query("SELECT task_id FROM trajectories WHERE trajectory_id = $id", {"id": "t1"})
        assert found["task_id"].to_list() == ["desk/0"]
        assert warehouse.query("SELECT ?::BIGINT + 1", [2]).item() == 3
        with pytest.raises(InputError, match=r"no parameter \$other"):
            warehouse.query("SELECT $id", {"id": 1, "other": 2})


def test_stream_gives_the_same_rows_in_bounded_frames(home: Home) -> None:
    rows = [MessageRow(trajectory_id=f"t{i // 10:05}", index=i % 10, role="user") for i in range(300)]
    Store(home.tables).write(rows, MessageRow, "b")
    with Warehouse(home) as warehouse:
        frames = list(warehouse.stream("FROM messages a, range(300) b(i) ORDER BY ALL"))
        assert frames[0].height == 0 and len(frames) > 2
        assert max(frame.height for frame in frames) <= 65_536
        assert sum(frame.height for frame in frames) == 90_000
        assert pl.concat(frames).equals(warehouse.query("FROM messages a, range(300) b(i) ORDER BY ALL"))
        assert [frame.height for frame in warehouse.stream("FROM tasks")] == [0]
        with pytest.raises(InputError, match="nothing"):
            next(warehouse.stream("SELECT nothing FROM tasks"))


def test_every_result_has_a_place_in_polars(home: Home) -> None:
    values = {
        "TIMESTAMP '2025-01-02' - TIMESTAMP '2025-01-01'": "1 day",
        "[INTERVAL 1 DAY]": "[1 day]",
        "{'a': INTERVAL 1 DAY}": "{'a': 1 day}",
        "MAP {'a': INTERVAL 1 DAY}": "{a=1 day}",
        "union_value(a := 1)": "1",
        "'101'::BIT": "101",
        "340282366920938463463374607431768211455::UHUGEINT": "340282366920938463463374607431768211455",
        "TIMETZ '12:00:00+02'": "12:00:00+02",
        "array_value(1, 2)": [1, 2],
        "'a'::ENUM ('a', 'b')": "a",
        "NULL": None,
    }
    with Warehouse(home) as warehouse:
        sql = "SELECT " + ", ".join(values)
        assert list(warehouse.query(sql).row(0)) == list(values.values())
        assert [frame.height for frame in warehouse.stream(sql)] == [0, 1]
        twice = warehouse.query("SELECT i AS a, -i AS a, 5 AS a_1 FROM range(3) t(i) ORDER BY i DESC")
        assert twice.rows() == [(2, -2, 5), (1, -1, 5), (0, 0, 5)] and twice.columns == ["a", "a_2", "a_1"]
        joined = warehouse.query("FROM trajectories a JOIN trajectories b USING (trajectory_id)")
        assert {"trajectory_id", "task_id", "task_id_1"} <= set(joined.columns)
        with pytest.raises(InputError, match="NUL"):
            warehouse.query("SELECT 1 \0 nonsense")


def test_python_door_gives_polars(filled: Home) -> None:
    with trace_assets.warehouse(filled.path) as warehouse:
        frame = warehouse.query("SELECT trajectory_id, success FROM trajectories ORDER BY 1")
    expected = pl.DataFrame({"trajectory_id": ["t0", "t1", "t2"], "success": [True, False, None]})
    assert frame.equals(expected)


def test_json_columns_can_be_looked_into(home: Home) -> None:
    store = Store(home.tables)
    store.write([Task(task_id="a", target="t", task_batch="b", payload={"seed": 7})], Task)
    with Warehouse(home) as warehouse:
        assert warehouse.query("SELECT payload ->> 'seed' FROM tasks").item() == "7"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM query_table('ga' || 'p_table')",
        "SELECT * FROM (SHOW TABLES) WHERE name = 'gap_table'",
        "FROM duckdb_views() SELECT count(*) WHERE view_name = 'why_failed' HAVING count(*) = 1",
        "/* all */ SHOW TABLES",
        "SELECT wilson_low(1, 2) FROM failures LIMIT 0",
        "EXPLAIN FROM descendants",
    ],
)
def test_what_a_query_names_in_any_way_is_there(filled: Home, sql: str) -> None:
    with Warehouse(filled) as warehouse:
        in_one = warehouse.query(sql)
    with Warehouse(filled) as warehouse:
        warehouse.tables()
        assert warehouse.query(sql).shape == in_one.shape
