"""Whether the host is as it was: processes, files, kernel settings, memory, containers."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from trace_assets.sandbox import image
from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.docker import DockerContainer
from trace_assets.sandbox.local import ProcessContainer
from trace_assets.sandbox.pool import make_backend
from trace_assets.sandbox.sandbox import Sandbox
from trace_assets.sandbox.selftest.attack import Played

_SETTINGS = ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "kernel/domainname")
_PATIENCE = 10.0
"""Seconds for a kill in the background to be done."""
MAX_GROWTH_MB = 96.0
"""How much this process may grow while one attack is played: a reply is a MiB at most."""


@dataclass(frozen=True)
class Bait:
    """What is put on the host for attacks to find; whoever gets it has escaped.

    Attributes:
        file: Path of a file that every user of the host may read.
        secret: What is in it.
        socket: Name of an abstract Unix socket that the host listens on.
        port: TCP and UDP port that the host listens on, on its loopback.
        mark: Part of the name of every file that an attack writes.
        pid: The host's process that plays the attack.
    """

    file: str
    secret: str
    socket: str
    port: int
    mark: str
    pid: int

    def words(self) -> Mapping[str, str]:
        """The names by which attacks speak of it."""
        return {
            "@FILE@": self.file,
            "@SOCKET@": self.socket,
            "@PORT@": str(self.port),
            "@MARK@": self.mark,
            "@PID@": str(self.pid),
        }


class Trap:
    """What one attack is to find, and whether it did. A context manager.

    Files that attacks write carry the mark in their names and are looked for in the places below.
    """

    def __init__(self) -> None:
        token = secrets.token_hex(8)
        self._folder = tempfile.TemporaryDirectory(prefix="trace-bait-")
        Path(self._folder.name).chmod(0o755)
        file = Path(self._folder.name, "secret")
        secret = secrets.token_hex(16)
        file.write_text(secret)
        file.chmod(0o644)
        self._sockets = [self._unix(f"trace-bait-{token}"), *self._ports()]
        port = self._sockets[1].getsockname()[1]
        self.bait = Bait(str(file), secret, f"trace-bait-{token}", port, f"trace-attack-{token}", os.getpid())
        self._settings = _settings()

    @staticmethod
    def _unix(name: str) -> socket.socket:
        one = socket.socket(socket.AF_UNIX)
        one.bind(f"\0{name}")
        one.listen(8)
        return one

    @staticmethod
    def _ports() -> list[socket.socket]:
        """A TCP and a UDP socket on the same port of the loopback."""
        for _ in range(20):
            tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
            except OSError:
                tcp.close()
                udp.close()
                continue
            tcp.listen(8)
            return [tcp, udp]
        raise OSError("no port is free for both TCP and UDP on the loopback")

    def _callers(self) -> Iterator[str]:
        """Whoever connected or sent something: the kernel keeps it until it is asked for."""
        ready, _, _ = select.select(self._sockets, [], [], 0)
        for one in ready:
            with contextlib.suppress(OSError):
                if one.type == socket.SOCK_DGRAM:
                    one.recv(64)
                    yield "a datagram reached a port of the host"
                    continue
                one.accept()[0].close()
                kind = "an abstract socket" if one.family == socket.AF_UNIX else "a port"
                yield f"somebody connected to {kind} of the host"

    def findings(self) -> list[str]:
        """Return what an attack left or reached, and forget it: files are removed."""
        found = list(self._callers())
        for place in _places():
            for path in _marked(place, self.bait.mark):
                found.append(f"a file of the attack is on the host: {path}")
                with contextlib.suppress(OSError):
                    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        now = _settings()
        found += [f"{name} of the kernel was changed" for name in now if now[name] != self._settings[name]]
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._sockets:
            one.close()
        self._folder.cleanup()


def _places() -> list[Path]:
    named = ["/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/run", "/home", "/opt", tempfile.gettempdir()]
    return sorted({Path(place) for place in [*named, os.path.expanduser("~"), os.getcwd()]})


def _marked(place: Path, mark: str) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from (path for path in place.iterdir() if mark in path.name)


def _settings() -> dict[str, str]:
    found = {}
    for name in _SETTINGS:
        with contextlib.suppress(OSError):
            found[name] = Path("/proc/sys", name).read_text()
    return found


class Watch:
    """The processes of one sandbox, and this process's memory, from its start to after its death."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.container = sandbox.container
        self._docker = sandbox.container if isinstance(sandbox.container, DockerContainer) else None
        self._known: set[tuple[int, str]] = set()
        self._rss = own_memory_mb()
        self.note()

    def note(self) -> None:
        """Take down the processes that belong to the sandbox now."""
        for pid in self._members():
            started = _stat(pid)[19:20]
            if started:
                self._known.add((pid, started[0]))

    def _members(self) -> list[int]:
        if self._docker is not None:
            return container_processes(self._docker.id)
        assert isinstance(self.container, ProcessContainer)
        return process_tree(self.container.process.pid)

    def _listed(self) -> bool:
        """Whether the daemon still knows the container."""
        if self._docker is None:
            return False
        return bool(self._docker.api.containers(all=True, filters={"id": self._docker.id}))

    def left(self) -> list[str]:
        """Wait for the end of all processes, and return those that do not end and what else is left."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            alive = [(pid, start) for pid, start in self._known if _lives(pid, start)]
            if self._docker is not None:
                alive += [(pid, "") for pid in container_processes(self._docker.id)]
            if not alive or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        found = [f"process {pid} of the sandbox still runs" for pid in sorted({pid for pid, _ in alive})]
        while self._listed():  # also where the daemon's processes are not ours to see
            if time.monotonic() > deadline:
                found.append(f"{self.container.name} is still there")
                break
            time.sleep(0.02)
        growth = own_memory_mb() - self._rss
        if growth > MAX_GROWTH_MB:
            found.append(f"this process grew by {growth:.0f} MB")
        return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, name: str) -> str:
    try:
        return Path("/proc", str(pid), name).read_text()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """Fields of a process from its state on: parent at 1, start time at 19; none when it is gone."""
    return _read(pid, "stat").rsplit(")", 1)[-1].split()


def _lives(pid: int, started: str) -> bool:
    """Whether this very process is there and more than a zombie."""
    fields = _stat(pid)
    return len(fields) > 19 and fields[19] == started and fields[0] not in ("Z", "X")


def container_processes(container_id: str) -> list[int]:
    """Return the processes of a container, whoever asks: every user may read a process's control group."""
    return [pid for pid in _pids() if container_id in _read(pid, "cgroup")]


def running(pids: list[int]) -> list[int]:
    """Return those of some processes that are more than zombies."""
    return [pid for pid in pids if _stat(pid)[:1] not in ([], ["Z"], ["X"])]


def process_tree(root: int) -> list[int]:
    """Return a process and all that descend from it."""
    parents = {}
    for pid in _pids():
        fields = _stat(pid)
        if len(fields) > 1:
            parents[pid] = int(fields[1])
    found, level = [root], [root]
    while level:
        level = [pid for pid, parent in parents.items() if parent in level]
        found += level
    return found


def own_memory_mb() -> float:
    """Resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# What the whole battery left in this process and on its daemon: nothing.


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
        label = f"{image.PROJECT}.pid={os.getpid()}"
        return {one["Id"] for one in client().api.containers(all=True, filters={"label": label})}
    finally:
        backend.close()


def _folders() -> set[str]:
    """This process's folders for sockets."""
    places = {Path(tempfile.gettempdir()), Path("/tmp")}
    return {str(one) for place in places for one in place.glob(f"{image.FOLDER}-{os.getpid()}-*")}
