"""Sandboxes from bubblewrap, for machines without Docker.

Weaker than Docker. Each process has its own memory limit, no episode may start another process, and the
system calls are those of the Docker sandbox; but no cgroup bounds what many episodes use together.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from trace_assets.sandbox import files
from trace_assets.sandbox.backend import IsolationLevel
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.faults import SandboxUnavailable
from trace_assets.sandbox.flags import BUBBLEWRAP, ENVIRONMENT, WORKER_FLAGS
from trace_assets.sandbox.local import start_process
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.seccomp import compile_profile
from trace_assets.sandbox.version import sandbox_version

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
        worker = {path.name: os.open(path, os.O_RDONLY) for path in files.worker_files()}
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
