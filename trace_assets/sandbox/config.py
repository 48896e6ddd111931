"""How sandboxes are made and bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from trace_assets.system.processes import memory_bytes, whole_cores

Backend = Literal["docker", "bubblewrap", "auto", "unsafe-subprocess"]


class SandboxConfig(BaseModel):
    """Settings of the sandbox; the defaults are the ones that were measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Backend = "auto"
    """`auto` is docker, else bubblewrap (weaker) with a warning; `unsafe-subprocess` isolates nothing."""
    runtime: str = ""
    """Docker's runtime, such as `runsc`; empty: the daemon's default."""
    docker_host: str | None = None
    """Address of the daemon; None: `DOCKER_HOST`, else the system's socket."""
    transport: Literal["auto", "socket", "attach"] = "auto"
    """How to talk to a container: a bind-mounted socket (same kernel as the daemon), or the SDK's attach."""
    image: str | None = None
    """Image to run; None: the project's own, built when missing."""
    base_image: str | None = None
    """Base to build the image on; None: python:3.11-slim, else one made of Debian packages."""
    memory_mb: int = Field(default=256, ge=32)
    """Memory of one sandbox, and of any one episode in it."""
    cpus: float = Field(default=1.0, gt=0)
    pids: int = Field(default=0, ge=0)
    """Most processes in one sandbox; 0: `max_sessions` + 32."""
    deadline_seconds: float = Field(default=5.0, gt=0)
    """Wall seconds for one reset, step, verdict or oracle."""
    load_deadline_seconds: float = Field(default=10.0, gt=0)
    """Wall seconds to take the source and to list its tools."""
    start_deadline_seconds: float = Field(default=30.0, gt=0)
    max_sessions: int = Field(default=64, ge=1, le=1024)
    """Most episodes alive at once in one sandbox."""
    spread: int = Field(default=1, ge=1)
    """Sandboxes that one environment's episodes are spread over before one is filled."""
    recycle_after: int = Field(default=4096, ge=1)
    """Episodes after which a sandbox is replaced."""
    spares: int = Field(default=1, ge=0)
    """Blank sandboxes kept started."""
    max_sandboxes: int = Field(default=0, ge=0)
    """Most live sandboxes; 0: the smaller of twice the cores and total memory / `memory_mb`."""
    recompute_share: float = Field(default=0.02, ge=0, le=1)
    """Share of the episodes that are paid for whose verdict is recomputed in a fresh sandbox."""

    @property
    def pid_limit(self) -> int:
        """Processes allowed in one sandbox."""
        return self.pids or self.max_sessions + 32

    @property
    def sandbox_limit(self) -> int:
        """Live sandboxes allowed."""
        if self.max_sandboxes:
            return self.max_sandboxes
        return max(2, min(2 * whole_cores(), memory_bytes() // (self.memory_mb << 20)))


# What an episode finds of the world beside its seed and its actions: the same in every phase.


CLOCK = 1_735_732_800
"""1 January 2025, noon, in UTC: when every episode takes place."""


@dataclass(frozen=True)
class Conditions:
    """What is varied by nobody but the audit and the sandbox's own battery.

    Attributes:
        clock: Seconds since 1970 that every wall clock shows, and goes on showing.
        process: Number that an episode takes for that of its process.
        first_request: Number of an episode's first request.
        sealed: Whether an episode gives up the kernel before its code runs. The battery alone leaves it out,
            to attack the walls behind that one.
    """

    clock: int = CLOCK
    process: int = 2
    first_request: int = 1
    sealed: bool = True


EVERYWHERE = Conditions()
"""The conditions of every episode that is played in earnest."""
BARE = Conditions(process=0, sealed=False)
"""Of an episode that is held by its container alone."""
