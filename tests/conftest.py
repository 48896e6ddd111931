"""What every test shares: a home of its own, and no reaching outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("TRACE_PROGRESS_DIR", raising=False)


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The checkout that holds these tests."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def docker_daemon() -> None:
    """Skip, or in CI fail, where no Docker daemon answers."""
    import docker

    try:
        docker.from_env(timeout=10).ping()
    except Exception as error:
        reason = f"no Docker daemon answers ({type(error).__name__}): sh sandboxes/start_docker.sh up"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
