"""What a home keeps of each environment's text beside the tables, for no other user's eyes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from trace_assets.store.home import Home, replacing_file


def environment_file(home: Home, environment_id: str, name: str) -> Path:
    """Return where something of an environment lies.

    Args:
        home: The home.
        environment_id: Hash of the environment's text.
        name: What it is, such as `seeds`.
    """
    folder = hashlib.sha256(environment_id.encode()).hexdigest()[:16]
    return home.path / "environments" / folder / f"{name}.json"


def read_environment_file(home: Home, environment_id: str, name: str) -> Any:
    """Return what was kept; None when it is missing, damaged, or of another environment."""
    try:
        row = json.loads(environment_file(home, environment_id, name).read_text(encoding="utf-8"))
        whole = row["environment_id"] == environment_id and row["check"] == _check(
            environment_id, row["value"]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return row["value"] if whole else None


def keep_environment_file(home: Home, environment_id: str, name: str, value: Any) -> None:
    """Keep a JSON value, readable for this user alone."""
    path = environment_file(home, environment_id, name)
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    row = {"environment_id": environment_id, "value": value, "check": _check(environment_id, value)}
    with replacing_file(path) as partial:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(row, file)
            file.flush()
            os.fsync(file.fileno())


def _check(environment_id: str, value: Any) -> str:
    """A damaged value would be another one, silently."""
    text = json.dumps([environment_id, value], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
