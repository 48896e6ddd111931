"""Reads files in a process of its own and says what each gave and took: `measured.py [BYTES FILE]...`."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from trace_assets.errors import InputError
from trace_assets.formats.load import load
from trace_assets.untrusted.allowance import Allowance


def resident() -> int:
    """Return the memory that this process takes now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def highest() -> int:
    """Return the most that it took since `clear_refs` was written to."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


class Helpers(threading.Thread):
    """Watches what processes that this one starts take; what the system tells of them includes our own."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest = 0

    def run(self) -> None:
        """Look until this process ends."""
        own = Path(f"/proc/{os.getpid()}")
        while True:
            for task in own.glob("task/*/children"):
                with suppress(OSError, ValueError):
                    for child in task.read_text().split():
                        # Asked first: until it has become the helper, its memory is a copy of ours.
                        if b"parquet_rows" not in Path(f"/proc/{child}/cmdline").read_bytes():
                            continue
                        lines = Path(f"/proc/{child}/status").read_text().splitlines()
                        found = [line for line in lines if line.startswith("VmHWM")]
                        if found:
                            self.highest = max(self.highest, int(found[0].split()[1]) * 1024)
            time.sleep(0.005)


def read(path: Path, allowed: int) -> dict[str, Any]:
    """Read a file as `trace ingest` does."""
    ids: list[str] = []
    with TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            loaded = load([path], Path(folder), stack, allowance=Allowance(allowed))
            problems = [str(one) for one in loaded.problems]
            for spool in loaded.batches.values():
                if spool.n_trajectories:
                    spool.finish()
                    heads = pl.read_parquet(spool.store.folder / "trajectories/all.parquet")
                    ids += heads["trajectory_id"].to_list()
        except InputError as error:
            problems = [str(error)]
    return {"n": len(ids), "problems": [*problems[:10], *problems[-2:]]}


def main() -> None:
    """Read every file and print a line of JSON about each."""
    asked = [(int(most), Path(name)) for most, name in zip(sys.argv[1::2], sys.argv[2::2], strict=True)]
    with TemporaryDirectory() as name:  # what is loaded late by any reading at all
        small = Path(name) / "small.jsonl"
        small.write_text('{"reward": 1, "messages": [{"role": "user", "content": "hi"}]}\n')
        read(small, 512 << 20)
    helpers = Helpers()
    helpers.start()
    for allowed, path in asked:
        helpers.highest = 0
        Path("/proc/self/clear_refs").write_text("5")
        before, began = resident(), time.process_time()
        found = read(path, allowed)
        found |= {"file": path.name, "grown": highest() - before, "cpu": time.process_time() - began}
        found |= {"helper": helpers.highest}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
