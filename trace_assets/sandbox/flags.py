"""What a sandbox is started with, as Docker and bubblewrap spell it: all of it counts for its version."""

from __future__ import annotations

from typing import Any

from trace_assets.sandbox.config import SandboxConfig

WORKER_FLAGS = ("-P", "-s", "-S", "-B")
"""Of the interpreter; `-I` would be stricter, and ignores PYTHONHASHSEED."""
ENVIRONMENT = {"PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}
"""All that a worker started on this machine finds in its environment."""
BUBBLEWRAP = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
    "--as-pid-1",  # bubblewrap's own first process would run without the filter, within reach of the episodes
    *("--cap-drop", "ALL", "--clearenv", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"),
    *("--chdir", "/", "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
)
CONTAINER: dict[str, Any] = {
    "User": "65534:65534",
    "Env": ["PYTHONHASHSEED=0"],
    "Hostname": "sandbox",
    "NetworkDisabled": True,
}
"""The part of a container's configuration that is the same for all."""


def host_flags(config: SandboxConfig, seccomp: str) -> dict[str, Any]:
    """The `HostConfig` that every sandbox is created with, as the Docker API spells it.

    There is no writable place at all: scratch space would carry state from one episode to the next.
    """
    memory = config.memory_mb << 20
    limits = {"nofile": 256, "fsize": 0, "core": 0, "cpu": 600, "memlock": 0, "msgqueue": 0}
    return {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={seccomp}"],
        "PidsLimit": config.pid_limit,
        "Memory": memory,
        "MemorySwap": memory,
        "NanoCpus": int(config.cpus * 1e9),
        "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in limits.items()],
        "IpcMode": "none",
        "CgroupnsMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "OomScoreAdj": 1000,
        "AutoRemove": True,
        "Privileged": False,
    }
