"""The study that a command works on: here, or in the nearest folder further up, as with git."""

from __future__ import annotations

import os
from pathlib import Path

HOME = ".trace"
SETTINGS = "trace.toml"

_found: Path | None = None


def study_above(here: Path) -> Path | None:
    """Return the nearest folder above `here` that holds a home or settings; None when `here` does, or none.

    A folder of somebody else's is passed by: its settings name programs that would be run.
    """
    if _holds_study(here):
        return None
    return next((folder for folder in here.parents if _holds_study(folder)), None)


def _holds_study(folder: Path) -> bool:
    return any(
        found.exists() and found.stat().st_uid in (os.getuid(), 0)
        for found in (folder / HOME, folder / SETTINGS)
    )


def find_study() -> None:
    """Look for the study of this process, where `TRACE_HOME` does not name it."""
    global _found
    _found = None if os.environ.get("TRACE_HOME") else study_above(Path.cwd())


def is_below_study() -> bool:
    """Whether the study lies further up."""
    return _found is not None


def go_to_study() -> None:
    """Work in the study's folder: paths in its settings are relative to it."""
    if _found is not None:
        os.chdir(_found)
