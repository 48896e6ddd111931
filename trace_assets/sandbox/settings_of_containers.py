"""What a sandbox is started with, as Docker and bubblewrap spell it: all of it counts for its version."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from trace_assets.sandbox.config import SandboxConfig
from trace_assets.sandbox.errors import SandboxUnavailable
from trace_assets.sandbox.protocol import PROTOCOL_VERSION
from trace_assets.shipped import shipped

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
