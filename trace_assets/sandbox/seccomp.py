"""The seccomp profile as the program the kernel takes, where no Docker translates it."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
from typing import Any

from trace_assets.sandbox import files
from trace_assets.sandbox.faults import SandboxUnavailable

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
    profile = json.loads((files.folder() / "seccomp.json").read_text())
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
