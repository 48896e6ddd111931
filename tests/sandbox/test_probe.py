from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trace_assets.sandbox import SandboxConfig, SandboxPool
from trace_assets.sandbox.timing import figure, probe


def test_a_working_backend_is_tried_to_the_end() -> None:
    results = probe(SandboxConfig(backend="unsafe-subprocess"))
    assert [result.name for result in results] == [
        "backend",
        "episode",
        "replay",
        "cold start",
        "reset",
        "step",
    ]
    assert {result.status for result in results} <= {"ok", "slow"}
    assert "isolates nothing" in results[0].detail


def test_a_missing_sandbox_is_reported_with_its_fix(no_sandbox: None, tmp_path: Path) -> None:
    results = probe(SandboxConfig(docker_host=f"unix://{tmp_path}/none.sock"))
    assert [result.status for result in results] == ["failed", "skipped", "skipped", "skipped"]
    assert "start_docker.sh" in results[0].detail


def test_a_target_is_held_against_the_figure_that_is_named() -> None:
    taken = [1.0] * 90 + [9.0] * 10
    assert figure("a", "ms", taken, 2).hit and not figure("a", "ms", taken, 2, "p95").hit
    assert not figure("a", "1/s", taken, 2, at_most=False).hit
    assert figure("a", "ms", taken).hit is None
    assert figure("a", "ms", taken, 2).cells() == ["a", "ms", "100", "1", "9", "<= 2 (p50)", "hit"]


@pytest.mark.slow
@pytest.mark.docker
def test_the_benchmark_prints_every_target(docker_pool: SandboxPool) -> None:
    command = [sys.executable, "-m", "tests.bench.sandbox", "--json"]
    small = ["--starts", "2", "--repeat", "100", "--episodes", "20"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([*command, *small], cwd=root, capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert document["sandbox"].startswith("docker (socket)")
    figures = {one["name"]: one for one in document["figures"]}
    judged = [one for one in figures.values() if one["target"] is not None]
    assert len(judged) == 12 and all(one["hit"] is not None and one["n"] > 0 for one in judged)
    assert {"docker exec of one command", "plain process: step"} <= set(figures)
    assert all(figures[name]["p50"] > 0 for name in ("cold start", "reset", "step", "kill"))
