"""What the workers of these tests are called with."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path

from trace_assets.policies.protocol import Conversation, Policy, Reply
from trace_assets.records import Task, Trajectory
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.parallel import Make, run_parallel
from trace_assets.rollouts.runner import Journal
from trace_assets.targets.protocol import Target

sys.path.insert(0, str(Path(__file__).parents[1] / "rollouts"))
from counting_target import Counting, CountingTarget, open_both, open_broken


def answer(value: object) -> object:
    """Give back what came."""
    return value


def fail(text: str) -> None:
    """Raise."""
    raise ValueError(text)


def a_lock() -> object:
    """Return what cannot be sent."""
    return threading.Lock()


def wait_for(folder: Path, name: str) -> int:
    """Say who I am in a file, then wait until the file `go` is there; note an interrupt."""
    (folder / f"{name}.pid").write_text(str(os.getpid()))
    try:
        while not (folder / "go").exists():
            time.sleep(0.02)
    except KeyboardInterrupt:
        (folder / f"{name}.interrupted").touch()
        raise
    return os.getpid()


def variable(name: str) -> str:
    """Return an environment variable."""
    return os.environ.get(name, "")


def open_counting(deadly: Path | None) -> tuple[Target, Policy]:
    """Open a target and a policy without a model; the first process to meet one task ends at once."""
    target, policy = open_both()
    begin = target.episode

    def episode(task: Task, *, seed: int) -> Counting:
        if deadly is not None and task.task_id == "counting/25":
            try:
                deadly.touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os._exit(9)
        return begin(task, seed=seed)

    target.episode = episode  # type: ignore[method-assign]
    return target, policy


def open_waiting(seconds: float) -> tuple[Target, Policy]:
    """Open a target and a policy that answers after a time, as one that asks a server does."""
    target, policy = open_both()
    act = policy.act

    async def wait_and_act(conversation: Conversation) -> Reply:
        await asyncio.sleep(seconds)
        return await act(conversation)

    policy.act = wait_and_act  # type: ignore[method-assign]
    return target, policy


def open_with_another(folder: Path) -> tuple[Target, Policy]:
    """Open a target and a policy once another process does so too."""
    (folder / f"{os.getpid()}.here").touch()
    give_up = time.monotonic() + 300
    while len(list(folder.glob("*.here"))) < 2:
        assert time.monotonic() < give_up, "no other came"
        time.sleep(0.02)
    return open_both()


def open_nothing() -> tuple[Target, Policy]:
    """Fail."""
    return open_broken()


def play_divided(
    folder: Path, deadly: Path | None = None, make: Make | None = None, trials_a_task: int = 3
) -> list[Trajectory]:
    """Play 120 episodes or more as an item does, in shards where a team helps."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "host").write_text(socket.gethostname())
    tasks = CountingTarget().tasks("test")
    trials = [Trial(task, trial) for task in tasks for trial in range(trials_a_task)]
    journal, make = Journal(folder), make or partial(open_counting, deadly)
    return run_parallel(make, trials, processes=2, max_turns=5, concurrency=4, journal=journal)
