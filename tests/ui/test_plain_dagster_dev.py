"""A fresh clone opened with plain `dagster dev` loads, knows the live batch, and keeps its history."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.ui.conftest import open_ui

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NODES = "{ assetNodes { assetKey { path } } workspaceOrError { __typename } }"
LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""


@pytest.fixture
def clone(tmp_path: Path, project_root: Path) -> Path:
    for name in ("dagster.yaml", "workspace.yaml", "pyproject.toml", "trace.toml"):
        shutil.copy(project_root / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("arguments", [[], ["-w", "workspace.yaml"]])
def test_it_loads_without_any_variable_and_keeps_its_history(clone: Path, arguments: list[str]) -> None:
    module = ["dagster", "dev", *arguments]
    for opened in open_ui(module, clone / ".trace", clone, TRACE_HOME="", DAGSTER_HOME="", TRACE_SET=""):
        names = {"/".join(node["assetKey"]["path"]) for node in opened.ask(NODES)["assetNodes"]}
        assert {"contrast", "config/labels", "evaluation"} <= names
    assert (clone / ".trace" / "dagster" / "history").is_dir()
