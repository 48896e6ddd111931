"""`trace watch --once` and `trace tasks make`, as commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulations import simulation_file

import trace_assets
from trace_assets.study import Study
from trace_assets.workflows.task_files import example_rows, read_task_file


def trace(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trace_assets", *arguments],
        env={**os.environ, "TRACE_HOME": str(home), "OMP_NUM_THREADS": "1"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_made_tasks_are_read_back_whole_and_other_seeds_differ(tmp_path: Path) -> None:
    study = Study.open(tmp_path / "home", None, [])
    path = tmp_path / "new.jsonl"
    rows = [*example_rows("embedded", 20, 7), *example_rows("embedded", 20, 8)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    file = read_task_file(path, study.target, {})
    assert (len(file.tasks), file.refused, file.held) == (40, [], [])
    assert len({task.instruction for task in file.tasks}) > 30
    assert example_rows("embedded", 5, 7) == example_rows("embedded", 20, 7)[:5]


@pytest.mark.ci
def test_tasks_make_prints_lines_and_refuses_other_targets(tmp_path: Path) -> None:
    done = trace(tmp_path, "tasks", "make", "--n", "3", "--seed", "7")
    assert [json.loads(line)["target"] for line in done.stdout.splitlines()] == ["embedded"] * 3
    refused = trace(tmp_path, "tasks", "make", "--target", "tau2:airline")
    assert refused.returncode == 2 and not refused.stdout
    assert "only 'embedded' draws new ones" in refused.stderr


@pytest.mark.slow
def test_watch_once_takes_diagnoses_and_says_what_was_put_aside(tmp_path: Path) -> None:
    folder = tmp_path / "watch" / "trajectories"
    folder.mkdir(parents=True)
    simulation_file(folder / "one.json", "one")
    (folder / "bad.json").write_text("{")
    options = ("--set", "watch.settle_seconds=0", "--set", "contrast.resamples=100")
    done = trace(tmp_path, "watch", "--once", "--json", *options)
    document = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert [row["file"] for row in document["taken"]] == ["one.json"]
    assert [row["file"] for row in document["refused"]] == ["bad.json"]
    with trace_assets.warehouse(tmp_path) as warehouse:
        assert warehouse.query("SELECT count(*) FROM contrast").item() > 0
    again = trace(tmp_path, "watch", "--once", "--json", *options)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == {"taken": [], "refused": [], "notices": [], "waiting": []}
