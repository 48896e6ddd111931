from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trace_assets.sandbox import SandboxConfig, SandboxPool
from trace_assets.sandbox.probe import probe


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


def test_a_missing_daemon_is_reported_with_its_fix(tmp_path: Path) -> None:
    results = probe(SandboxConfig(docker_host=f"unix://{tmp_path}/none.sock"))
    assert [result.status for result in results] == ["failed", "skipped", "skipped", "skipped"]
    assert "start_docker.sh" in results[0].detail


@pytest.mark.docker
def test_the_benchmark_prints_its_figures(docker_pool: SandboxPool) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trace_assets.sandbox.bench", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    figures = json.loads(done.stdout)
    assert figures.pop("sandbox").startswith("docker sandbox ")
    assert len(figures) == 6 and all(value > 0 for value in figures.values())
