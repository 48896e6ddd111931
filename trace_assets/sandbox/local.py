"""A worker run as a child process of the host, for the backends that need no daemon."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from typing import Any

from trace_assets.sandbox.channel import SocketChannel
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.faults import SandboxUnavailable
from trace_assets.sandbox.sandbox import Sandbox


class ProcessContainer:
    """A child process, the leader of its own process group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.name = f"process {process.pid}"

    def kill(self) -> None:
        """See `Container`."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)

    def post_mortem(self) -> str | None:
        """See `Container`."""
        try:
            code = self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            return None
        return f"exit {code}" if code >= 0 else f"signal {-code}"


def start_process(
    command: Sequence[str], config: SandboxConfig, pass_fds: Sequence[int] = (), **options: Any
) -> Sandbox:
    """Run `command` with `--fd N` appended, N being its end of a fresh socket pair.

    Raises:
        SandboxUnavailable: It could not be started or said no hello.
    """
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [*command, "--fd", str(theirs.fileno())],
            pass_fds=[theirs.fileno(), *pass_fds],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            **options,
        )
    except OSError as error:
        ours.close()
        raise SandboxUnavailable(f"the sandbox's process could not be started: {error}") from None
    finally:
        theirs.close()
    sandbox = Sandbox(ProcessContainer(process), SocketChannel(ours), True, config)
    try:
        sandbox.greet()
    except SandboxUnavailable:
        sandbox.container.kill()
        raise
    return sandbox
