"""What batch a file becomes."""

from __future__ import annotations

import re
from pathlib import Path


def batch_of(path: Path) -> str:
    """Return the task batch that a file's trajectories form, from its name.

    >>> batch_of(Path("runs/gpt-4.1 retail.json"))
    'gpt-4-1-retail'
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem).strip("-") or "file"
