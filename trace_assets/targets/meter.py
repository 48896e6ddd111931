"""What a target costs beside the policy: time that the process spends in its calls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, runtime_checkable


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
