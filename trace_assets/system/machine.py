"""Which machine this is, and which boot of it: locks and process ids mean something only there."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path


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
    """Return when this machine was switched on, seconds (Unix); 0 where the system does not say."""
    uptime = _line("/proc/uptime")
    return time.time() - float(uptime.split()[0]) if uptime else 0.0


def _line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
