"""Episodes that are begun before anyone asks: a sandbox forks while the model learns."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, runtime_checkable

from trace_assets.records import Task
from trace_assets.sandbox import SandboxedEnvironment, SandboxError, SandboxUnavailable, Session

AT_ONCE = 4
"""Resets in flight: while one episode executes its module, its sandbox forks the next."""


class HeadStart:
    """Resets of one environment made in the background, each handed out once.

    A fault of a reset is raised to whoever takes that episode, as if it had been made on the spot.
    """

    def __init__(self, environment: SandboxedEnvironment) -> None:
        self._environment = environment
        self._ready: dict[int, deque[Future[Session]]] = defaultdict(deque)
        self._threads: ThreadPoolExecutor | None = None

    def begin(self, seeds: Sequence[int]) -> None:
        """Reset these seeds and return at once; what was left over before is ended."""
        self.discard()
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, "head-start")
        for seed in seeds:
            self._ready[seed].append(self._threads.submit(self._environment.reset, seed))

    def take(self, seed: int) -> Session:
        """Return a live episode of a seed: one begun before, or else a new one.

        Raises:
            SandboxError: As its type says.
        """
        waiting = self._ready.get(seed)
        while waiting:
            begun = waiting.popleft()
            if begun.cancel():  # it is no further than we are
                break
            try:
                return begun.result()
            except SandboxUnavailable:  # too many were begun at once; by now there may be room
                continue
        return self._environment.reset(seed)

    def discard(self) -> None:
        """End what was begun and not taken."""
        left = [begun for waiting in self._ready.values() for begun in waiting]
        self._ready.clear()
        for begun in left:
            begun.cancel()
        for begun in left:
            if not begun.cancelled():
                try:
                    begun.result().close()
                except SandboxError:
                    continue

    def close(self) -> None:
        """End everything."""
        self.discard()
        if self._threads is not None:
            self._threads.shutdown(wait=True)
            self._threads = None


@runtime_checkable
class Prepares(Protocol):
    """A target whose episodes can be begun ahead of time."""

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Begin an episode of each of these tasks (which may repeat). Never needed, only faster."""
        ...
