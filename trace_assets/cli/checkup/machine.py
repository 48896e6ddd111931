"""The machine itself: Python, processor, memory, disk, accelerator."""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trace_assets.allotment import group_number, memory_bytes, usable_cores
from trace_assets.cli.checkup.finding import EVERY, Door, Finding, State

GIB = 2**30
LEAST_PYTHON = (3, 11)
GPU_GIB = 24
"""Memory with which a GPU serves and adapts an 8-billion-parameter model in 16 bits."""


def python() -> Finding:
    """Look at the interpreter and the system."""
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < LEAST_PYTHON:
        wanted = ".".join(map(str, LEAST_PYTHON))
        fix = f"install Python {wanted} or later and run `make base PYTHON=python{wanted}`"
        return Finding("python", "missing", detail, EVERY, fix)
    if platform.system() != "Linux":
        return Finding(
            "python", "degraded", f"{detail}; tested on Linux alone", EVERY, "use Linux, or a container of it"
        )
    return Finding("python", "ok", detail, EVERY)


def cores() -> Finding:
    """Look at how many processors this process may use, a container's quota included."""
    n = usable_cores()
    few = n < 2
    return Finding(
        "cores",
        "degraded" if few else "ok",
        f"{n:g}" + ("; the embedded loop takes about twice as long as on two" if few else ""),
        fix="give this machine or container two cores or more" if few else "",
    )


def memory() -> Finding:
    """Look at the memory that is to be had, a container's limit included."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free, total = (int(lines[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
    if memory_bytes() < total:
        used = group_number("memory.current") or group_number("memory/memory.usage_in_bytes") or 0
        total = memory_bytes()
        free = min(free, max(0, total - int(used)))
    detail = f"{free / GIB:.1f} of {total / GIB:.1f} GiB free"
    fix = "end other programs (`top -o %MEM`)"
    return _enough("memory", free / GIB, detail, wanted=4, least=1.5, fix=fix)


def disk(folder: Path) -> Finding:
    """Look at the room for tables and models."""
    usage = shutil.disk_usage(folder)
    detail = f"{usage.free / GIB:.1f} GiB free on the disk of {folder}"
    fix = f"make room (`du -sh {folder}/*`), or set TRACE_HOME to a larger disk"
    return _enough("disk", usage.free / GIB, detail, wanted=4, least=0.5, fix=fix)


def _enough(name: str, amount: float, detail: str, *, wanted: float, least: float, fix: str) -> Finding:
    state: State = "ok" if amount >= wanted else "degraded" if amount >= least else "missing"
    more = "" if state == "ok" else f"; {wanted:g} GiB are wanted, {least:g} are the least"
    return Finding(name, state, detail + more, EVERY, "" if state == "ok" else fix)


def gpus() -> list[Finding]:
    """Look at the NVIDIA GPUs, their memory and driver, and whether torch was built for them."""
    program = shutil.which("nvidia-smi")
    fix = f"a machine with an NVIDIA GPU of {GPU_GIB} GiB or more; the embedded loop needs none"
    if program is None:
        return [Finding("gpu", "missing", "none (no nvidia-smi here)", (Door.real,), fix)]
    query = [program, "--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=4, check=False)
    except subprocess.TimeoutExpired:
        return [Finding("gpu", "missing", "nvidia-smi gives no answer", (Door.real,), "sudo nvidia-smi -q")]
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines() or ["nvidia-smi failed"]
        return [Finding("gpu", "missing", said[0][:200], (Door.real,), "reinstall the NVIDIA driver")]
    found = []
    for line in done.stdout.splitlines():
        index, name, megabytes, driver = (part.strip() for part in line.split(","))
        gib = float(megabytes) / 1024
        state: State = "ok" if gib >= 0.95 * GPU_GIB else "degraded"
        small = "" if state == "ok" else f"; too small for 8 billion parameters in 16 bits ({GPU_GIB} GiB)"
        detail = f"{name}, {gib:.0f} GiB, driver {driver}{small}"
        found.append(Finding(f"gpu {index}", state, detail, (Door.real,), "" if state == "ok" else fix))
    return [*found, *_torch_build()]


def _torch_build() -> list[Finding]:
    try:
        built = version("torch")
    except PackageNotFoundError:
        return []
    if built.endswith("+cpu"):
        fix = f"pip install --force-reinstall 'torch=={built.removesuffix('+cpu')}'"
        detail = f"torch {built} cannot use the GPU"
        return [Finding("torch on the gpu", "missing", detail, (Door.real,), fix)]
    return [Finding("torch on the gpu", "ok", f"torch {built} is built for it", (Door.real,))]


def port(number: int, fix: str) -> Finding:
    """Look at whether the UI's port is free."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", number))
        except OSError:
            detail = f"{number} is taken, by a `trace ui` that runs already perhaps"
            return Finding("port of the UI", "degraded", detail, fix=fix)
    return Finding("port of the UI", "ok", f"{number} is free")
