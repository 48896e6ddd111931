"""The benchmark's data is a home like any other, and its raw scans read what the queries read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.store import bench
from tests.bench.store.bench_data import generate
from trace_assets.records import TABLES
from trace_assets.records.table import polars_schema
from trace_assets.store import Home, Store, Warehouse
from trace_assets.store.views import ready_queries

COLUMNS = {record.table: set(polars_schema(record)) for record in TABLES}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home.open(tmp_path_factory.mktemp("bench"))
    assert generate(Store(home.tables), 4800) == 400
    return home


def read_columns(node: Any) -> Iterator[str]:
    """Yield the columns that the scans of a plan read."""
    for one in node if isinstance(node, list) else [node]:
        if one["name"] == "READ_PARQUET":
            names = one["extra_info"].get("Projections", [])
            yield from (names if isinstance(names, list) else [names])
        yield from read_columns(one.get("children", []))


def test_data_is_of_the_shape_that_it_says(home: Home) -> None:
    with Warehouse(home) as warehouse:
        counts = warehouse.row_counts()
        assert (counts["trajectories"], counts["messages"], counts["labels"]) == (400, 4800, 3200)
        ((rate, tasks),) = warehouse.query(
            "SELECT avg(success::INT), count(DISTINCT task_id) FROM trajectories"
        ).rows()
        assert 0.48 < rate < 0.68 and tasks == counts["tasks"] == 100
        calls = warehouse.ready("tool_errors")
        assert calls["n"].sum() == 1600 and calls["unanswered"].sum() == 0
        assert 0.05 < calls["errors"].sum() / 1600 < 0.15
        lacking, counted = warehouse.ready("lacking").height, warehouse.ready("lineage_labels").height
        assert lacking > 50 and counted > lacking


def test_raw_scan_reads_every_column_that_the_query_reads(home: Home) -> None:
    with Warehouse(home) as warehouse:
        for name, query in ready_queries().items():
            known = {table: set(columns) or COLUMNS[table] for table, columns in bench.READS[name].items()}
            assert all(columns <= COLUMNS[table] for table, columns in known.items()), name
            plan = warehouse.query(f"EXPLAIN (FORMAT json) {query.sql}", query.bind({})).row(0)[1]
            read = set(read_columns(json.loads(plan))) - {""}
            assert read <= set().union(*known.values()), name


def test_times_are_taken_and_printed(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--folder", str(home.path), "--runs", "1", "--query", "pass_rate", "--query", "routers"]
    monkeypatch.setattr(sys, "argv", ["bench", *arguments, "--json"])
    bench.main()
    first, second = json.loads(capsys.readouterr().out)
    assert first["query"] == "pass_rate" and first["rows"] == 1 and first["ratio"] > 0 and first["n"] == 1
    assert second["rows"] == 0 and second["ratio"] is None  # nothing was written that it could read
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    bench.main()
    assert "cold ms" in capsys.readouterr().out


def test_raw_scan_of_nothing_is_empty(tmp_path: Path) -> None:
    assert bench.raw_scan(tmp_path, "messages", ("role",)) == ""
