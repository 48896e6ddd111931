"""How fast ready queries are, each beside the raw DuckDB time of the same scan.

`python -m tests.bench.store.bench --messages 1000000` makes a home of that size, times, prints, removes it.

The raw scan of a query is `SELECT count(*), max(column), ...` straight from `read_parquet`, over every column
that the query reads, each table once: what any answer must at least pay for reading. Cold is the first run in
a new connection, opening included, after the kernel was asked to drop the files from its cache; warm is the
median of further runs. A query's rows are fetched into a polars frame, as `Warehouse.query` does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb

from tests.bench.store.bench_data import generate
from trace_assets.records import MessageRow, TrajectoryHead
from trace_assets.store.files import Home
from trace_assets.store.tables import Store
from trace_assets.store.views import quoted, ready_queries
from trace_assets.store.warehouse import Warehouse

EVERY: tuple[str, ...] = ()
"""Stands for all columns of a small table."""
_LABEL = ("trajectory_id", "capability_id", "label", "evidence", "rationale", "labeller", "labelling_pass")
_MEMBER = ("kind", "id", "version", "capability_id", "trajectory_id", "outcome", "label", "relevant")
_LINEAGE = {"lineage": EVERY, "lineage_nodes": EVERY}
_KEPT = {"capabilities": EVERY, "selected_capabilities": EVERY}
READS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "audit_failures": {"environment_checks": EVERY},
    "composition": {"composition_choices": EVERY},
    "set_effects": {"set_effects": EVERY},
    "set_rules": {"set_rules": EVERY},
    "cost": {"ledger": EVERY},
    "cost_by_asset": {"ledger": EVERY},
    "disagreeing_tasks": {
        "trajectories": ("trajectory_id", "target", "task_id", "policy", "adapter", "success")
    },
    "evaluation": {"evaluation_summary": EVERY},
    "evidence": {
        "labels": _LABEL,
        "messages": ("trajectory_id", "index", "role", "tool_name", "content", "tool_calls"),
        **_KEPT,
    },
    "expected_against_done": {
        "action_diffs": ("target", "policy", "kind", "tool", "trajectory_id", "changed"),
        "trajectories": ("target", "policy", "success"),
    },
    "failures_by_fault": {"triage": ("target", "outcome", "fault", "rule")},
    "failure_causes": {
        "failure_causes": EVERY,
        "capabilities": ("capability_id", "name"),
        "trajectories": ("trajectory_id", "policy"),
    },
    "failure_reasons": {
        "failure_causes": ("trajectory_id", "target", "party", "capability", "repaired"),
        "capabilities": ("capability_id", "name"),
        "trajectories": ("trajectory_id",),
    },
    "gap_table": {"contrast": EVERY, "decisive_shares": EVERY, **_KEPT},
    "interference": {"interference": EVERY},
    "lacking": {
        "labels": _LABEL,
        "trajectories": ("trajectory_id", "task_id", "trial", "success"),
        "contrast": ("capability_id", "policies"),
        "triage": ("trajectory_id", "outcome", "fault", "policy"),
        "suspect_tasks": ("task_id", "aside"),
        "lucky_passes": ("trajectory_id", "aside"),
        **_KEPT,
    },
    "learnability": {"learnability": EVERY, "pilots": EVERY},
    "learning_curves": {"training_curves": EVERY},
    "lineage_back": {**_LINEAGE, "lineage_members": ("kind", "id", "version", "label")},
    "lineage_labels": {
        **_LINEAGE,
        "lineage_members": _MEMBER,
        "trajectories": ("trajectory_id", "task_id"),
        "labels": ("trajectory_id", "capability_id", "label", "evidence", "rationale"),
    },
    "lucky_passes": {"lucky_passes": EVERY},
    "pass_rate": {"trajectories": ("target", "task_id", "task_batch", "policy", "adapter", "success")},
    "pass_rate_by_skill": {
        "trajectories": ("target", "task_id", "policy", "success"),
        "tasks": ("task_id", "tags"),
    },
    "pass_rate_by_task": {"trajectories": ("target", "task_id", "policy", "success")},
    "pilots": {"pilots": EVERY},
    "rounds": {"rounds": EVERY},
    "routers": {"router_scores": EVERY, "router_regrets": EVERY},
    "repairs": {"repairs": EVERY, **_KEPT},
    "sandbox_attacks": {"sandbox_checks": EVERY},
    "spending_by_arm": {
        "evaluations": ("arm", "split"),
        "ledger": EVERY,
        "training_curves": ("name", "validation_n"),
        "adapters": ("name", "kind", "capability_id", "rollouts", "validation_n"),
        "seed_outcomes": ("capability_id", "n"),
        "pilots": ("capability_id", "rollouts", "n_checkpoints", "n_seeds", "n_tasks"),
    },
    "suspect_tasks": {"suspect_tasks": EVERY},
    "tainted_by": {
        **_LINEAGE,
        "lineage_members": ("kind", "id", "version", "capability_id", "trajectory_id", "label", "relevant"),
        "labels": ("trajectory_id", "capability_id", "label"),
        "capabilities": EVERY,
    },
    "tool_errors": {
        "messages": ("trajectory_id", "index", "role", "tool_calls", "tool_call_id", "is_error"),
        "trajectories": ("trajectory_id", "target", "policy"),
    },
    "training_prices": {"ledger": EVERY},
}
"""Ready query to what it reads: the tables and columns of its raw scan."""


@dataclass(frozen=True)
class Timing:
    """One query's times, in milliseconds.

    Attributes:
        query: The ready query, with its parameters.
        rows: Rows that it gave.
        cold: First run in a new warehouse, opening included.
        warm: Median of the further runs.
        raw: Median of the raw scan.
        ratio: Warm over raw; None where nothing was written that could be read.
        n: How many runs are behind each median.
    """

    query: str
    rows: int
    cold: float
    warm: float
    raw: float
    ratio: float | None
    n: int


def time_queries(home: Home, runs: int, names: list[str] | None = None) -> list[Timing]:
    """Time ready queries on a home.

    Args:
        home: Whose tables.
        runs: Runs behind each median.
        names: Which queries; None takes all.
    """
    with Warehouse(home) as warehouse:
        some = warehouse.query("SELECT max(trajectory_id) AS id FROM trajectories").item()
    given: dict[str, list[dict[str, str]]] = {
        "evidence": [{"trajectory": some}],
        "tainted_by": [{"trajectory": some}, {"environment": "bench-capability-0"}],
        "lineage_labels": [{"adapter": "bench-capability-0"}],
        "lacking": [{}, {"capability": "bench-capability-7"}],
    }
    timings = []
    for name in names or list(ready_queries()):
        for parameters in given.get(name, [{}]):
            timings.append(_time(home, name, parameters, runs))
    return timings


def _time(home: Home, name: str, parameters: dict[str, str], runs: int) -> Timing:
    drop_from_cache(home.tables)
    begun = time.perf_counter()
    with Warehouse(home) as warehouse:
        rows = warehouse.ready(name, **parameters).height
        cold = 1000 * (time.perf_counter() - begun)
        warm = _median(lambda: warehouse.ready(name, **parameters), runs)
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET enable_progress_bar = false")
        scans = [raw_scan(home.tables, table, columns) for table, columns in READS[name].items()]
        own = [scan for scan in scans if scan]
        raw = _median(lambda: [connection.execute(scan).fetchall() for scan in own], runs)
    said = f"{name} {' '.join(f'{key}={value}' for key, value in parameters.items())}".strip()
    ratio = round(warm / raw, 1) if own else None
    return Timing(said, rows, round(cold, 1), round(warm, 1), round(raw, 1), ratio, runs)


def raw_scan(tables: Path, table: str, columns: tuple[str, ...]) -> str:
    """Return the raw scan of some columns of a table; empty when the table was not written."""
    if not any((tables / table).glob("*.parquet")):
        return ""
    maxima = ", ".join(f'max("{column}")' for column in columns) or "max(COLUMNS(*))"
    return f"SELECT count(*), {maxima} FROM read_parquet({quoted(tables / table)} || '/*.parquet')"


def drop_from_cache(folder: Path) -> None:
    """Ask the kernel to drop the Parquet files of a folder from its cache."""
    for file in folder.rglob("*.parquet"):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _median(work: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)


def main() -> None:
    """Make a home, time the ready queries, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5, help="runs behind each median")
    parser.add_argument("--query", action="append", help="only this ready query; may be given several times")
    parser.add_argument("--folder", type=Path, help="keep the home here, and use it again")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trace-bench-") as temporary:
        home = Home.open(options.folder or Path(temporary))
        store = Store(home.tables)
        if not store.partitions(TrajectoryHead):
            begun = time.perf_counter()
            generate(store, options.messages)
            print(f"generated in {time.perf_counter() - begun:.0f} s", flush=True)
        timings = time_queries(home, options.runs, options.query)
        size = sum(file.stat().st_size for file in home.tables.rglob("*.parquet"))
        messages = sum(file.stat().st_size for file in (home.tables / MessageRow.table).glob("*.parquet"))
    if options.json:
        print(json.dumps([asdict(one) for one in timings], indent=2))
        return
    print(
        f"{options.messages:,} messages, {size / 1e6:,.0f} MB of Parquet "
        f"({messages / 1e6:,.0f} MB messages), ",
        end="",
    )
    print(f"{os.cpu_count()} processors, DuckDB {duckdb.__version__}, median of {options.runs} runs")
    print(f"{'query':58} {'rows':>9} {'cold ms':>9} {'warm ms':>9} {'raw ms':>9} {'ratio':>6}")
    for one in timings:
        times = f"{one.cold:9.1f} {one.warm:9.1f} {one.raw:9.1f}"
        print(f"{one.query:58} {one.rows:9,} {times} {one.ratio or '-':>6}")


if __name__ == "__main__":
    main()
