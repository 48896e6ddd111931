"""Processes that end when their parent does: no work goes on for nobody, no half-dead writer is left."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NoReturn, TypeVar

SELDOM = (50_000, 20, 20)
"""When the garbage collector looks, in new objects and rounds. Most of what a command makes lives to its end
(modules, classes), and looking at it every 700 objects is a tenth of a short command's time."""
_owed: tuple[int, int] | None = None
"""The process that is to end so, and its exit code: a child that was forked meanwhile ends as it likes."""


@contextmanager
def no_collections() -> Iterator[None]:
    """Let the garbage collector rest while modules are imported.

    What they make lives to the end, and looking at all of it again and again is a fifth of that time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def die_with_parent() -> None:
    """Let this child process end as soon as the process that asked for it is gone, however that one ended.

    Call first thing in a process started by `multiprocessing`, whatever the start method.

    Such a child has the reading end of a pipe whose other end only its parent holds. On Linux the kernel is
    told to kill the child when that pipe ends: nothing in the child has to run for it, so it may be deep in a
    call that never gives the interpreter's lock away. (`PR_SET_PDEATHSIG` would not do: the direct parent is
    the fork server, which lives as long as its children.) Elsewhere a thread watches.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if sys.platform == "linux":
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)
    else:
        threading.Thread(target=_watch, args=(parent.sentinel,), name="lifeline", daemon=True).start()
    if not parent.is_alive():  # it died before anybody watched
        os._exit(1)


def ask_to_end_with_parent() -> None:
    """Let the kernel send this process SIGTERM when the thread that started it is gone; Linux only.

    For a program that has to clean up after itself, such as one with children of its own. Call in the child;
    whoever started it must have done so from a thread that lives as long as the parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def ask_to_end_with_holder(held: Path, patience: float) -> None:
    """Send this process SIGTERM when whoever holds a locked file or folder (`flock`) lets go of it, or dies.

    Works from inside a container as well, where neither process numbers nor the kernel's signals reach.

    Args:
        held: What it holds, locked exclusively.
        patience: Seconds that cleaning up may take after the signal; then the process, and its group where it
            leads one, are killed.
    """
    descriptor = os.open(held, os.O_RDONLY | os.O_CLOEXEC)

    def watch() -> None:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(patience)
        end_group()

    threading.Thread(target=watch, name="lifeline", daemon=True).start()


def end_group() -> NoReturn:
    """Kill this process, and where it leads a group all of that."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)  # the first process of a container is immune to its own signals


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


# What of the machine this process may use: its share of processors and memory, in a container too.


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


T = TypeVar("T")


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Do work to its end and return what it gives, also where a loop is running already.

    A notebook has such a loop, and it is busy with the cell that calls: the work then gets a thread.

    >>> import asyncio
    >>> finish(asyncio.sleep(0, "done"))
    'done'
    """
    import asyncio  # loads TLS, which most commands do without

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


# Environment variables for the processes that are started inside a block.


GROUP_OF_A_TRAINING = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables of processes that train together: a server or engine started by one of them is none of them."""


@contextmanager
def variables(**values: str | None) -> Iterator[None]:
    """Set environment variables (None takes one away), and put back what was there.

    >>> with variables(TRACE_DOCTEST="1"):
    ...     os.environ["TRACE_DOCTEST"]
    '1'
    >>> "TRACE_DOCTEST" in os.environ
    False
    """
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def end_at_once(code: object) -> None:
    """Have this process end without being taken down, as soon as it ends.

    Args:
        code: What its `SystemExit` holds.
    """
    global _owed
    _owed = os.getpid(), code & 0xFF if isinstance(code, int) else int(code is not None)


def _end() -> None:
    if _owed is None or _owed[0] != os.getpid():
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        return  # closed or nobody reads: Python says so
    os._exit(_owed[1])


atexit.register(_end)  # whoever imports this first has it called last
