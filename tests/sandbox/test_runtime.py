"""`sandbox.runtime`: what was asked for isolates, or nothing runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.resources.sandbox import sandbox_config
from trace_assets.sandbox import SandboxUnavailable
from trace_assets.sandbox.config import SandboxConfig, host_flags
from trace_assets.sandbox.docker import check_runtime
from trace_assets.sandbox.pool import make_backend
from trace_assets.settings import Settings, load_settings
from trace_assets.study import Study


def test_the_setting_reaches_the_container_and_makes_nothing_due(tmp_path: Path) -> None:
    settings = load_settings(None, ["sandbox.runtime=runsc"], {})
    assert settings.sandbox.fingerprint() == Settings().sandbox.fingerprint()
    config = sandbox_config(Study.open(tmp_path, None, ["sandbox.runtime=runsc"]))
    assert host_flags(config, "{}")["Runtime"] == "runsc"
    assert "Runtime" not in host_flags(SandboxConfig(), "{}")  # the daemon's own default stands


def test_a_runtime_that_the_daemon_lacks_is_told() -> None:
    check_runtime("runsc", {"runc": {}, "runsc": {}})
    with pytest.raises(SandboxUnavailable, match=r"no runtime 'runsc'.*it has io, runc"):
        check_runtime("runsc", ["runc", "io"])


@pytest.mark.parametrize("backend", ["bubblewrap", "unsafe-subprocess"])
def test_no_weaker_sandbox_takes_its_place(backend: str) -> None:
    with pytest.raises(SandboxUnavailable, match="which only Docker has"):
        make_backend(SandboxConfig.model_validate({"backend": backend, "runtime": "runsc"}))


def test_auto_does_not_fall_back(no_sandbox: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "trace_assets.sandbox.local.BubblewrapBackend.__init__", lambda *_: pytest.fail("it fell back")
    )
    with pytest.raises(SandboxUnavailable, match="no Docker daemon"):
        make_backend(SandboxConfig(runtime="runsc"))
