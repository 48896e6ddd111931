"""What a sync hands its items to: worker processes of this machine, or the nodes of a cluster.

Workers keep what they have loaded, one item each; the death of one is no other's concern.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pickle import PicklingError
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from trace_assets.assets.asset import Asset
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.system.processes import die_with_parent, whole_cores

T = TypeVar("T")

IDLE_GRACE_SECONDS = 10.0
"""What a worker without work is given to leave: it unloads its libraries."""
SANDBOX = "sandbox"
"""Resource of a node that runs generated code: `ray start --resources='{"sandbox": 4}'`."""


class WorkerPool:
    """Some processes that take calls, started when first needed and kept for the next call.

    Unlike a `ProcessPoolExecutor` a killed worker (out of memory, most often) fails its own call and no
    other, and the next call finds a new one. Workers end with the process that made the pool.

    Args:
        width: Calls at once; a call beyond that waits for a worker.
        preload: Modules that are imported once, before workers are forked.
    """

    def __init__(self, width: int, preload: tuple[str, ...] = ()) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(preload))
        self._width = width
        self._free = threading.Semaphore(width)
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._closed = False

    @property
    def width(self) -> int:
        """Calls at once."""
        return self._width

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables that a worker opens a study with: these share the cores of this machine."""
        return {
            # Two torches on all cores are slower than one; whoever has said how many threads is obeyed.
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or str(max(1, whole_cores() // self._width)),
            # Threads that spin while they wait bring a machine to a halt that others work on too.
            "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY") or "PASSIVE",
        }

    def load_ahead(self) -> None:
        """Start the process that workers are forked from, and do not wait for it."""
        _start_forkserver()

    def bury(self, home: Home) -> list[str]:
        """Strike out nobody: this machine can tell of all its workers whether they live."""
        return []

    def submit(self, work: Callable[..., T], /, *arguments: Any, needs: Needs | None = None) -> Future[T]:
        """Call a function of a module in a worker.

        Args:
            work: The function.
            arguments: What it is called with.
            needs: Not asked for: the width, and the pools of Dagster, are what this machine shares out.

        Returns:
            The result to come: what the call returned or raised, or `WorkerDied`.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        thread = threading.Thread(target=self._serve, args=(future, work, arguments), daemon=True)
        thread.start()
        return future

    def _serve(self, future: Future[Any], work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        with self._free:
            try:
                worker = self._take()
                answer = worker.call(work, arguments)
            except BaseException as error:
                future.set_exception(error)
                return
            with self._lock:
                if worker.process.is_alive() and not self._closed:
                    self._idle.append(worker)
                else:
                    self._all.discard(worker)
            if isinstance(answer, _Raised):
                future.set_exception(answer.error)
            else:
                future.set_result(answer)

    def _take(self) -> _Worker:
        with self._lock:
            if self._closed:
                raise WorkerDied("the pool has been shut down")
            while self._idle:
                worker = self._idle.pop()
                if worker.process.is_alive():
                    return worker
                self._all.discard(worker)
            worker = _Worker(self._context)
            self._all.add(worker)
            return worker

    def pids(self) -> list[int]:
        """Return the process ids of the workers that are there."""
        with self._lock:
            return [worker.process.pid for worker in self._all if worker.process.pid is not None]

    def shutdown(self, grace_seconds: float = 1.0) -> None:
        """End all workers.

        Args:
            grace_seconds: What one at work is given: an interrupt at the terminal has reached it too, and it
                puts its things in order.
        """
        with self._lock:
            self._closed = True
            workers, idle = list(self._all), list(self._idle)
            self._all.clear()
            self._idle.clear()
        for worker in idle:
            worker.wire.close()
        began = time.monotonic()
        for worker in workers:
            grace = IDLE_GRACE_SECONDS if worker in idle else grace_seconds
            worker.process.join(max(0.0, began + grace - time.monotonic()))
            worker.process.kill()
            worker.process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Worker:
    """One process and the wire to it."""

    def __init__(self, context: multiprocessing.context.ForkServerContext) -> None:
        _start_forkserver()
        self.wire, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_work, args=(theirs,), daemon=False)
        self.process.start()
        theirs.close()  # then a dead worker is seen as the end of the wire

    def call(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Have a function called, and wait for what it gives.

        Raises:
            WorkerDied: The process ended first; the message says how.
        """
        try:
            self.wire.send((work, arguments))
            return self.wire.recv()
        except (EOFError, OSError):
            self.process.join(10)
            code = self.process.exitcode
            how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
            raise WorkerDied(how) from None


def _start_forkserver() -> None:
    """Start the process that workers are forked from, where none runs, with Ctrl-C held back from it.

    It takes no interrupt once it serves, but loads modules for seconds before that: an interrupt would end it
    there with a traceback. A signal mask is inherited, so workers take theirs off.
    """
    resource_tracker.ensure_running()  # started later, it would take the mask off
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(wire: Connection) -> None:
    die_with_parent()
    with suppress(KeyboardInterrupt, EOFError, OSError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        while True:
            work, arguments = wire.recv()
            _answer(wire, work, arguments)


def _answer(wire: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = work(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        answer = _Raised(error)
    try:
        wire.send(answer)
    except (TypeError, AttributeError, ValueError, PicklingError) as error:
        wire.send(_Raised(RuntimeError(f"the answer cannot be sent: {error}")))


class WorkerDied(RuntimeError):
    """The process that worked on a call ended before it answered."""


@dataclass(frozen=True)
class Needs:
    """What a call takes of the machine that it runs on.

    Attributes:
        cpus: Cores.
        gpus: GPUs; where the cluster has none at all, the work is done on its processors.
        sandbox: Places in a sandbox.
    """

    cpus: int = 1
    gpus: int = 0
    sandbox: int = 0

    def __str__(self) -> str:
        counts = {"CPU": self.cpus, "GPU": self.gpus, f"resource `{SANDBOX}`": self.sandbox}
        return ", ".join(f"{n} {name}" for name, n in counts.items() if n)


class Pool(Protocol):
    """Takes calls, makes them elsewhere, and tells the death of a worker from a failure of the call."""

    @property
    def width(self) -> int:
        """Calls at once; a call beyond that waits."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables that its workers open a study with, beside those of the study."""

    def submit(self, work: Callable[..., T], /, *arguments: Any, needs: Needs = ...) -> Future[T]:
        """Call a function of a module in a worker.

        Returns:
            The result to come: what the call returned or raised, or `WorkerDied`.
        """

    def load_ahead(self) -> None:
        """Have loaded what workers need, while this process goes on: calls will come."""

    def bury(self, home: Home) -> list[str]:
        """Strike out the dead processes of a home of which this machine cannot tell and the pool can.

        Returns:
            Their names.
        """

    def shutdown(self, grace_seconds: float = ...) -> None:
        """End all workers."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def needs_of(asset: Asset, study: Study) -> Needs:
    """Return what making an item of an asset takes, as it is declared and as the settings ask."""
    is_served = asset.by_policy and study.settings.rollouts.engine == "openai"
    gpus = max(1, study.settings.training.processes) if asset.pool == "gpu" and not is_served else 0
    return Needs(1, gpus, int("docker" in asset.kinds))
