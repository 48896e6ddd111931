"""Machines of a small network on this one: namespaces that share a folder, the code, and nothing else.

Each has its own network address, processes, host name, boot id, /tmp and /dev/shm, so that neither a path nor
a process number nor a lock's meaning leaks from one to another by accident. Making them takes root.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("ip", "unshare", "nsenter")
UNSHARE = ("unshare", *["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"])
PORT = 6379

PRIVATE = """
set -e
hostname "$NODE"
ip link set lo up
# Through a folder of its own, for what is shared may itself lie in what becomes private.
mount -t tmpfs none /media
for place in $KEPT; do mkdir -p "/media$place"; mount --bind "$place" "/media$place"; done
mount -t tmpfs none /tmp
mount -t tmpfs none /dev/shm
for place in $KEPT; do mkdir -p "$place"; mount --bind "/media$place" "$place"; done
umount -R /media
mkdir -p /tmp/home
printf '%s\\n' "$BOOT" > /tmp/boot_id
printf '%s\\n' "$BOOT" | tr -d - > /tmp/machine-id
mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id
[ ! -f /etc/machine-id ] || mount --bind /tmp/machine-id /etc/machine-id
export HOME=/tmp/home
exec "$@"
"""
"""What the first process of a node does before it is Ray's; its arguments are the command to become."""


def why_not() -> str:
    """Say why there can be no namespaces here; nothing when there can."""
    if os.geteuid() != 0:
        return "namespaces for three nodes need root"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"three nodes need {', '.join(missing)} (Debian: iproute2, util-linux)"
    tried = subprocess.run(
        [*UNSHARE, "--net", "sh", "-c", "mount -t tmpfs none /media && hostname a"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


class Machine:
    """One of them.

    Attributes:
        name: Its host name.
        address: Its address on the bridge.
        first: Its first process, as this machine counts; killed, all of it are gone at once.
    """

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.network, self.name = network, name
        self.address = f"{network.prefix}.{10 + number}"
        self._space, self._link = f"{network.id}{name}", f"v{network.id}{name}"
        self._log = network.logs / f"{name}.log"
        self._outer: subprocess.Popen[bytes] | None = None
        self.first = 0
        self.boot = ""

    def start(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Switch it on: its first process becomes a command."""
        link = self._link
        _ip("netns", "add", self._space)
        _ip("link", "add", link, "type", "veth", "peer", "name", "e0", "netns", self._space)
        _ip("link", "set", link, "master", self.network.bridge, "up")
        inside = ("netns", "exec", self._space, "ip")
        _ip(*inside, "addr", "add", f"{self.address}/24", "dev", "e0")
        _ip(*inside, "link", "set", "e0", "up")
        self.boot = str(uuid4())
        said = {"NODE": self.name, "BOOT": self.boot, "KEPT": " ".join(map(str, self.network.kept))}
        with self._log.open("ab") as file:
            self._outer = subprocess.Popen(
                ["ip", "netns", "exec", self._space, *UNSHARE, "sh", "-c", PRIVATE, "sh", *command],
                env={**plain_environment(), **variables, **said},
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.first = self._find_first()

    def _find_first(self) -> int:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            outer = self._outer
            assert outer is not None and outer.poll() is None, (
                self.network.logs / f"{self.name}.log"
            ).read_text()
            with suppress(OSError):
                # `ip netns exec` has become `unshare`, whose only child is process 1 of the node.
                children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
                if children:
                    return int(children[0])
            time.sleep(0.05)
        raise AssertionError(f"{self.name} has no first process")

    def inside(self, *command: str) -> list[str]:
        """Return how a command is run on it from outside."""
        spaces = ("--mount", "--pid", "--uts", "--net", "--ipc")
        return ["nsenter", "--target", str(self.first), *spaces, *command]

    def pids(self) -> list[int]:
        """Return its processes, as this machine counts."""
        done = subprocess.run(
            ["ip", "netns", "pids", self._space], capture_output=True, text=True, check=False
        )
        return [int(word) for word in done.stdout.split()]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes, the first one last."""
        for pid in [one for one in self.pids() if one not in (self.first,)] + [self.first]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self) -> None:
        """Switch it off: all that runs on it is gone at once, its network too."""
        if self._outer is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.first, signal.SIGKILL)
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._outer.wait(60)
        self._outer = None
        # The kernel takes a dead namespace's links away in its own time, and a new one needs their names.
        subprocess.run(["ip", "link", "del", self._link], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self._space], capture_output=True, check=False)


class Network:
    """A bridge with machines on it.

    Args:
        shared: The folder that all of them see under its own path.
        logs: Folder for what they say.
    """

    def __init__(self, shared: Path, logs: Path) -> None:
        self.id = f"t{os.getpid() % 10000}"
        self.prefix = f"10.77.{os.getpid() % 250}"
        self.bridge, self.logs = f"b{self.id}", logs
        code = (ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
        hidden = [place for place in code if place.is_relative_to("/tmp")]
        self.kept = [shared.resolve(), *dict.fromkeys(hidden)]
        self.machines: dict[str, Machine] = {}
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.prefix}.1/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")

    def start(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> Machine:
        """Switch a machine on, a new one or one that was killed."""
        machine = self.machines.get(name) or Machine(self, name, len(self.machines) + 1)
        self.machines[name] = machine
        # `{address}` is known only now.
        machine.start([word.format(address=machine.address) for word in command], variables)
        return machine

    def close(self) -> None:
        """Switch all off, and take the bridge away."""
        for machine in self.machines.values():
            machine.kill()
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True, check=False)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"


def plain_environment() -> dict[str, str]:
    """Return the environment without what belongs to this machine: its homes, clusters and proxies."""
    dropped = ("TRACE_", "RAY_", "DAGSTER_")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(dropped) and not name.lower().endswith("_proxy")
    }
