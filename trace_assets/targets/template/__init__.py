"""A target to begin from: a small library, complete with oracle, test and settings."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from trace_assets.errors import InputError

FILES = ("target.py", "test_target.py", "agent.py", "trace.toml")


def write_template(name: str, folder: Path) -> list[Path]:
    """Write a new target's files.

    Args:
        name: What the target calls itself: letters, digits, `_` and `-`.
        folder: Made when it is not there; must hold none of the files.

    Returns:
        The files.

    Raises:
        InputError: The name cannot be used, or a file is there already.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,39}", name) or name == "embedded":
        raise InputError(
            f"'{name}' cannot be a target's name; take a letter, then letters, digits, _ or -, at most 40."
        )
    places = [folder / file for file in FILES]
    for place in places:
        if place.exists():
            raise InputError(f"{place} is there already; name another folder or remove it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place in places:
            text = resources.files(__name__).joinpath(f"{place.name}.txt").read_text(encoding="utf-8")
            path = (folder / "target.py").as_posix()
            place.write_text(
                text.replace("NAME", name).replace("PATH", path).replace("FOLDER", folder.as_posix()),
                encoding="utf-8",
            )
    except OSError as error:
        raise InputError(
            f"the folder {folder} cannot be written ({error.strerror}); name another."
        ) from error
    return places
