"""A worker run as a child process of the host, for the backends that need no daemon."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trace_assets.sandbox.channel import SocketChannel
from trace_assets.sandbox.config import (
    BUBBLEWRAP,
    ENVIRONMENT,
    WORKER_FLAGS,
    SandboxConfig,
    compile_profile,
    sandbox_version,
    worker_files,
)
from trace_assets.sandbox.config import folder as own_folder
from trace_assets.sandbox.errors import SandboxUnavailable
from trace_assets.sandbox.pool import IsolationLevel
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


# Sandboxes from bubblewrap, for machines without Docker.


_NOBODY = 65534


def _interpreter() -> tuple[str, list[str]]:
    """A Python and the folders it needs, all readable by anyone: root's own installation would not do."""
    for candidate in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        if not Path(candidate).is_file():
            continue
        prefix = str(Path(candidate).resolve().parents[1])
        readable = all(parent.stat().st_mode & 0o005 == 0o005 for parent in Path(candidate).resolve().parents)
        if readable or os.geteuid() != 0:
            return str(Path(candidate).resolve()), sorted({prefix, "/usr"})
    raise SandboxUnavailable(
        "bubblewrap finds no Python that other users may run: install the system's python3"
    )


class BubblewrapBackend:
    """Starts bubblewrap, never with root's rights: as root it becomes `nobody` first."""

    isolation_level: IsolationLevel = "bubblewrap"

    def __init__(self, config: SandboxConfig) -> None:
        """Find bubblewrap and make sure that it works here.

        Raises:
            SandboxUnavailable: It does not; the message names the fix.
        """
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxUnavailable(
                "bubblewrap is not installed: install the package bubblewrap, or use Docker"
            )
        self.config = config
        self._program = program
        self._python, self._folders = _interpreter()
        self._filter = compile_profile()
        root = os.geteuid() == 0
        self._user: int | None = _NOBODY if root else None
        self._groups: tuple[int, ...] | None = () if root else None
        release = self._probe([self._python, "-c", "import platform; print(platform.python_version())"])
        version = self._ask([program, "--version"])
        flags = {"options": BUBBLEWRAP, "memory_mb": config.memory_mb, "worker": WORKER_FLAGS, **ENVIRONMENT}
        self.version = sandbox_version("bubblewrap", flags, {"python": release, "bubblewrap": version})

    def _ask(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, cwd="/")
        return done.stdout.strip()

    def _probe(self, command: list[str]) -> str:
        """Run something harmless, so that a kernel without user namespaces is told of at once."""
        done = subprocess.run(
            [*self._wrap(), *command],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
            cwd="/",
            env=ENVIRONMENT,
            user=self._user,
            group=self._user,
            extra_groups=self._groups,
        )
        if done.returncode != 0:
            raise SandboxUnavailable(
                f"bubblewrap does not work here ({done.stderr.strip()[:200]}): allow unprivileged user "
                "namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone), or Docker"
            )
        return str(done.stdout).strip()

    def _wrap(self) -> list[str]:
        command = [self._program, *BUBBLEWRAP]
        for folder in self._folders:
            command += ["--ro-bind", folder, folder]
        for link in ("bin", "lib", "lib64", "sbin"):
            path = Path("/", link)
            if path.is_symlink():
                command += ["--symlink", os.readlink(path), str(path)]
            elif path.is_dir():
                command += ["--ro-bind", str(path), str(path)]
        for name, value in ENVIRONMENT.items():
            command += ["--setenv", name, value]
        return command

    def start(self) -> Sandbox:
        """See `Backend`."""
        worker = {path.name: os.open(path, os.O_RDONLY) for path in worker_files()}
        filter_fd = os.memfd_create("seccomp")
        try:
            os.write(filter_fd, self._filter)
            os.lseek(filter_fd, 0, os.SEEK_SET)
            inside = ["--perms", "0755", "--dir", "/worker"]
            for name, fd in worker.items():
                inside += ["--perms", "0444", "--ro-bind-data", str(fd), f"/worker/{name}"]
            seal = ["--remount-ro", "/", "--seccomp", str(filter_fd)]
            command = [*self._wrap(), *inside, *seal, self._python, *WORKER_FLAGS, "/worker"]
            return start_process(
                command,
                self.config,
                pass_fds=(*worker.values(), filter_fd),
                env=ENVIRONMENT,
                user=self._user,
                group=self._user,
                extra_groups=self._groups,
            )
        finally:
            for fd in (*worker.values(), filter_fd):
                os.close(fd)

    def close(self) -> None:
        """See `Backend`."""


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
        worker = str(own_folder() / "worker")
        sandbox = start_process([sys.executable, *WORKER_FLAGS, worker], self.config, env=ENVIRONMENT)
        sandbox.must_seal = False
        return sandbox

    def close(self) -> None:
        """See `Backend`."""
