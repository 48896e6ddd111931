"""The version of the sandbox changes with all that decides how code behaves in it, and shows in the data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from trace_assets.records import EnvironmentCheck
from trace_assets.sandbox import SandboxConfig
from trace_assets.sandbox import config as versions
from trace_assets.sandbox.config import BUBBLEWRAP, CONTAINER, host_flags, sandbox_version
from trace_assets.store import Store

BASE: dict[str, Any] = {
    "layers": ["sha256:a", "sha256:b"],
    "user": "65534:65534",
    "env": ["PYTHONHASHSEED=0"],
    "entrypoint": ["python3"],
    "architecture": "amd64",
}


def version(config: SandboxConfig | None = None, seccomp: str = "{}", **base: Any) -> str:
    flags = host_flags(config or SandboxConfig(), seccomp)
    return sandbox_version("docker", flags | CONTAINER, BASE | base)


@pytest.mark.parametrize("changed", [{"memory_mb": 300}, {"cpus": 0.5}, {"pids": 20}, {"max_sessions": 8}])
def test_a_changed_limit_is_another_version(changed: dict[str, Any]) -> None:
    assert version(SandboxConfig(**changed)) != version(SandboxConfig())


@pytest.mark.parametrize(
    "kept", [{"deadline_seconds": 1.0}, {"spares": 2}, {"recycle_after": 9}, {"transport": "attach"}]
)
def test_what_changes_nothing_inside_leaves_the_version(kept: dict[str, Any]) -> None:
    assert version(SandboxConfig(**kept)) == version(SandboxConfig())


@pytest.mark.parametrize("name", sorted(BASE))
def test_every_part_of_the_image_counts(name: str) -> None:
    assert version(**{name: "another"}) != version()


def test_every_flag_counts() -> None:
    flags = host_flags(SandboxConfig(), "{}") | CONTAINER
    plain = sandbox_version("docker", flags, BASE)
    without = {sandbox_version("docker", {k: v for k, v in flags.items() if k != n}, BASE) for n in flags}
    assert len(without | {plain}) == len(flags) + 1
    assert len({sandbox_version("bubblewrap", {"options": BUBBLEWRAP[:n]}, BASE) for n in range(5)}) == 5


@pytest.mark.parametrize(
    "name", ["seccomp.json", *(f"worker/{path.name}" for path in versions.worker_files())]
)
def test_the_worker_and_the_seccomp_profile_count(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = version()
    shutil.copytree(versions.folder(), tmp_path / "sandboxes")
    monkeypatch.setenv("TRACE_SANDBOXES", str(tmp_path / "sandboxes"))
    versions.worker_hash.cache_clear()
    try:
        assert version() == before
        with (tmp_path / "sandboxes" / name).open("a") as file:
            file.write("\n")
        versions.worker_hash.cache_clear()
        assert version() != before
    finally:
        versions.worker_hash.cache_clear()


def test_the_protocol_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = version()
    monkeypatch.setattr(versions, "PROTOCOL_VERSION", 99)
    assert version() != before


def test_it_is_part_of_the_data_version_of_an_audit(tmp_path: Path) -> None:
    """A changed flag gives the same findings another data version: nothing made from them counts as fresh."""

    def stored(sandbox: str, level: str = "docker") -> str:
        row = EnvironmentCheck(
            environment_id="e",
            capability_id="c",
            check_id="semantic.oracle_max",
            level="semantic",
            status="pass",
            severity="error",
            sandbox_version=sandbox,
            isolation_level=level,
        )
        return Store(tmp_path).write([row], EnvironmentCheck, "c")

    plain = stored(version())
    assert stored(version()) == plain
    assert stored(version(SandboxConfig(memory_mb=300))) != plain
    assert stored(version(), "bubblewrap") != plain
