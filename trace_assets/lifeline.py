"""Processes that end when their parent does: no work goes on for nobody, no half-dead writer is left."""

from __future__ import annotations

import ctypes
import fcntl
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import NoReturn


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
