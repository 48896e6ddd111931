"""A home of any size for benchmarks: generated trajectories with twelve messages and eight labels each."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import duckdb
import polars as pl

from trace_assets.records import (
    ArmSummary,
    Capability,
    CheckRow,
    Contrast,
    EnvironmentCheck,
    Label,
    LedgerEntry,
    LineageEdge,
    LineageMember,
    LineageNode,
    MessageRow,
    Record,
    SelectedCapability,
    Task,
    TrainingPoint,
    TrajectoryHead,
    Triage,
)
from trace_assets.records.table import polars_schema
from trace_assets.store.tables import Store

MESSAGES_A_TRAJECTORY = 12
TRIALS_A_TASK = 4
BATCH_TRAJECTORIES = 100_000
"""Trajectories in one task batch: 1.2 million messages in one Parquet file."""
CAPABILITIES = 8
KEPT = 3
_WORDS = """order cancel refund item window status delivery address customer account number please before
change check confirm update card payment flight booking return because policy cannot already today tomorrow"""


def generate(store: Store, messages: int, seed: int = 0) -> int:
    """Write a home with at least this many messages, batch by batch.

    Texts are sentences of common words of 40 to 1,500 characters; a tenth of a trajectory's four tool calls
    fails; 58 % of trajectories pass; labels are 55 % NA, and LACKING more often in failures.

    Args:
        store: Where to write; batches of before are replaced.
        messages: How many messages.
        seed: Seed of the sentences; all else follows from row numbers.

    Returns:
        The number of trajectories.
    """
    count = -(-messages // MESSAGES_A_TRAJECTORY)
    connection = duckdb.connect(":memory:")
    connection.execute("SET enable_progress_bar = false")
    _sentences(connection, seed)
    for number, start in enumerate(range(0, count, BATCH_TRAJECTORIES)):
        batch = f"bench{number:04}"
        _batch(connection, store, batch, start, min(start + BATCH_TRAJECTORIES, count))
    connection.close()
    _small_tables(store)
    return count


def _sentences(connection: duckdb.DuckDBPyConnection, seed: int) -> None:
    source, words = random.Random(seed), _WORDS.split()
    texts = [" ".join(source.choices(words, k=source.randint(6, 40))) for _ in range(4096)]
    connection.register("texts", pl.DataFrame({"n": range(4096), "text": texts}).to_arrow())
    connection.execute("CREATE TABLE sentences AS SELECT list(text ORDER BY n) AS s FROM texts")
    connection.execute("CREATE MACRO said(x) AS (SELECT s[(hash(x) % 4096 + 1)::INT] FROM sentences)")
    connection.execute("CREATE MACRO share(x) AS hash(x) % 1000 / 1000.0")


def _batch(connection: duckdb.DuckDBPyConnection, store: Store, batch: str, start: int, end: int) -> None:
    connection.execute(
        f"""
        CREATE OR REPLACE TABLE own AS
        SELECT i, substr(md5(i::VARCHAR), 1, 24) AS trajectory_id,
            'bench/' || (i // {TRIALS_A_TASK}) AS task_id,
            i % {TRIALS_A_TASK} AS trial,
            CASE WHEN share('j' || i) < 0.01 THEN NULL
                ELSE share('s' || i) < 0.3 + 0.56 * share('t' || (i // {TRIALS_A_TASK})) END AS success
        FROM range({start}, {end}) AS r(i)
        """
    )
    for record, sql in _QUERIES.items():
        frame = connection.sql(sql.replace("$batch", f"'{batch}'")).pl()
        _put(store, frame, record, batch)


_QUERIES: dict[type[Record], str] = {
    Task: f"""
        SELECT DISTINCT task_id, 'bench' AS target, 'discovery' AS split, $batch AS task_batch,
            said(task_id) AS instruction, ['skill' || hash(task_id) % 6] AS tags, '{{}}' AS payload
        FROM own WHERE trial = 0 OR i % {TRIALS_A_TASK} = 0
    """,
    TrajectoryHead: """
        SELECT trajectory_id, task_id, 'bench' AS target, 'discovery' AS split, $batch AS task_batch, trial,
            i AS seed, 'agent' AS policy, success, success::DOUBLE AS reward, 'completed' AS stop,
            CASE WHEN success IS NULL THEN 'infrastructure' END AS fault, 12 AS n_messages,
            2000 AS prompt_tokens, 300 AS completion_tokens, 0.001 AS cost_usd, 1.5 AS seconds,
            'rollout' AS source
        FROM own
    """,
    MessageRow: """
        WITH placed AS (
            SELECT i, trajectory_id, j AS "index",
                CASE WHEN j = 0 THEN 'system' WHEN j IN (1, 10) THEN 'user' WHEN j = 11 OR j % 2 = 0
                    THEN 'assistant' ELSE 'tool' END AS role,
                'call_' || (j // 2) AS call, 'tool' || hash('n' || i || (j // 2)) % 7 AS tool
            FROM own, range(12) AS m(j)
        )
        SELECT trajectory_id, "index", role,
            CASE WHEN "index" = 0 THEN (SELECT s[1] || s[2] || s[3] || s[4] || s[5] || s[6] FROM sentences)
                WHEN role = 'assistant' AND "index" < 10 THEN NULL
                ELSE said("index" || 'a' || i) || ' ' || i || ' ' || said("index" || 'b' || i) END AS content,
            CASE WHEN role = 'assistant' AND "index" < 10
                THEN [{id: call, name: tool, arguments: '{"order": "K' || i || '"}'}] ELSE []
                END AS tool_calls,
            CASE WHEN role = 'tool' THEN call END AS tool_call_id,
            CASE WHEN role = 'tool' THEN tool END AS tool_name,
            role = 'tool' AND share('e' || i || "index") < 0.1 AS is_error,
            'assistant' AS requestor
        FROM placed
    """,
    CheckRow: """
        SELECT trajectory_id, 'check' || c AS name, 'state' AS kind,
            coalesce(success, false) OR share('c' || c || i) < 0.5 AS passed, true AS gates, '' AS detail
        FROM own, range(5) AS k(c)
    """,
    Triage: """
        SELECT trajectory_id, 'bench' AS target, task_id,
            CASE WHEN success IS NULL THEN 'unjudged' WHEN success THEN 'passed' ELSE 'failed' END AS outcome,
            CASE WHEN success IS NULL THEN 'infrastructure' WHEN success THEN NULL
                WHEN share('f' || i) < 0.9 THEN 'agent' ELSE 'user_simulator' END AS fault,
            'rule' || hash('r' || i) % 4 AS rule, [1, 2] AS evidence, '' AS detail
        FROM own
    """,
    Label: f"""
        SELECT trajectory_id, 'bench-capability-' || c AS capability_id, 0 AS labelling_pass,
            'detectors' AS labeller,
            CASE WHEN share('l' || c || i) < 0.55 THEN 'NA'
                WHEN share('k' || c || i) < CASE WHEN success THEN 0.1 ELSE 0.6 END THEN 'LACKING'
                ELSE 'PRESENT' END AS label,
            CASE WHEN label = 'NA' THEN [] ELSE [2, 3 + c] END AS evidence,
            CASE WHEN label = 'LACKING' THEN said('w' || c || i) ELSE '' END AS rationale,
            substr(md5(c || '.' || i), 1, 16) AS input_hash
        FROM own, range({CAPABILITIES}) AS k(c)
    """,
    LineageMember: f"""
        SELECT 'contrast' AS kind, 'bench-capability-' || c AS id, 'v1' AS version, id AS capability_id,
            trajectory_id, CASE WHEN success THEN 'passed' ELSE 'failed' END AS outcome,
            CASE WHEN share('l' || c || i) < 0.55 THEN 'NA'
                WHEN share('k' || c || i) < CASE WHEN success THEN 0.1 ELSE 0.6 END THEN 'LACKING'
                ELSE 'PRESENT' END AS label, label <> 'NA' AS relevant
        FROM own, range({CAPABILITIES}) AS k(c)
        WHERE success IS NOT NULL AND (NOT success OR share('l' || c || i) >= 0.55)
    """,
}
"""Table to the query that makes one batch of it from the table `own` of its trajectories."""


def _put(store: Store, frame: pl.DataFrame, record: type[Record], partition: str) -> None:
    """Write rows as the store would, in key order; columns that are not given are null."""
    columns = [
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in polars_schema(record).items()
    ]
    store.write_frame(frame.select(columns).sort(list(record.key)), record, partition)


def _small_tables(store: Store) -> None:
    """Write what stays small in any study: capabilities, decisions, curves, costs and artifact lineage."""
    names = [f"bench-capability-{number}" for number in range(CAPABILITIES)]
    kept, now = names[:KEPT], datetime(2026, 1, 1, tzinfo=UTC)
    rows: dict[type[Record], list[dict[str, object]]] = {
        Capability: [
            {"capability_id": one, "target": "bench", "name": one, "description": ""} for one in names
        ],
        Contrast: [
            {
                "capability_id": one,
                "target": "bench",
                "gap": 0.5,
                "gap_low": 0.4,
                "gap_high": 0.6,
                "n_failed": 9,
            }
            for one in names
        ],
        SelectedCapability: [
            {
                "capability_id": one,
                "target": "bench",
                "name": one,
                "kept": one in kept,
                "rank": rank,
                "reason": "",
            }
            for rank, one in enumerate(names, start=1)
        ],
        TrainingPoint: [
            {
                "name": one,
                "iteration": step,
                "reward_mean": 0.5,
                "reward_std": 0.4,
                "success_rate": 0.5,
                "n": 128,
            }
            for one in kept
            for step in range(100)
        ],
        EnvironmentCheck: [
            {
                "environment_id": "e",
                "capability_id": one,
                "check_id": f"c{n}",
                "status": "pass" if n else "fail",
            }
            for one in kept
            for n in range(44)
        ],
        ArmSummary: [{"arm": f"arm{n}", "skill": "all", "n_tasks": 400, "pass_rate": 0.5} for n in range(7)],
        LedgerEntry: [
            {
                "recorded_at": now + timedelta(minutes=n // 2),
                "stage": f"stage{n % 7}",
                "asset": f"asset{n % 20}",
                "partition": "",
                "kind": ("wall", "cpu")[n % 2],
                "quantity": 1.0,
                "unit": "s",
                "cost_usd": 0.0,
            }
            for n in range(2000)
        ],
    }
    chains = [
        [("contrast", one), ("selection", one), ("spec", one), ("environment", one), ("adapter", one)]
        for one in kept
    ]
    rows[LineageEdge] = [
        {
            "kind": made[0],
            "id": made[1],
            "version": "v1",
            "input_kind": of[0],
            "input_id": of[1],
            "input_version": "v1",
            "role": "made of",
            "direct": True,
            "recorded_at": now,
        }
        for chain in chains
        for of, made in pairwise(chain)
    ]
    rows[LineageNode] = [{"kind": kind, "id": of, "version": "v1"} for chain in chains for kind, of in chain]
    for record, own in rows.items():
        _put(store, pl.DataFrame(own), record, "bench")
