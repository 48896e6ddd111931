"""This machine: which it is and which boot of it, its accelerators, and where a server can listen on it."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl  # what has no client to make does without it


@dataclass(frozen=True)
class Machine:
    """A machine from one start of its kernel to the next.

    Attributes:
        host: Its name; that of the container inside one.
        boot: Random id of this boot of the kernel, which containers share with their machine; empty where
            the system has none.
        installation: Id that stays the same over boots; copies of a disk image may share it.
    """

    host: str
    boot: str = ""
    installation: str = ""

    def shares_kernel(self, other: Machine) -> bool:
        """Whether both are one kernel: then its locks and process ids mean the same to both."""
        return self.boot == other.boot if self.boot or other.boot else self.host == other.host

    def ran_before(self, other: Machine, since: float, booted: float) -> bool:
        """Whether this is an earlier boot of another, so that nothing of it runs any more.

        Copies of one image under one name look alike too; of these only one that was at work before the
        other was switched on is taken for it.

        Args:
            other: The machine that asks.
            since: When something was begun on this one, seconds (Unix).
            booted: When the other was switched on.
        """
        same = (self.host, self.installation) == (other.host, other.installation)
        return same and bool(self.installation) and self.boot != other.boot and since < booted


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    boot = _line("/proc/sys/kernel/random/boot_id")
    return Machine(socket.gethostname(), boot, _line("/etc/machine-id"))


def booted_at() -> float:
    """Return when this machine was switched on, seconds (Unix), by the clock as it is now."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


QUERY = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
PATIENCE = 4.0
"""Seconds for nvidia-smi: a driver that hangs is none that can be worked with."""


@dataclass(frozen=True)
class Accelerator:
    """One GPU.

    Attributes:
        name: As the driver calls it, such as `NVIDIA H200`.
        gib: Its memory.
    """

    name: str
    gib: float


def accelerators() -> list[Accelerator]:
    """Return the NVIDIA GPUs here; none where there is no driver, or none that answers."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *QUERY], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse(done.stdout) if done.returncode == 0 else []


def parse(text: str) -> list[Accelerator]:
    r"""Read what nvidia-smi printed; lines that tell no memory are left out.

    >>> parse("NVIDIA H200, 143771\nNVIDIA GB10, [N/A]\n")
    [Accelerator(name='NVIDIA H200', gib=140.4013671875)]
    """
    found = []
    for line in text.splitlines():
        name, _, megabytes = line.rpartition(",")
        if name and megabytes.strip().isdigit():
            found.append(Accelerator(name.strip(), int(megabytes) / 1024))
    return found


_QUIET_PORTS = 12_000
"""From here on hardly a program has a port of its own by custom."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on now; somebody else may take it before it is used.

    It is none of those that the system gives to connections and to servers of any port: until it is used,
    which takes a program's start, many of these begin.
    """
    chance = random.SystemRandom()  # processes that were seeded alike must not meet
    handed_out = _handed_out_from()
    for _ in range(100 if handed_out > _QUIET_PORTS else 0):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", chance.randrange(_QUIET_PORTS, handed_out)))
            return int(probe.getsockname()[1])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _handed_out_from() -> int:
    """Return the first of the ports that the system gives to whoever asks for any."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768  # Linux's own choice; others begin higher


def through_proxies(url: str) -> bool:
    """Return whether `HTTP_PROXY` and the like hold for an address: for all but this machine's own.

    No proxy reaches a server that listens here alone, and `NO_PROXY` seldom says so; browsers and Go make the
    same exception. An encrypted connection takes everything from the environment: httpx knows only all or
    nothing of it, and `SSL_CERT_FILE` is there as well.

    >>> [through_proxies(f"http://{host}:8000/v1") for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0")]
    [False, False, False, False]
    >>> [through_proxies(url) for url in ("http://a.com/v1", "https://localhost/v1", "localhost:8000", "http://[")]
    [True, True, True, True]
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return True
        if host == "localhost" or host.endswith(".localhost"):
            return False
        address = ip_address(host)
    except ValueError:
        return True
    return not (address.is_loopback or address.is_unspecified)


def certificates(trust_env: bool) -> ssl.SSLContext:
    """Return the certificates that an httpx client trusts, for its `verify`.

    They are read once a process: a client that reads them by itself takes 50 ms of processor to be made, also
    where it speaks plain HTTP, and 1 ms with these.

    Args:
        trust_env: As the client has it: whether `SSL_CERT_FILE` and `SSL_CERT_DIR` hold.
    """
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR") if trust_env else ()
    return _certificates(trust_env, tuple(os.environ.get(name) for name in names))


@cache
def _certificates(trust_env: bool, named: tuple[str | None, ...]) -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=trust_env)
