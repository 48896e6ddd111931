"""What the processes of these tests run; importable, so that every start method finds it."""

from __future__ import annotations

import os
import time
from pathlib import Path


def pid_and_wait(folder: Path, seconds: float) -> int:
    """Say who I am in a file, then sleep."""
    (folder / f"{os.getpid()}.pid").write_text("")
    time.sleep(seconds)
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
