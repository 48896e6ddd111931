"""What a target costs beside the policy: time that the process spends in its calls."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, runtime_checkable

from trace_assets.records import Task
from trace_assets.sandbox import SandboxedEnvironment, SandboxError, SandboxUnavailable, Session


@dataclass(frozen=True)
class Reading:
    """A meter's state.

    Attributes:
        seconds: Wall time inside calls, waiting included: nothing else ran meanwhile.
        cpu_seconds: CPU time of the calling thread therein. What runs in a sandbox is not in it.
        calls: How many there were.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    calls: int = 0

    def since(self, earlier: Reading) -> Reading:
        """Return what came on top of an earlier reading.

        >>> Reading(3.0, 1.0, 5).since(Reading(1.0, 0.5, 2))
        Reading(seconds=2.0, cpu_seconds=0.5, calls=3)
        """
        return Reading(
            self.seconds - earlier.seconds, self.cpu_seconds - earlier.cpu_seconds, self.calls - earlier.calls
        )


class Meter:
    """Adds up the time spent inside it; `with meter:` around what blocks. Of one thread, not nested."""

    def __init__(self) -> None:
        self._seconds = self._cpu = 0.0
        self._calls = 0

    def __enter__(self) -> None:
        self._began, self._cpu_began = time.perf_counter(), time.thread_time()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._seconds += time.perf_counter() - self._began
        self._cpu += time.thread_time() - self._cpu_began
        self._calls += 1

    def read(self) -> Reading:
        """Return what was added up so far."""
        return Reading(self._seconds, self._cpu, self._calls)


@runtime_checkable
class Metered(Protocol):
    """A target that knows what its own calls cost."""

    @property
    def meter(self) -> Meter:
        """Adds up the time of all episodes' calls."""
        ...


def reading_of(target: object) -> Reading | None:
    """Return a target's meter reading, None for one that has no meter."""
    return target.meter.read() if isinstance(target, Metered) else None


# Episodes that are begun before anyone asks: a sandbox forks while the model learns.


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

        Where there is no room for a new one, what was begun and not taken yet makes way.

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
        try:
            return self._environment.reset(seed)
        except SandboxUnavailable:
            if not self.discard():
                raise
        return self._environment.reset(seed)

    def discard(self) -> int:
        """End what was begun and not taken, and return how many were."""
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
        return len(left)

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
