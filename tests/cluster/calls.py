"""What the workers of these tests are called with."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path


def answer(value: object) -> object:
    """Give back what came."""
    return value


def fail(text: str) -> None:
    """Raise."""
    raise ValueError(text)


def a_lock() -> object:
    """Return what cannot be sent."""
    return threading.Lock()


def wait_for(folder: Path, name: str) -> int:
    """Say who I am in a file, then wait until the file `go` is there; note an interrupt."""
    (folder / f"{name}.pid").write_text(str(os.getpid()))
    try:
        while not (folder / "go").exists():
            time.sleep(0.02)
    except KeyboardInterrupt:
        (folder / f"{name}.interrupted").touch()
        raise
    return os.getpid()


def variable(name: str) -> str:
    """Return an environment variable."""
    return os.environ.get(name, "")
