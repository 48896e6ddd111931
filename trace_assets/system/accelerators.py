"""The accelerators that this machine has: what they are called and how much memory they hold."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

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
