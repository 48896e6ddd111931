"""Dagster's history on one node, read and written from all: its SQLite files are no good to several machines.

The write-ahead log of SQLite needs memory that all writers share, so on a shared folder only one machine may
write. An actor on the driver's node opens the history as any process there does; workers elsewhere have
storages that hand each call on to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import dagster as dg

ACTOR = "history"
"""Name of the actor in the namespace of a sync."""

_OF_THE_PROCESS = frozenset(
    {
        "register_instance",
        "has_instance",
        "dispose",
        "optimize_for_webserver",
        "watch",
        "end_watch",
        "get_pool_config",
        "inst_data",
    }
)
"""What belongs to the process that has the storage, not to what is stored."""


class History:
    """Answers for the storages of one Dagster home; runs as an actor on the node of the driver.

    Args:
        folder: The Dagster home.
    """

    def __init__(self, folder: str) -> None:
        self._instance = dg.DagsterInstance.from_config(folder)
        self._storages = {"runs": self._instance.run_storage, "events": self._instance.event_log_storage}

    def ask(self, storage: str, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what a method of a storage returns, or the value of a property."""
        found = getattr(self._storages[storage], name)
        answer = found(*arguments, **named) if callable(found) else found
        return list(answer) if inspect.isgenerator(answer) else answer


Ask = Callable[[str, str, tuple[Any, ...], dict[str, Any]], Any]


def open_history(ask: Ask) -> dg.DagsterInstance:
    """Return an instance whose runs and events are kept where `ask` leads.

    Args:
        ask: `History.ask`, from afar.
    """
    instance = dg.DagsterInstance.ephemeral()
    for storage, kind in ((instance.run_storage, "runs"), (instance.event_log_storage, "events")):
        # Dagster has no public class to derive a storage from, nor an instance that takes one.
        storage.__class__ = _asking_class(type(storage), kind)
        storage.__dict__["ask"] = ask
    return instance


@cache
def _asking_class(base: type, storage: str) -> type:
    """Return a class each of whose methods and properties asks for that of another storage."""
    body: dict[str, Any] = {"watch": _not_here, "end_watch": _not_here}
    for name in dir(base):
        if name.startswith("_") or name in _OF_THE_PROCESS:
            continue
        found = inspect.getattr_static(base, name)
        if isinstance(found, property):
            body[name] = property(_asking_for_value(storage, name))
        elif inspect.isfunction(found):
            body[name] = _asking(storage, name)
    if hasattr(base, "supports_global_concurrency_limits"):
        # Ray counts GPUs over all nodes: the slots of one machine would hold them up.
        body["supports_global_concurrency_limits"] = False
    return type(f"Asking{base.__name__}", (base,), body)


def _not_here(self: Any, *arguments: Any, **named: Any) -> None:
    raise NotImplementedError("runs are watched on the node of the driver")


def _asking(storage: str, name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self.ask(storage, name, arguments, named)

    return call


def _asking_for_value(storage: str, name: str) -> Callable[[Any], Any]:
    return lambda self: self.ask(storage, name, (), {})
