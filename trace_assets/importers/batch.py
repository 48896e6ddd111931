"""What batch a file becomes."""

from __future__ import annotations

import re
from pathlib import Path


def batch_of(path: Path) -> str:
    """Return the task batch that a file's trajectories form, from its name.

    tau2 calls the results of every run alike: they are told apart by the run's folder.

    >>> batch_of(Path("runs/gpt-4.1 retail.json")), batch_of(Path("runs/gpt-4.1 retail/results.json"))
    ('gpt-4-1-retail', 'gpt-4-1-retail')
    """
    name = path.absolute().parent.name if path.name == "results.json" else path.stem
    return batch_named(name or path.stem)


def batch_named(name: str) -> str:
    """Return a name as batches are called."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "file"
