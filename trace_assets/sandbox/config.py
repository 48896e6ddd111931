"""How sandboxes are made and bounded, and what they are started with, as Docker and bubblewrap spell it.

All that they are started with counts for their version.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from trace_assets.sandbox.errors import SandboxUnavailable
from trace_assets.sandbox.protocol import PROTOCOL_VERSION
from trace_assets.shipped import shipped
from trace_assets.system.processes import memory_bytes, whole_cores

Backend = Literal["docker", "bubblewrap", "auto", "unsafe-subprocess"]
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


class SandboxConfig(BaseModel):
    """Settings of the sandbox; the defaults are the ones that were measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Backend = "auto"
    """`auto` is docker, else bubblewrap (weaker) with a warning; `unsafe-subprocess` isolates nothing."""
    runtime: str = ""
    """Docker's runtime, such as `runsc`; empty: the daemon's default."""
    docker_host: str | None = None
    """Address of the daemon; None: `DOCKER_HOST`, else the system's socket."""
    transport: Literal["auto", "socket", "attach"] = "auto"
    """How to talk to a container: a bind-mounted socket (same kernel as the daemon), or the SDK's attach."""
    image: str | None = None
    """Image to run; None: the project's own, built when missing."""
    base_image: str | None = None
    """Base to build the image on; None: python:3.11-slim, else one made of Debian packages."""
    memory_mb: int = Field(default=256, ge=32)
    """Memory of one sandbox, and of any one episode in it."""
    cpus: float = Field(default=1.0, gt=0)
    pids: int = Field(default=0, ge=0)
    """Most processes in one sandbox; 0: `max_sessions` + 32."""
    deadline_seconds: float = Field(default=5.0, gt=0)
    """Wall seconds for one reset, step, verdict or oracle."""
    load_deadline_seconds: float = Field(default=10.0, gt=0)
    """Wall seconds to take the source and to list its tools."""
    start_deadline_seconds: float = Field(default=30.0, gt=0)
    max_sessions: int = Field(default=64, ge=1, le=1024)
    """Most episodes alive at once in one sandbox."""
    spread: int = Field(default=1, ge=1)
    """Sandboxes that one environment's episodes are spread over before one is filled."""
    recycle_after: int = Field(default=4096, ge=1)
    """Episodes after which a sandbox is replaced."""
    spares: int = Field(default=1, ge=0)
    """Blank sandboxes kept started."""
    max_sandboxes: int = Field(default=0, ge=0)
    """Most live sandboxes; 0: the smaller of twice the cores and total memory / `memory_mb`."""
    recompute_share: float = Field(default=0.02, ge=0, le=1)
    """Share of the episodes that are paid for whose verdict is recomputed in a fresh sandbox."""

    @property
    def pid_limit(self) -> int:
        """Processes allowed in one sandbox."""
        return self.pids or self.max_sessions + 32

    @property
    def sandbox_limit(self) -> int:
        """Live sandboxes allowed."""
        if self.max_sandboxes:
            return self.max_sandboxes
        return max(2, min(2 * whole_cores(), memory_bytes() // (self.memory_mb << 20)))


# What an episode finds of the world beside its seed and its actions: the same in every phase.


CLOCK = 1_735_732_800
"""1 January 2025, noon, in UTC: when every episode takes place."""


@dataclass(frozen=True)
class Conditions:
    """What is varied by nobody but the audit and the sandbox's own battery.

    Attributes:
        clock: Seconds since 1970 that every wall clock shows, and goes on showing.
        process: Number that an episode takes for that of its process.
        first_request: Number of an episode's first request.
        sealed: Whether an episode gives up the kernel before its code runs. The battery alone leaves it out,
            to attack the walls behind that one.
    """

    clock: int = CLOCK
    process: int = 2
    first_request: int = 1
    sealed: bool = True


EVERYWHERE = Conditions()
"""The conditions of every episode that is played in earnest."""
BARE = Conditions(process=0, sealed=False)
"""Of an episode that is held by its container alone."""


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
        **({"Runtime": config.runtime} if config.runtime else {}),
    }


# Where the files that go into a sandbox lie.


def folder() -> Path:
    """The folder with the worker, the Dockerfile and the seccomp profile.

    Raises:
        SandboxUnavailable: It is not where the package was installed.
    """
    named = os.environ.get("TRACE_SANDBOXES")
    place = Path(named) if named else shipped("sandboxes")
    if not (place / "worker" / "__main__.py").is_file():
        raise SandboxUnavailable(
            f"the sandbox's files are not in {place}: install the package again, or set TRACE_SANDBOXES "
            "to the folder that holds worker/__main__.py"
        )
    return place


def worker_files() -> list[Path]:
    """The files of the worker, by name."""
    return sorted((folder() / "worker").glob("*.py"))


@cache
def worker_hash() -> str:
    """SHA-256 of the worker that this package ships; a sandbox with another one is refused."""
    digest = hashlib.sha256()
    for path in worker_files():
        text = path.read_bytes()
        digest.update(f"{path.name} {len(text)}\n".encode() + text)
    return digest.hexdigest()


# The seccomp profile as the program the kernel takes, where no Docker translates it.


_ALLOW = 0x7FFF0000
_EPERM = 1
_COMPARE = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}


class _Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp` of libseccomp."""

    _fields_ = [
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    ]


def _errno(number: int) -> int:
    return 0x00050000 | number


def _library() -> Any:
    name = ctypes.util.find_library("seccomp") or "libseccomp.so.2"
    try:
        library = ctypes.CDLL(name, use_errno=True)
    except OSError:
        raise SandboxUnavailable(
            "bubblewrap needs libseccomp.so.2 to bound the system calls: install libseccomp2"
        ) from None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_release.argtypes = [ctypes.c_void_p]
    library.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.POINTER(_Comparison)
    ]  # fmt: skip
    library.seccomp_export_bpf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    return library


def compile_profile() -> bytes:
    """Compile `sandboxes/seccomp.json` for this machine.

    Returns:
        The BPF program, an array of `struct sock_filter`.

    Raises:
        SandboxUnavailable: libseccomp is missing or refuses the profile.
    """
    library = _library()
    profile = json.loads((folder() / "seccomp.json").read_text())
    context = library.seccomp_init(_errno(_EPERM))
    if not context:
        raise SandboxUnavailable("libseccomp could not be started: update libseccomp2")
    try:
        for rule in profile["syscalls"]:
            action = _ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else _errno(rule["errnoRet"])
            tests = [
                _Comparison(test["index"], _COMPARE[test["op"]], test["value"], test["valueTwo"])
                for test in rule.get("args", [])
            ]
            array = (_Comparison * max(1, len(tests)))(*tests)
            for name in rule["names"]:
                number = library.seccomp_syscall_resolve_name(name.encode())
                if number < 0:  # not a system call of this machine
                    continue
                if library.seccomp_rule_add_array(context, action, number, len(tests), array) != 0:
                    raise SandboxUnavailable(f"libseccomp refuses the rule for {name}: update libseccomp2")
        return _export(library, context)
    finally:
        library.seccomp_release(context)


def _export(library: Any, context: int) -> bytes:
    fd = os.memfd_create("seccomp")
    try:
        if library.seccomp_export_bpf(context, fd) != 0:
            raise SandboxUnavailable("libseccomp could not export the filter: update libseccomp2")
        os.lseek(fd, 0, os.SEEK_SET)
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)


def sandbox_version(backend: str, flags: dict[str, Any], base: dict[str, Any]) -> str:
    """Name what decides how code behaves in a sandbox.

    Args:
        backend: Name of the isolation.
        flags: Limits and options that a sandbox is started with.
        base: What it runs on: layers, user, environment and entry point of an image; not its id, which
            changes with every build.

    Returns:
        16 hexadecimal digits.
    """
    parts = {
        "protocol": PROTOCOL_VERSION,
        "backend": backend,
        "flags": flags,
        "base": base,
        "worker": worker_hash(),
        "seccomp": hashlib.sha256((folder() / "seccomp.json").read_bytes()).hexdigest(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
