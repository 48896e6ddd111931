"""What a router is: it sends a task to one adapter, or to none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Route, Task


class Chooser(Protocol):
    """What decides between adapters, however it is asked."""

    @property
    def name(self) -> str:
        """Which router this is, as in `Route.router`."""
        ...

    @property
    def version(self) -> str:
        """Content hash of all that decides the probabilities, as far as it is known here."""
        ...

    @property
    def choices(self) -> tuple[str, ...]:
        """Adapter names in a fixed order, then `none`."""
        ...


@runtime_checkable
class Router(Chooser, Protocol):
    """Decides on the text of the first user message alone, so that a decision holds for a conversation."""

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return for each text the probability of every choice; each sums to 1."""
        ...

    def route(self, tasks: Sequence[Task]) -> list[Route]:
        """Return one route for each task, in order."""
        ...


def all_choices(adapters: Sequence[str]) -> tuple[str, ...]:
    """Return the adapters' names, each once, and `none` behind them.

    >>> all_choices(["cancel", "multi"])
    ('cancel', 'multi', 'none')
    """
    return (*dict.fromkeys(name for name in adapters if name != NO_ADAPTER), NO_ADAPTER)


def opening(task: Task) -> str:
    """Return the text that a task is routed by.

    Raises:
        InputError: The task does not say what is asked.
    """
    if not task.instruction.strip():
        raise InputError(
            f"task '{task.task_id}' has no instruction, so there is nothing to route it by: "
            "give the first user message as the task's instruction."
        )
    return task.instruction


def to_routes(router: str, task_ids: Sequence[str], rows: Sequence[Mapping[str, float]]) -> list[Route]:
    """Return routes that take the most probable choice; the earlier choice wins a tie.

    Args:
        router: Name of the router.
        task_ids: The tasks.
        rows: For each task, choice -> probability.
    """
    return [
        Route(
            router=router,
            task_id=task_id,
            choice=max(row, key=lambda name: row[name]),
            probabilities=dict(row),
        )
        for task_id, row in zip(task_ids, rows, strict=True)
    ]
