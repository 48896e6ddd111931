"""What of the machine this process may use: its share of processors and memory, in a container too."""

from __future__ import annotations

import os
from pathlib import Path

GROUP = Path("/sys/fs/cgroup")
"""Where the limits of this process's control group are read, version 2 or 1."""


def usable_cores() -> float:
    """Return how many processors may be used at once: by affinity, and by the quota of a container.

    A quota may be a fraction (`docker run --cpus 1.5`).
    """
    cores: float = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = group_number("cpu.max") or group_number("cpu/cpu.cfs_quota_us")
    period = group_number("cpu.max", 1) or group_number("cpu/cpu.cfs_period_us")
    return min(cores, quota / period) if quota and period and quota > 0 else cores


def whole_cores() -> int:
    """Return `usable_cores` rounded down, at least 1: how many busy threads go on at full speed."""
    return max(1, int(usable_cores()))


def memory_bytes() -> int:
    """Return the memory of the machine, or of the control group where that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = group_number("memory.max") or group_number("memory/memory.limit_in_bytes")
    return min(total, int(limit)) if limit else total


def group_number(name: str, field: int = 0) -> float | None:
    """Return a number from a file of the control group; None where there is none, or no limit.

    Args:
        name: The file below `GROUP`.
        field: Which of its words.
    """
    try:
        return float((GROUP / name).read_text().split()[field])
    except (OSError, ValueError, IndexError):
        return None
