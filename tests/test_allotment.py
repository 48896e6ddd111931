"""A container's quota and memory count, in control groups of either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_assets.system import processes
from trace_assets.system.processes import memory_bytes, usable_cores, whole_cores


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processes, "GROUP", tmp_path)
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8.0),
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, 8.0),
        ({"cpu.max": "3200000 100000"}, 8.0),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8.0),
    ],
)
def test_cores(group: Path, files: dict[str, str], cores: float) -> None:
    for name, text in files.items():
        (group / name).parent.mkdir(exist_ok=True)
        (group / name).write_text(f"{text}\n")
    assert usable_cores() == cores
    assert whole_cores() == max(1, int(cores))


def test_memory(group: Path) -> None:
    whole = memory_bytes()
    (group / "memory.max").write_text("max\n")
    assert memory_bytes() == whole
    (group / "memory.max").write_text(f"{1 << 28}\n")
    assert memory_bytes() == 1 << 28
    (group / "memory.max").unlink()
    (group / "memory").mkdir()
    (group / "memory" / "memory.limit_in_bytes").write_text(
        "9223372036854771712\n"
    )  # what version 1 calls none
    assert memory_bytes() == whole
    (group / "memory" / "memory.limit_in_bytes").write_text(f"{1 << 29}\n")
    assert memory_bytes() == 1 << 29
