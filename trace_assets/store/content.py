"""Content versions: equal content has an equal version, whenever and wherever it was made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from trace_assets.records import Record
from trace_assets.store.row_sum import RowSum


def frame_version(frame: pl.DataFrame, record: type[Record]) -> str:
    """Return the content version of a table.

    Row order and volatile columns (times) do not count; column names do.

    Args:
        frame: Rows of the table.
        record: The table's record type: gives the volatile columns.

    Returns:
        16 hexadecimal digits of a SHA-256.
    """
    rows = RowSum(record, frame.columns)
    rows.add(frame)
    return rows.version()


def folder_version(folder: Path, names: Iterable[str] | None = None) -> str:
    """Return the content version of a folder's files.

    Args:
        folder: A folder; hidden files and folders are left out.
        names: Relative paths to consider; None takes every file.
    """
    digest = hashlib.sha256()
    chosen = (
        sorted(names)
        if names is not None
        else sorted(
            file.relative_to(folder).as_posix()
            for file in folder.rglob("*")
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        )
    )
    for name in chosen:
        digest.update(name.encode() + b"\0")
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def text_version(*parts: str) -> str:
    """Return one version for several texts, in order.

    >>> text_version("a", "b") == text_version("ab")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()[:16]
