"""Every view and ready query runs on an empty and on a filled store, and nothing can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Message, ToolCall, Trajectory
from trace_assets.store import Home, Store, Warehouse
from trace_assets.store.trajectories import read_trajectories, write_trajectories
from trace_assets.store.warehouse import describe, ready_queries


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


@pytest.mark.parametrize("name", sorted(ready_queries()))
def test_ready_query_runs_without_any_table(home: Home, name: str) -> None:
    query = ready_queries()[name]
    assert describe(query)
    with Warehouse(home) as warehouse:
        assert warehouse.query(query.read_text()).height == 0


def test_trajectories_come_back_equal(home: Home) -> None:
    store = Store(home.tables)
    written = [trajectory(0, True), trajectory(1, False), trajectory(2, None)]
    write_trajectories(store, written, "b1")
    assert read_trajectories(store) == written
    assert read_trajectories(store, target="other") == []


def test_views_see_new_batches_and_join_results(home: Home) -> None:
    store = Store(home.tables)
    write_trajectories(store, [trajectory(0, True)], "b1")
    write_trajectories(store, [trajectory(1, False), trajectory(2, None)], "b2")
    with Warehouse(home) as warehouse:
        calls = warehouse.query("SELECT * FROM tool_calls ORDER BY trajectory_id")
        assert calls["result_index"].to_list() == [2, 2, 2]
        assert calls["is_error"].all()
        rate = warehouse.query(ready_queries()["pass_rate"].read_text())
        assert (rate["n"][0], rate["pass_rate"][0], rate["unjudged"][0]) == (2, 0.5, 1)
        assert 0.09 < rate["low"][0] < 0.1 and 0.9 < rate["high"][0] < 0.91


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("DROP VIEW failures", "read-only"),
        ("COPY tasks TO 'x.csv'", "read-only"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT nothing FROM tasks", "nothing"),
        ("SELECT * FROM read_text('/etc/passwd')", "failed"),
        ("", "0 statements"),
    ],
)
def test_refused_queries_say_why(home: Home, sql: str, word: str) -> None:
    with Warehouse(home) as warehouse, pytest.raises(InputError, match=word):
        warehouse.query(sql)
