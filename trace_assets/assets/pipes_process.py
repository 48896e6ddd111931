"""A training process on this machine, in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from trace_assets.assets.held_folder import held_folder
from trace_assets.assets.training_process import GRACE_SECONDS
from trace_assets.errors import Unavailable
from trace_assets.variables import GROUP_OF_A_TRAINING


class ProcessLauncher:
    """Starts a training in an interpreter of this machine.

    `PipesSubprocessClient` signals the direct child only, so that what that one started (workers of a
    launcher, a model server) would live on after a cancelled run; hence a group that is ended whole.

    Args:
        command: Interpreter and module.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self.where = self._command[0]

    def folder(self) -> AbstractContextManager[Path]:
        """See `Launcher`."""
        return held_folder(Path(tempfile.gettempdir()))

    def start(self, environment: Mapping[str, str], folder: Path) -> StartedProcess:
        """See `Launcher`."""
        # A cluster may name its own processes so; whoever trains here is none of those.
        own = {key: value for key, value in os.environ.items() if key not in GROUP_OF_A_TRAINING}
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                env={**own, **environment},
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(f"{self.where} cannot be started ({error}); mend training.python.") from error
        return StartedProcess(process)


class StartedProcess:
    """The leader of a process group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait(self, seconds: float) -> int | None:
        """See `Started`."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    def end(self) -> None:
        """See `Started`."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
