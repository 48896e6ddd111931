"""What a way of isolating code has to offer the pool."""

from __future__ import annotations

import os
import warnings
from typing import Literal, Protocol

from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.errors import SandboxUnavailable
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.system.progress import first_to_say

REQUIRE_DOCKER = "TRACE_REQUIRE_DOCKER"
"""Environment variable: set to anything but 0, nothing but Docker is taken for a sandbox."""

IsolationLevel = Literal["docker", "bubblewrap", "none"]


class Backend(Protocol):
    """Starts blank sandboxes of one kind."""

    isolation_level: IsolationLevel
    version: str
    """See `version.sandbox_version`."""

    def start(self) -> Sandbox:
        """A new blank sandbox that has said hello; may be called from any thread.

        Raises:
            SandboxUnavailable: It could not be started.
        """

    def close(self) -> None:
        """Let go of what the backend itself holds."""


def docker_required() -> bool:
    """Whether whoever started this program wants Docker or nothing."""
    return os.environ.get(REQUIRE_DOCKER, "0") not in ("", "0")


def make_backend(config: SandboxConfig) -> Backend:
    """The backend that the settings ask for, checked to be usable.

    Raises:
        SandboxUnavailable: It is not usable here; the message names the fix.
    """
    if docker_required() and config.backend in ("bubblewrap", "unsafe-subprocess"):
        raise SandboxUnavailable(
            f"sandbox.backend is '{config.backend}', and Docker is required (--require-docker, or "
            f"{REQUIRE_DOCKER}): drop one of the two"
        )
    if config.runtime and config.backend in ("bubblewrap", "unsafe-subprocess"):
        raise SandboxUnavailable(
            f"sandbox.runtime is '{config.runtime}', which only Docker has, and sandbox.backend is "
            f"'{config.backend}': drop one of the two"
        )
    if config.backend == "unsafe-subprocess":
        from trace_assets.sandbox.local import UnsafeBackend

        return UnsafeBackend(config)
    if config.backend == "bubblewrap":
        from trace_assets.sandbox.local import BubblewrapBackend

        return BubblewrapBackend(config)
    from trace_assets.sandbox.docker import DockerBackend

    try:
        return DockerBackend(config)
    except SandboxUnavailable as error:
        if config.backend == "docker" or docker_required() or config.runtime:
            raise
        from trace_assets.sandbox.local import BubblewrapBackend

        try:
            backend = BubblewrapBackend(config)
        except SandboxUnavailable as second:
            raise SandboxUnavailable(f"no sandbox can be had here: {error}; and {second}") from None
        if first_to_say("bubblewrap"):
            warnings.warn(f"bubblewrap isolates less than Docker and is used because {error}", stacklevel=3)
        return backend
