"""`manifest.json`: the SHA-256 of every file of a release, and the mark that a folder is one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from trace_assets.errors import InputError

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
"""What `serve.sh` compares before anything is served."""
MADE_BY = "trace release"


def write_manifest(folder: Path) -> None:
    """Write the digests of all files that lie in a folder, also as `sha256sum --check` reads them."""
    files = {name: _digest(folder / name) for name in _files(folder) if name not in (MANIFEST, SUMS)}
    sums = "".join(f"{digest}  {name}\n" for name, digest in files.items())
    (folder / SUMS).write_text(sums, encoding="utf-8")
    files[SUMS] = _digest(folder / SUMS)
    text = json.dumps({"made_by": MADE_BY, "format": 1, "files": files}, indent=1, sort_keys=True)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> dict[str, str]:
    """Return file -> SHA-256.

    Raises:
        InputError: The folder is no release.
    """
    try:
        found: Any = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if found["made_by"] != MADE_BY:
            raise ValueError(f"made by {found['made_by']}")
        return {str(name): str(digest) for name, digest in found["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{folder} is no release: it has no {MANIFEST} that can be read; make one with `trace release`."
        ) from error


def checked(folder: Path, name: str) -> bytes:
    """Return the content of one file of a release.

    Raises:
        InputError: It is missing, or not the one that was released.
    """
    wanted = read_manifest(folder).get(name)
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise InputError(f"{folder / name} cannot be read ({error.strerror}); release again.") from error
    if hashlib.sha256(content).hexdigest() != wanted:
        raise InputError(f"{folder / name} is not the file that was released; release again.")
    return content


def may_be_replaced(folder: Path) -> None:
    """Make sure that nothing but an earlier release lies where one shall be written.

    Raises:
        InputError: The path is a file or link, or the folder holds something else.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise InputError(f"{folder} is no folder; name one that is empty, or not there yet.")
    if not folder.exists() or not any(folder.iterdir()):
        return
    try:
        released = {*read_manifest(folder), MANIFEST}
    except InputError:
        released = set()
    strange = [name for name in _files(folder) if name not in released]
    if strange:
        raise InputError(
            f"{folder} holds something else than a release ('{strange[0]}'); name an empty folder, or one "
            "that holds an earlier release and nothing more."
        )


def _files(folder: Path) -> list[str]:
    found = (file for file in folder.rglob("*") if file.is_symlink() or not file.is_dir())
    return sorted(file.relative_to(folder).as_posix() for file in found)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
