"""Whose container is it: labels that outlive their owner, and the removal of what dead owners left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = "trace-assets.sandbox"
FOLDER = "trace-sandbox"
_LIFETIME = 24 * 3600
"""Seconds after which a container may be removed by who cannot tell whether its owner lives."""


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"


def _start_time(pid: int) -> str | None:
    """Clock ticks after boot at which a process began; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rsplit(")", 1)[1].split()[19]


def owner_labels() -> dict[str, str]:
    """Labels for a container that this process starts now."""
    pid = os.getpid()
    return {
        PROJECT: "1",
        f"{PROJECT}.pid": str(pid),
        f"{PROJECT}.start": _start_time(pid) or "",
        f"{PROJECT}.boot": _boot_id(),
        f"{PROJECT}.namespace": _pid_namespace(),
        f"{PROJECT}.expires": str(int(time.time()) + _LIFETIME),
    }


def _short_folder() -> Path:
    """A folder whose socket paths stay below the kernel's 108 bytes."""
    folder = tempfile.gettempdir()
    return Path(folder if len(folder) <= 24 else "/tmp")


def owner_folder(parent: Path | None = None) -> Path:
    """A new private folder for this process's sockets, its name telling whose it is."""
    parent, pid = parent or _short_folder(), os.getpid()
    prefix = f"{FOLDER}-{pid}-{_start_time(pid) or 0}-{_pid_namespace().strip('pid:[]')}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def sweep_folders(parent: Path | None = None) -> None:
    """Remove the folders that dead owners of this user left in `parent`, the one for sockets by default."""
    parent = parent or _short_folder()
    here = _pid_namespace().strip("pid:[]")
    for folder in parent.glob(f"{FOLDER}-*-*-*-*"):
        pid, start, namespace = folder.name.removeprefix(f"{FOLDER}-").split("-")[:3]
        with contextlib.suppress(OSError):
            mine = folder.lstat().st_uid == os.geteuid() and namespace == here and pid.isdigit()
            if mine and (_start_time(int(pid)) or "0") != start:
                shutil.rmtree(folder, ignore_errors=True)


def is_leftover(labels: dict[str, str], now: float) -> bool:
    """Whether the owner of a container with these labels is gone for sure.

    An owner on another boot or in another pid namespace cannot be looked up: its containers are left alone
    until they expire.
    """
    here = (labels.get(f"{PROJECT}.boot"), labels.get(f"{PROJECT}.namespace")) == (
        _boot_id(),
        _pid_namespace(),
    )
    try:
        if here:
            pid = int(labels[f"{PROJECT}.pid"])
            return _start_time(pid) != labels[f"{PROJECT}.start"]
        return float(labels[f"{PROJECT}.expires"]) < now
    except (KeyError, ValueError):
        return True


def sweep(client: Any) -> int:
    """Remove the containers that dead owners left on this daemon.

    Args:
        client: A `docker.DockerClient`.

    Returns:
        How many were removed.
    """
    import docker.errors

    removed = 0
    for container in client.api.containers(all=True, filters={"label": f"{PROJECT}=1"}):
        if is_leftover(container.get("Labels") or {}, time.time()):
            with contextlib.suppress(docker.errors.APIError):  # someone else was faster
                client.api.remove_container(container["Id"], force=True)
                removed += 1
    return removed
