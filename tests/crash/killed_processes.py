"""What the processes of these tests run; importable, so that every start method finds it."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from trace_assets.records import Message, Task, Trajectory
from trace_assets.rollouts.runner import Journal
from trace_assets.store import Store, files
from trace_assets.store.files import replacing_folder
from trace_assets.system.processes import die_with_parent


def pid_and_wait(folder: Path, seconds: float) -> int:
    """Say who I am in a file, then sleep until the file `go` is there, or so long."""
    (folder / f"{os.getpid()}.pid").write_text("")
    until = time.monotonic() + seconds
    while time.monotonic() < until and not (folder / "go").exists():
        time.sleep(0.02)
    return os.getpid()


def spin_in_one_call(folder: Path) -> None:
    """Hold the interpreter's lock in one long call: no thread of this process gets a turn."""
    (folder / f"{os.getpid()}.pid").write_text("")
    sum(range(10**11))


def answer(value: object) -> object:
    """Give back what came."""
    return value


def fail(text: str) -> None:
    """Raise."""
    raise ValueError(text)


def own_pid() -> int:
    """Say who I am."""
    return os.getpid()


def with_lifeline(work: Callable[..., None], *arguments: object) -> None:
    """Tie this process to its parent, then work."""
    die_with_parent()
    work(*arguments)


def write_tables(folder: Path, rows: int) -> None:
    """Replace a table and a folder over and over, each time with content of one version only."""
    store = Store(folder / "tables")
    for version in itertools.count():
        store.write([named(f"{version}-{row}", version) for row in range(rows)], Task)
        with replacing_folder(folder / "model") as building:
            for name in ("a", "b", "c"):
                (building / name).write_text(f"{version}" * 2000)
        (folder / "went").write_text(str(version))


def named(name: str, version: int) -> Task:
    """Make a task that tells its version."""
    return Task(task_id=name, target="t", task_batch=str(version), instruction="x" * 200)


def append_to_journal(folder: Path) -> None:
    """Add trajectories to a journal without end."""
    journal = Journal(folder / "journal")
    for number in itertools.count():
        message = Message(role="user", content=f"{number}:" + "y" * (number * 37 % 30_000))
        journal.append(
            Trajectory(
                trajectory_id=f"{os.getpid()}-{number:06d}",
                task_id="t",
                target="t",
                task_batch="b",
                policy="p",
                messages=(message,),
            )
        )


if __name__ == "__main__":
    if os.environ.get("TRACE_TEST_NO_EXCHANGE"):
        files._exchange = lambda *_: False
    {"tables": lambda folder: write_tables(folder, 300), "journal": append_to_journal}[sys.argv[1]](
        Path(sys.argv[2])
    )
