"""The machine itself: Python, processor, memory, disk, accelerator."""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement

from trace_assets.errors import install_command
from trace_assets.store.files import nearest
from trace_assets.system.processes import group_number, memory_bytes, usable_cores

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
    usage = shutil.disk_usage(nearest(folder))
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


# One thing that `trace doctor` looked at.


State = Literal["ok", "degraded", "missing"]


class Door(StrEnum):
    """What a person wants to do here."""

    diagnose = "diagnose"
    loop = "loop"
    real = "real"


EVERY = (Door.diagnose, Door.loop, Door.real)
TRAINING = (Door.loop, Door.real)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What.
        state: `ok`; `degraded` works, with what `detail` says; `missing` does not.
        detail: What was seen.
        needed_for: Doors that stay shut while it is missing; none for what is only a comfort.
        fix: What to do about it, as a command wherever one will do; empty when it is ok.
    """

    name: str
    state: State
    detail: str
    needed_for: tuple[Door, ...] = ()
    fix: str = ""


def shut(findings: Iterable[Finding]) -> dict[Door, list[str]]:
    """Return for each door what keeps it shut; an empty list says that it is open."""
    found: dict[Door, list[str]] = {door: [] for door in Door}
    for finding in findings:
        if finding.state == "missing":
            for door in finding.needed_for:
                found[door].append(finding.name)
    return found


# The packages that the product stands on, against the bounds that it was tested within.


DISTRIBUTION = "trace-assets"
GROUPS: dict[str, tuple[str, tuple[Door, ...], str]] = {
    "": ("packages", EVERY, "pip install trace-assets"),
    "train": ("packages for training", TRAINING, install_command("train")),
    "serve": ("packages for serving", (Door.real,), install_command("serve")),
}
"""Extra to the finding's name, the doors that need it, and what installs it."""


def packages() -> list[Finding]:
    """Look at every package that `pyproject.toml` names: one finding a group, one for each amiss."""
    try:
        lines = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        detail = "this checkout is not installed, so that the bounds of its packages are not known"
        return [Finding("packages", "degraded", detail, EVERY, "pip install -e .")]
    groups = defaultdict[str, list[Requirement]](list)
    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        for extra in GROUPS:
            if wanted.marker is None:
                if not extra:
                    groups[extra].append(wanted)
            elif extra and wanted.marker.evaluate({"extra": extra}):
                groups[extra].append(wanted)
    return [finding for extra, wanted in groups.items() for finding in _group(extra, wanted)]


def _group(extra: str, wanted: list[Requirement]) -> list[Finding]:
    name, doors, install = GROUPS[extra]
    present, absent, amiss = [], [], []
    for one in wanted:
        try:
            found = version(one.name)
        except PackageNotFoundError:
            absent.append(one)
            continue
        present.append(f"{one.name} {found}")
        if not one.specifier.contains(found, prereleases=True):
            detail = f"{found} is outside {one.specifier}, the versions that were tested"
            fix = f"pip install '{one.name}{one.specifier}'"
            amiss.append(Finding(one.name, "degraded", detail, doors, fix))
    if absent:
        missing = ", ".join(one.name for one in absent)
        group = Finding(name, "missing", f"not installed: {missing}", doors, install)
    else:
        group = Finding(name, "ok", ", ".join(present), doors)
    return [group, *amiss]
