"""Folders that the program reads and does not import: the sandbox's files, the SQL of views and queries.

They lie beside the package in a checkout and inside it where a wheel was installed (`setup.py`).
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent


def shipped(name: str, package: Path = ROOT) -> Path:
    """Return where a shipped folder or file lies, whether or not it is there.

    Args:
        name: `sandboxes` or `sql`, or a path below one of them.
        package: The package's folder.
    """
    inside = package / name
    return inside if inside.exists() else package.parent / name
