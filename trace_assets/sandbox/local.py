"""A worker run as a child process of the host, for the backends that need no daemon."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from trace_assets.sandbox.channel import SocketChannel
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.faults import SandboxUnavailable
from trace_assets.sandbox.sandbox import Sandbox

_POST_MORTEM_SECONDS = 0.5


class ProcessContainer:
    """A child process, the leader of its own process group."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.name = f"process {process.pid}"

    def kill(self) -> None:
        """See `Container`. The group is killed also when its leader has ended: its children may live on.

        Nobody else waits for the leader, so its number, which is the group's, cannot have become another's.
        """
        if self.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)

    def post_mortem(self) -> str | None:
        """See `Container`."""
        until = time.monotonic() + _POST_MORTEM_SECONDS
        while self.process.returncode is None and time.monotonic() < until:
            ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                code = ended.si_status
                return f"exit {code}" if ended.si_code == os.CLD_EXITED else f"signal {code}"
            time.sleep(0.01)
        code = self.process.returncode
        return None if code is None else f"exit {code}" if code >= 0 else f"signal {-code}"


def start_process(
    command: Sequence[str], config: SandboxConfig, pass_fds: Sequence[int] = (), **options: Any
) -> Sandbox:
    """Run `command` with `--fd 0` appended: its end of a fresh socket pair.

    Raises:
        SandboxUnavailable: It could not be started or said no hello.
    """
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [*command, "--fd", "0"],  # always the same words: the number of a descriptor tells of the host
            pass_fds=pass_fds,
            stdin=theirs.fileno(),
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
