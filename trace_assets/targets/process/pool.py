"""Workers of one target: as many as episodes are in the air, up to a limit, the broken ones replaced."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from trace_assets.targets.process.worker import TargetWorker


class TargetProcessPool:
    """Lends workers, one an episode.

    Waiting for a worker does not block the event loop; calls run in threads of the pool, since an answer may
    take as long as a language model's.

    Args:
        start: Starts and greets a worker.
        size: Workers at once.
    """

    def __init__(self, start: Callable[[], TargetWorker], size: int) -> None:
        self._start, self._size = start, size
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="target")
        self._idle: list[TargetWorker] = []
        self._busy: set[TargetWorker] = set()
        self._free = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._closed = False

    async def lend(self) -> TargetWorker:
        """Return a worker that nobody else uses, started if need be.

        Raises:
            TraceError: It cannot be started.
        """
        while not self._free.acquire(blocking=False):
            await asyncio.sleep(0.005)
        try:
            worker: TargetWorker = await self.run(self._take)
        except BaseException:
            self._free.release()
            raise
        return worker

    def _take(self) -> TargetWorker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    self._busy.add(worker)
                    return worker
                worker.kill()
        worker = self._start()
        with self._lock:
            self._busy.add(worker)
            if not self._closed:
                return worker
        worker.kill()
        raise RuntimeError("the pool was closed")

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a blocking call in a thread of the pool."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*arguments))

    def give_back(self, worker: TargetWorker, *, clean: bool = True) -> None:
        """Take a worker back; one that is in the middle of something is killed."""
        with self._lock:
            if worker not in self._busy:
                return
            self._busy.discard(worker)
            keep = clean and worker.alive and not self._closed
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.kill()
        self._free.release()

    def close(self) -> None:
        """Kill all workers."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle, self._busy = [], set()
        for worker in workers:
            with suppress(Exception):
                worker.kill()
        self._threads.shutdown(wait=False, cancel_futures=True)
