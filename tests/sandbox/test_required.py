"""Docker or nothing: for the program, and for the tests that need it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.quick import one_of_each
from trace_assets.cli.main import app
from trace_assets.sandbox import SandboxConfig, SandboxUnavailable, open_pool
from trace_assets.sandbox.pool import REQUIRE_DOCKER, make_backend


def test_nothing_else_is_taken_where_docker_is_required(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(REQUIRE_DOCKER, "1")
    nowhere = f"unix://{tmp_path}/none.sock"
    with pytest.raises(SandboxUnavailable, match="no Docker daemon answers"):
        make_backend(SandboxConfig(backend="auto", docker_host=nowhere))
    for backend in ("bubblewrap", "unsafe-subprocess"):
        with pytest.raises(SandboxUnavailable, match="Docker is required"):
            make_backend(SandboxConfig.model_validate({"backend": backend}))
    monkeypatch.setenv(REQUIRE_DOCKER, "0")
    with pytest.warns(UserWarning, match="isolates nothing"):
        open_pool(SandboxConfig(backend="unsafe-subprocess", spares=0)).close()


def test_the_command_line_asks_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, counter: str) -> None:
    module = tmp_path / "counter.py"
    module.write_text(counter)
    monkeypatch.setenv(REQUIRE_DOCKER, "0")  # so that what the command sets is taken back afterwards
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    command = ["audit", str(module), "--set", "sandbox.backend=auto"]
    done = CliRunner().invoke(app, [*command, "--require-docker"], catch_exceptions=True)
    assert done.exit_code != 0 and os.environ[REQUIRE_DOCKER] == "1"
    assert "no Docker daemon answers" in f"{done.output} {done.exception}"


@pytest.mark.parametrize(
    ("options", "code", "word"), one_of_each([(["--require-docker"], 1, "error"), ([], 0, "1 skipped")])
)
def test_a_test_that_needs_docker_skips_or_fails(
    project_root: Path, tmp_path: Path, options: list[str], code: int, word: str
) -> None:
    """Without a daemon: skipped here, a failure where Docker is required."""
    test = "tests/sandbox/test_docker.py::test_the_flags_are_really_applied"
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", REQUIRE_DOCKER)}
    environment["DOCKER_HOST"] = f"unix://{tmp_path}/none.sock"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, test],
        cwd=project_root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code and word in done.stdout
    assert "no Docker daemon answers" in done.stdout
