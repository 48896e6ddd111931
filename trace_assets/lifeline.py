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


def ask_to_end_with_stdin(patience: float) -> None:
    """Send this process SIGTERM when its standard input ends: whoever holds the other end is gone.

    Works from outside a container as well, where neither process numbers nor signals of the kernel reach.
    Nothing must ever be written there. What was the standard input is replaced by the null device, so that
    no child holds it.

    Args:
        patience: Seconds that cleaning up may take after the signal; then the process, and its group where it
            leads one, are killed.
    """
    held, nothing = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        while os.read(held, 1):
            pass
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
