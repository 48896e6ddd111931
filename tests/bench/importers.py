"""How fast tau2 files get into the stored tables, beside DuckDB's own JSON reader on the same file.

`python -m tests.bench.importers FILE... --megabytes 1000` makes one large file of the simulations of
the files named (repeated under new ids until it is large enough), reads it both ways, each in a process of
its own that may use two cores, and prints messages a second, processor seconds and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

CORES = 2


def make_file(sources: Sequence[Path], path: Path, size: int) -> None:
    """Write a tau2 file of at least `size` bytes, made of other files' simulations under new ids."""
    documents = [json.loads(source.read_bytes()) for source in sources]
    simulations = [one for document in documents for one in document["simulations"]]
    texts = [json.dumps(one, indent=2).replace("\n", "\n    ") for one in simulations]
    head = {**documents[0], "tasks": [task for document in documents for task in document.get("tasks") or []]}
    del head["simulations"]
    numbers = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(head, indent=2)[: -len("\n}")] + ',\n  "simulations": [\n    ')
        written, first = 0, True
        while written < size:
            for one, text in zip(simulations, texts, strict=True):
                name = str(UUID(int=numbers.getrandbits(128)))
                text = ("" if first else ",\n    ") + text.replace(one["id"], name)
                written, first = written + len(text), False
                file.write(text)
                if written >= size:
                    break
        file.write("\n  ]\n}\n")


def read_ours(path: Path, folder: Path) -> int:
    """Read a file into stored tables; return the number of messages."""
    from contextlib import ExitStack

    from trace_assets.formats.load import load

    with ExitStack() as stack:
        read = load([path], folder, stack)
        for spool in read.batches.values():
            spool.finish()
    return sum(spool.n_messages for spool in read.batches.values())


def read_duckdb(path: Path, folder: Path) -> int:
    """Read a file's messages into Parquet by DuckDB alone; return their number."""
    import duckdb

    message = (
        "STRUCT(role VARCHAR, content VARCHAR, id VARCHAR, error BOOLEAN, requestor VARCHAR, "
        "tool_calls STRUCT(id VARCHAR, name VARCHAR, arguments JSON)[])"
    )
    columns = f"{{simulations: 'STRUCT(id VARCHAR, messages {message}[])[]'}}"
    target = str(folder / "messages.parquet").replace("'", "''")
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"SET threads = {CORES}")
        connection.execute(
            "COPY (SELECT one.id AS trajectory_id, generate_subscripts(one.messages, 1) AS place, "
            "unnest(one.messages, recursive := false) AS said FROM (SELECT unnest(simulations) AS one "
            f"FROM read_json(?, columns = {columns}, maximum_object_size = {path.stat().st_size + 1000}))) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)",
            [str(path)],
        )
        row = connection.execute("SELECT count(*) FROM read_parquet(?)", [target]).fetchone()
    return int(row[0]) if row else 0


def _measured(way: str, path: Path, folder: Path) -> dict[str, Any]:
    """Run one way here and now, and say what it took."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    began = time.perf_counter()
    messages = {"ours": read_ours, "duckdb": read_duckdb}[way](path, folder)
    seconds = time.perf_counter() - began
    own, helper = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "way": way,
        "messages": messages,
        "seconds": seconds,
        "messages_per_second": messages / seconds,
        "cpu_seconds": own.ru_utime + own.ru_stime + helper.ru_utime + helper.ru_stime,
        "peak_mb": (own.ru_maxrss + helper.ru_maxrss) / 1e3,
    }


def main() -> None:
    """Make the file, run both ways in fresh processes, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--megabytes", type=float, default=1000.0)
    parser.add_argument("--folder", type=Path, default=None, help="where the large file is made")
    parser.add_argument("--way", choices=["ours", "duckdb"], default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(_measured(arguments.way, arguments.files[0], arguments.folder)))
        return
    with TemporaryDirectory(dir=arguments.folder) as name:
        path = Path(name) / "large.json"
        make_file(arguments.files, path, int(arguments.megabytes * 1e6))
        print(f"{path.stat().st_size / 1e6:,.0f} MB, {CORES} cores, load {os.getloadavg()[0]:.1f}")
        for way in ("ours", "duckdb"):
            folder = Path(name) / way
            folder.mkdir()
            command = [sys.executable, "-m", "tests.bench.importers", str(path), "--way", way]
            run = subprocess.run([*command, "--folder", str(folder)], capture_output=True, text=True)
            if run.returncode:
                print(f"{way}: {(run.stderr.strip().splitlines() or ['it was killed'])[-1]}")
                continue
            one = json.loads(run.stdout)
            rate, busy = one["messages_per_second"], one["messages"] / one["cpu_seconds"] * CORES
            print(
                f"{way:8}{one['messages']:>10,} messages {one['seconds']:7.1f} s {rate:>10,.0f} messages/s; "
                f"{one['cpu_seconds']:6.1f} cpu s (= {busy:,.0f} messages/s on {CORES} idle cores); "
                f"peak {one['peak_mb']:,.0f} MB"
            )


if __name__ == "__main__":
    main()
