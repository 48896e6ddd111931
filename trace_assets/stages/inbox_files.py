"""The files of a batch in the inbox: whether they lie there as they were laid."""

from __future__ import annotations

from pathlib import Path

from trace_assets.store import Store
from trace_assets.store.manifest import MANIFEST, Manifest
from trace_assets.store.tables import is_readable

AGAIN = "run `trace ingest` with its file again"


def seal_batch(folder: Path) -> None:
    """Write down what a batch's files are, before the folder is put in place."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    Manifest(folder / MANIFEST, folder).build(files)


def batch_store(folder: Path) -> Store:
    """Return the tables of a batch."""
    return Store(folder, Manifest(folder / MANIFEST, folder), restored_by=AGAIN)


def laid_version(folder: Path) -> str:
    """Return the content version of a batch as it was laid; nothing when none was."""
    try:
        return (folder / "version").read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return ""


def batch_problem(folder: Path) -> str:
    """Say what is wrong with a batch's files, each of which is read to its end; nothing when all is well.

    Of a batch that an earlier version of the program laid, it is known only whether the files can be opened.
    """
    manifest = Manifest(folder / MANIFEST, folder)
    if manifest.is_there():
        found = manifest.problems(manifest.entries())
        return "; ".join(f"{folder / name} {said}" for name, said in sorted(found.items()))
    for file in sorted(folder.glob("*/*.parquet")):
        if not is_readable(file):
            return f"{file} cannot be read"
    return ""
