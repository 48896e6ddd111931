"""`trace ui` as a person runs it: files are dropped, settings are edited, and SQL shows what came of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from simulations import simulation_file

import trace_assets
from trace_assets.cli.ui import reload_definitions
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.store import Home
from trace_assets.system.machine import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SETTINGS = """
[watch]
interval_seconds = 2
settle_seconds = 0.5
[automation]
interval_seconds = 3
[contrast]
resamples = 100
permutations = 100
[selection]
min_gap_low = {min_gap_low}
"""
PATIENCE_SECONDS = 900.0


class Live:
    """A home, its settings file and the page that is open on it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.config = folder / "home", folder / "trace.toml"
        self.drop = self.home / "watch" / "trajectories"
        self.drop.mkdir(parents=True)
        self.set(0.0)
        self.port = free_port()
        self.page = f"http://127.0.0.1:{self.port}"
        self.log = folder / "ui.log"

    def set(self, min_gap_low: float) -> None:
        partial = self.config.with_suffix(".partial")
        partial.write_text(SETTINGS.format(min_gap_low=min_gap_low), encoding="utf-8")
        partial.replace(self.config)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "trace_assets", *arguments, "--config", str(self.config)]

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TRACE_HOME": str(self.home), "OMP_NUM_THREADS": "1"}

    def trace(self, *arguments: str) -> None:
        done = subprocess.run(
            self.command(*arguments), env=self.environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr

    def query(self, sql: str) -> pl.DataFrame:
        with trace_assets.warehouse(self.home) as warehouse:
            return warehouse.query(sql)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < end, f"{what} did not come.\n{self.log.read_text()[-6000:]}"
            time.sleep(1)

    def made(self, asset: str) -> Counter[str]:
        """How often an asset was materialized, by partition."""
        with prepare_instance(Home.open(self.home)) as instance:
            records = instance.fetch_materializations(dg.AssetKey(asset.split("/")), limit=500).records
        return Counter(record.partition_key or "" for record in records)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    found = Live(tmp_path)
    first = simulation_file(tmp_path / "one.json", "one")
    found.trace("ingest", str(first))
    found.trace("diagnose")
    with found.log.open("w") as log:
        process = subprocess.Popen(
            found.command("ui", "--port", str(found.port)),
            env=found.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield found
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_dropped_files_and_edited_settings_reach_the_tables_by_themselves(live: Live) -> None:
    (old,) = live.made("labels")
    before = live.made("labels")[old]
    dropped = simulation_file(live.drop / "two.json", "two")
    (live.drop / "bad.json").write_text("{ this is no JSON")

    batches = "SELECT DISTINCT task_batch FROM trajectories JOIN labels USING (trajectory_id)"
    live.until(lambda: live.query(batches).height == 2, "labels of the new batch")
    live.until(lambda: live.query("SELECT max(n_failed) FROM contrast").item() == 20, "the new contrast")
    (new,) = set(live.query(batches)["task_batch"]) - {old}
    assert new.startswith("two-")
    assert live.query("SELECT file, reason FROM quarantine")["file"].to_list() == ["bad.json"]
    assert not (live.drop / "bad.json").exists() and dropped.exists()
    live.until(
        lambda: live.query("SELECT count(*) FROM drift").item() > 0, "the comparison with what was known"
    )
    assert live.made("labels") == {old: before, new: 1}
    assert live.made("trajectories") == {old: 1, new: 1}

    (live.drop / "two again.json").write_bytes(dropped.read_bytes())
    contrasts = live.made("contrast")[""]
    kept = "SELECT count(*) FROM selected_capabilities WHERE kept"
    assert live.query(kept).item() == 1
    live.set(0.99)  # more than it is
    live.until(lambda: live.query(kept).item() == 0, "the selection by the edited threshold")
    assert live.made("contrast")[""] == contrasts
    assert live.made("labels") == {old: before, new: 1}
    assert live.query("SELECT count(DISTINCT task_batch) FROM trajectories").item() == 2
    assert live.query("SELECT count(*) FROM arrivals").item() == 1
    assert reload_definitions(live.page) and not reload_definitions("http://127.0.0.1:9")
