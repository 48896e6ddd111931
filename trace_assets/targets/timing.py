"""What stands around a target: several as one, and the time that a process spends in a target's calls."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, runtime_checkable

from trace_assets.errors import InputError
from trace_assets.records import Message, Split, Task, ToolSpec
from trace_assets.sandbox import SandboxedEnvironment, SandboxError, SandboxUnavailable, Session
from trace_assets.store.content import text_version
from trace_assets.targets.protocol import Episode, Solving, Target


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


class Mixture:
    """Several targets as one, such as the environments of several capabilities.

    Tasks come in turn, until the part that has the fewest turns is through: of each as many as its weight.

    Args:
        name: What it is called.
        parts: The targets; they stay the caller's to close.
        weights: Tasks of each in a turn, 1 or more; one of each unless given.

    Raises:
        InputError: There are none, or two hold a task of one id.
    """

    def __init__(self, name: str, parts: Sequence[Target], weights: Sequence[int] = ()) -> None:
        if not parts:
            raise InputError("a mixture takes one target or more.")
        self._name, self._parts = name, tuple(parts)
        self._weights = tuple(weights) or (1,) * len(parts)
        self._owner: dict[str, Target] = {}

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def version(self) -> str:
        """Of all parts."""
        uneven = [str(self._weights)] if set(self._weights) != {1} else []
        return text_version("mixture", *(part.version for part in self._parts), *uneven)

    @property
    def policy(self) -> str:
        """The first part's rules in words; an episode brings its own."""
        return self._parts[0].policy

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """Every part's tools, each name once."""
        found: dict[str, ToolSpec] = {}
        for part in self._parts:
            for tool in part.tools:
                found.setdefault(tool.name, tool)
        return tuple(found.values())

    @property
    def isolation_level(self) -> str:
        """What holds the parts' code, where they say so; several levels are joined."""
        return "+".join(sorted({level for part in self._parts if (level := _said(part, "isolation_level"))}))

    @property
    def sandbox_version(self) -> str:
        """The versions of the sandboxes, likewise."""
        return "+".join(sorted({one for part in self._parts if (one := _said(part, "sandbox_version"))}))

    def tasks(self, split: Split) -> Sequence[Task]:
        """Return the parts' tasks in turn."""
        every = [part.tasks(split) for part in self._parts]
        turns = min(len(tasks) // weight for tasks, weight in zip(every, self._weights, strict=True))
        for part, tasks in zip(self._parts, every, strict=True):
            for task in tasks:
                if self._owner.setdefault(task.task_id, part) is not part:
                    raise InputError(f"two parts of '{self._name}' hold a task '{task.task_id}'; rename one.")
        return tuple(
            task
            for turn in range(turns)
            for tasks, weight in zip(every, self._weights, strict=True)
            for task in tasks[turn * weight : (turn + 1) * weight]
        )

    def episode(self, task: Task, *, seed: int) -> Episode:
        """Make an episode where the task belongs.

        Raises:
            InputError: The task is of none of the parts.
        """
        return self._part_of(task).episode(task, seed=seed)

    def prepare(self, tasks: Sequence[Task]) -> None:
        """Have each part begin the episodes of its own tasks in the background, where it can."""
        for part in self._parts:
            if isinstance(part, Prepares):
                part.prepare([task for task in tasks if self._part_of(task) is part])

    def oracle(self, task: Task) -> Sequence[Message]:
        """Have a task solved where it belongs.

        Raises:
            InputError: The task is of none of the parts, or of one that cannot solve its own.
        """
        part = self._part_of(task)
        if not isinstance(part, Solving):
            raise InputError(f"{part.name} has no oracle to demonstrate with.")
        return part.oracle(task)

    def _part_of(self, task: Task) -> Target:
        try:
            return self._owner[task.task_id]
        except KeyError:
            raise InputError(
                f"task '{task.task_id}' is of no part of '{self._name}'; ask it for its tasks first."
            ) from None


def _said(part: Target, name: str) -> str:
    return str(getattr(part, name, ""))
