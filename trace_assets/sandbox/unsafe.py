"""A bare child process: no isolation at all. For this project's own tests and for code you wrote yourself."""

from __future__ import annotations

import platform
import sys
import warnings

from trace_assets.sandbox import files
from trace_assets.sandbox.backend import IsolationLevel
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.flags import ENVIRONMENT, WORKER_FLAGS
from trace_assets.sandbox.local import start_process
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.version import sandbox_version


class UnsafeBackend:
    """Runs the worker as this user, on this machine's files and network."""

    isolation_level: IsolationLevel = "none"

    def __init__(self, config: SandboxConfig) -> None:
        warnings.warn(
            "the sandbox backend 'unsafe-subprocess' isolates nothing: environments run with all your rights",
            stacklevel=4,
        )
        self.config = config
        flags = {"flags": WORKER_FLAGS, "memory_mb": config.memory_mb}
        self.version = sandbox_version("unsafe-subprocess", flags, {"python": platform.python_version()})

    def start(self) -> Sandbox:
        """See `Backend`."""
        worker = str(files.folder() / "worker")
        sandbox = start_process([sys.executable, *WORKER_FLAGS, worker], self.config, env=ENVIRONMENT)
        sandbox.must_seal = False
        return sandbox

    def close(self) -> None:
        """See `Backend`."""
