"""Dagster's history on one node, read and written from all: its SQLite files are no good to several machines.

The write-ahead log of SQLite needs memory that all writers share, so on a shared folder only one machine may
write. An actor on the driver's node opens the history as any process there does; workers elsewhere have
storages that hand each call on to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
from dagster._core.instance import InstanceType
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.run_coordinator import DefaultRunCoordinator
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.storage.root import LocalArtifactStorage
from dagster._core.storage.runs.base import RunStorage

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
    folder = TemporaryDirectory(prefix="trace-dagster-")
    instance = dg.DagsterInstance(
        instance_type=InstanceType.PERSISTENT,
        local_artifact_storage=LocalArtifactStorage(folder.name),
        run_storage=_storage_class(RunStorage, "runs")(ask),
        event_storage=_storage_class(EventLogStorage, "events")(ask),
        run_coordinator=DefaultRunCoordinator(),
        compute_log_manager=NoOpComputeLogManager(),
        run_launcher=DefaultRunLauncher(),
        settings={"telemetry": {"enabled": False}},
    )
    instance._folder = folder  # type: ignore[attr-defined]  # goes when the instance does
    return instance


@cache
def _storage_class(base: type, storage: str) -> type:
    """Return a storage each of whose methods and properties asks for that of another."""
    body: dict[str, Any] = {"__init__": _keep}
    for name in dir(base):
        if name.startswith("_") or name in _OF_THE_PROCESS:
            continue
        found = inspect.getattr_static(base, name)
        if isinstance(found, property):
            body[name] = property(_asking_for_value(storage, name))
        elif inspect.isfunction(found):
            body[name] = _asking(storage, name)
    if base is EventLogStorage:
        # Ray counts GPUs over all nodes: the slots of one machine would hold them up.
        body["supports_global_concurrency_limits"] = False
    return type(f"Asked{base.__name__}", (base,), body)


def _keep(self: Any, ask: Ask) -> None:
    self._ask = ask


def _asking(storage: str, name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self._ask(storage, name, arguments, named)

    return call


def _asking_for_value(storage: str, name: str) -> Callable[[Any], Any]:
    return lambda self: self._ask(storage, name, (), {})
