"""What it takes to get rid of a sandbox, and what is left of those that are gone."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

from trace_assets.sandbox.docker import DockerContainer
from trace_assets.sandbox.errors import Timeout
from trace_assets.sandbox.local import ProcessContainer
from trace_assets.sandbox.pool import SandboxPool
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.timing import ACTION, EXAMPLE, LOOP, Figure, figure

_PAGE = os.sysconf("SC_PAGE_SIZE")


def control(pool: SandboxPool, repeat: int = 10) -> Figure:
    """How long after the deadline of a step that never ends the caller goes on."""
    late = []
    environment = pool.environment(LOOP)
    for seed in range(repeat):
        session = environment.reset(seed)
        began = time.monotonic()
        try:
            session.step(ACTION)
        except Timeout:
            late.append(time.monotonic() - began - pool.config.deadline_seconds)
    if len(late) < repeat:
        raise RuntimeError("a step that never ends did end; the benchmark's own example is broken")
    return figure("control regained after a deadline", "ms", [1e3 * one for one in late], 50, "p95")


def kills(pool: SandboxPool, repeat: int = 10) -> Figure:
    """How long it takes until a sandbox in which a loop runs is gone: process, container and all."""
    taken = []
    environment = pool.environment(LOOP)
    for seed in range(repeat):
        session = environment.reset(seed)
        session.begin_step(ACTION)
        box = session._leaf.sandbox
        time.sleep(0.05)
        began = time.monotonic()
        box.container.kill()
        taken.append(time.monotonic() - began)
        session.close()
        box.fail()
    return figure("kill", "ms", [1e3 * one for one in taken], 500, "p95")


def memory(pool: SandboxPool, repeat: int = 3) -> Figure:
    """What a sandbox holds that has its environment and one live episode.

    Docker's own account of the container, file cache that can be dropped left out; for processes of this
    machine their proportional share (`Pss`).
    """
    megabytes = []
    for number in range(repeat):
        with pool.environment(f"{EXAMPLE}# memory {number}\n").reset(1) as session:
            session.step(ACTION)
            time.sleep(0.3)
            megabytes.append(_held(session._leaf.sandbox) / 1e6)
    return figure("memory of a sandbox", "MB", megabytes, 12)


def _held(box: Sandbox) -> int:
    container = box.container
    if isinstance(container, DockerContainer):
        account = container.api.stats(container.id, stream=False, one_shot=True)["memory_stats"]
        details = account["stats"]
        return int(account["usage"] - details.get("inactive_file", details.get("total_inactive_file", 0)))
    assert isinstance(container, ProcessContainer)
    return sum(_share(one) for one in _family(container.process.pid))


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(below for child in children for below in _family(int(child)))]


def _share(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def descriptors() -> int:
    """Open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def leftovers(pool: SandboxPool, episodes: int = 500) -> list[Figure]:
    """What many episodes leave behind in this process: each is reset, stepped, judged and closed."""
    environment = pool.environment(EXAMPLE)

    def play(seed: int) -> None:
        with environment.reset(seed) as session:
            session.step(ACTION)
            session.verdict()

    for seed in range(min(100, episodes)):  # what is kept for good is there after these
        play(seed)
    gc.collect()
    before = descriptors(), resident()
    for seed in range(episodes):
        play(seed)
    time.sleep(0.5)  # what was recycled is being killed in the background
    gc.collect()
    after = descriptors(), resident()
    what = f"after {episodes} episodes"
    return [
        figure(f"descriptors more {what}", "", [float(after[0] - before[0])], 2),
        figure(f"memory of the host more {what}", "MB", [(after[1] - before[1]) / 1e6], 4),
    ]
