"""What a sync hands its items to: processes of this machine, or the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from trace_assets.assets.asset import Asset
from trace_assets.store import Home
from trace_assets.study import Study

T = TypeVar("T")

SANDBOX = "sandbox"
"""Resource of a node that runs generated code: `ray start --resources='{"sandbox": 4}'`."""


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
