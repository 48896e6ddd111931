"""Where the files that go into a sandbox lie: beside this package, in a checkout and in a wheel."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

from trace_assets.sandbox.faults import SandboxUnavailable


def folder() -> Path:
    """The folder with the worker, the Dockerfile and the seccomp profile.

    Raises:
        SandboxUnavailable: It is not where the package was installed.
    """
    named = os.environ.get("TRACE_SANDBOXES")
    place = Path(named) if named else Path(__file__).resolve().parents[2] / "sandboxes"
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
