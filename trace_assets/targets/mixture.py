"""Several targets as one: their tasks in turn, each episode played where its task belongs."""

from __future__ import annotations

from collections.abc import Sequence

from trace_assets.errors import InputError
from trace_assets.records import Message, Split, Task, ToolSpec
from trace_assets.store.content import text_version
from trace_assets.targets.protocol import Episode, Solving, Target
from trace_assets.targets.timing import Prepares


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
