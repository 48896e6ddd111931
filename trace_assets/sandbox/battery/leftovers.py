"""What the whole battery left in this process and on its daemon: nothing."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from trace_assets.sandbox import reaper
from trace_assets.sandbox.backend import make_backend
from trace_assets.sandbox.battery.outcome import Played
from trace_assets.sandbox.config import SandboxConfig

SLACK = 8
"""Descriptors that the libraries keep for the next time: a connection to the daemon a thread."""


class Inventory:
    """Descriptors, containers and folders of this process, before and after."""

    def __init__(self, config: SandboxConfig) -> None:
        self._config = config
        self._containers, self._folders = _containers(config), _folders()
        self._descriptors = len(os.listdir("/proc/self/fd"))
        self._began = time.monotonic()

    def compare(self) -> Played:
        """Return what is there beyond what was there before; every sandbox must be closed."""
        descriptors = len(os.listdir("/proc/self/fd")) - self._descriptors
        more = sorted(_containers(self._config) - self._containers)
        folders = sorted(_folders() - self._folders)
        effects = [f"container {one[:12]} was left" for one in more]
        effects += [f"folder {one} was left" for one in folders]
        if descriptors > SLACK:
            effects.append(f"{descriptors} descriptors were left open")
        return Played(
            name="nothing_is_left",
            group="recovery",
            tries="After all of it, look for containers, folders and descriptors that were left.",
            status="fail" if effects else "pass",
            expected="clean",
            outcome="left" if effects else "clean",
            detail=f"{descriptors:+d} descriptors, {len(more)} containers, {len(folders)} folders",
            effects=tuple(effects),
            seconds=time.monotonic() - self._began,
        )


def _containers(config: SandboxConfig) -> set[str]:
    """This process's containers; none without Docker."""
    backend = make_backend(config)
    try:
        client = getattr(backend, "client", None)
        if client is None:
            return set()
        label = f"{reaper.PROJECT}.pid={os.getpid()}"
        return {one["Id"] for one in client().api.containers(all=True, filters={"label": label})}
    finally:
        backend.close()


def _folders() -> set[str]:
    """This process's folders for sockets."""
    places = {Path(tempfile.gettempdir()), Path("/tmp")}
    return {str(one) for place in places for one in place.glob(f"{reaper.FOLDER}-{os.getpid()}-*")}
