"""Tables that say something only together: they are replaced all at once, or stay what they were.

One file is replaced by one rename, several are not. So links to the old files are laid aside first; they are
taken away when the last new file is in place, and put back where that never came to be.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from trace_assets.records import Record
from trace_assets.store.durable import make_folder, sync_folder, sync_tree
from trace_assets.store.tables import Store

ASIDE = ".replaced"
"""Folder among the tables: one folder a partition whose files are being replaced."""


@contextmanager
def replacing_together(store: Store, records: Sequence[type[Record]], partition: str) -> Iterator[None]:
    """Replace one partition of several tables in the body; when it fails, the old files come back.

    Args:
        store: Where the tables are.
        records: The tables.
        partition: Their partition.
    """
    aside = store.folder / ASIDE / partition
    there = [file for record in records if (file := store.path(record, partition)).is_file()]
    if not there:
        yield
        return
    building = aside.with_name(f".{partition}.{uuid4().hex[:8]}.partial")
    make_folder(building)
    for file in there:
        _link(file, building / f"{file.parent.name}.parquet")
    sync_tree(building)
    os.rename(building, aside)
    sync_folder(aside.parent)
    try:
        yield
    except BaseException:
        _put_back(store, aside)
        raise
    os.rename(aside, building)
    shutil.rmtree(building, ignore_errors=True)


def put_back(store: Store, is_at_work: Callable[[str], bool]) -> list[Path]:
    """Put back what dead processes were replacing.

    Args:
        store: Where the tables are.
        is_at_work: Tells of a partition whether somebody is replacing it now.

    Returns:
        The files that are what they were again.
    """
    folder = store.folder / ASIDE
    left = sorted(folder.iterdir()) if folder.is_dir() else []
    return [
        file
        for aside in left
        if not aside.name.startswith(".") and not is_at_work(aside.name)
        for file in _put_back(store, aside)
    ]


def _put_back(store: Store, aside: Path) -> list[Path]:
    found = []
    for file in sorted(aside.glob("*.parquet")):
        place = store.folder / file.stem / f"{aside.name}.parquet"
        with store.replacing(place) as building:
            os.replace(file, building)
        found.append(place)
    shutil.rmtree(aside, ignore_errors=True)
    return found


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)
