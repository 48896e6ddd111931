"""docs/examples/one_capability.py runs as it stands, with a sandbox and without, and without Dagster."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "one_capability.py"
FOUND = {
    "capability": "Look up the loan before renewing the loan",
    "writer": "recipe:write_without_read",
}


@pytest.fixture
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.usefixtures("no_sandbox")
def test_without_a_sandbox_the_text_is_checked_and_nothing_else(
    example: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    found = example["main"]()
    assert found.pop("verdict").startswith("not audited: ")
    assert found == FOUND
    printed = capsys.readouterr().out
    assert "trace.parses: pass" in printed and "trace.imports_allowed: pass" in printed
    assert "n: 500" in printed and "gap: 0.82 [0.65, 0.87]" in printed


@pytest.mark.docker
@pytest.mark.usefixtures("docker_daemon")
@pytest.mark.slow
def test_in_a_sandbox_the_environment_is_accepted(example: dict[str, Any]) -> None:
    assert example["main"]() == {**FOUND, "verdict": "accepted"}


def test_it_imports_no_dagster() -> None:
    code = f"import runpy, sys; runpy.run_path({str(EXAMPLE)!r}); print('dagster' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
