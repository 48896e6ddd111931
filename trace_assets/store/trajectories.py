"""Trajectories as they are stored: three tables, put together again on reading."""

from __future__ import annotations

import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import Check, CheckRow, Message, MessageRow, Record, Trajectory, TrajectoryHead
from trace_assets.records.table import from_frame
from trace_assets.store.content import text_version
from trace_assets.store.files import make_folder, sync_folder, sync_tree
from trace_assets.store.manifest import Entry
from trace_assets.store.tables import WHOLE, Store


def write_trajectories(store: Store, trajectories: Sequence[Trajectory], partition: str) -> str:
    """Replace one batch of trajectories in `messages`, `checks` and `trajectories`.

    The heads come last: a batch whose heads are there is whole. A batch that is there stays what it is until
    all three are in its place.

    Returns:
        One content version for the three tables.
    """
    messages = [row for trajectory in trajectories for row in trajectory.message_rows()]
    checks = [row for trajectory in trajectories for row in trajectory.check_rows()]
    heads = [trajectory.head() for trajectory in trajectories]
    with replacing_together(store, _TABLES, partition):
        return text_version(
            store.write(messages, MessageRow, partition),
            store.write(checks, CheckRow, partition),
            store.write(heads, TrajectoryHead, partition),
        )


def link_trajectories(source: Store, store: Store, partition: str) -> str:
    """Put a whole stored batch into another store without reading its rows.

    Args:
        source: Holds the batch as its only partition.
        store: Where to; its files of the partition are replaced.
        partition: Its name there.

    Returns:
        What `write_trajectories` would return for the same trajectories.

    Raises:
        InputError: The batch does not lie in the source as it was laid there.
    """
    for one in _TABLES:
        source.check(one, WHOLE)
    with replacing_together(store, _TABLES, partition):
        return text_version(*(store.adopt(source.path(one), one, partition) for one in _TABLES))


_TABLES: tuple[type[Record], ...] = (MessageRow, CheckRow, TrajectoryHead)


def read_trajectories(
    store: Store, partition: str | None = None, *, target: str | None = None
) -> list[Trajectory]:
    """Return stored trajectories with their messages and checks.

    Args:
        store: Where they are.
        partition: One task batch; None reads all.
        target: Only this target's; None reads every target's.
    """
    if partition is not None:
        return _read_batch(store, partition, target)
    partitions = [store.whole(record) for record in _TABLES]
    if partitions.count(partitions[0]) == len(_TABLES):
        found = [one for key in partitions[0] for one in _read_batch(store, key, target)]
        if len({one.trajectory_id for one in found}) == len(found):
            return found
    return _put_together(store, None, target)  # of one that lies in several batches, the rows belong together


def _read_batch(store: Store, partition: str, target: str | None) -> list[Trajectory]:
    """Return the trajectories of one batch, from this process's memory where they were read before."""
    content = _content(store, partition)
    found = _kept.get(content)
    if found is None or not _is_unchanged(store, partition):
        found = _put_together(store, partition, target)
        if content is not None and target is None and content == _content(store, partition):
            _kept.put(content, found)
        return found
    return [one for one in found if target is None or one.target == target]


def _put_together(store: Store, partition: str | None, target: str | None) -> list[Trajectory]:
    heads = store.frame(TrajectoryHead, partition)
    messages, checks = store.frame(MessageRow, partition), store.frame(CheckRow, partition)
    if target is not None:
        heads = heads.filter(pl.col("target") == target)
        keep = heads["trajectory_id"].to_list()
        messages = messages.filter(pl.col("trajectory_id").is_in(keep))
        checks = checks.filter(pl.col("trajectory_id").is_in(keep))
    return _together(heads, messages, checks)


# Most assets of a diagnosis read the same batches, and making records of rows takes longer than reading them.
# So a process keeps the last batches that it has put together, by what their files hold.

Content = tuple[Entry, ...]
"""What the files of a batch hold."""
MOST_MESSAGES = 30_000
"""How many messages a process keeps, some 100 MB; a larger batch is read each time."""


class Kept:
    """The batches that were read last.

    Args:
        most: Messages in all of them together.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._batches: dict[Content, tuple[Trajectory, ...]] = {}
        self._lock = threading.Lock()

    def get(self, content: Content | None) -> list[Trajectory] | None:
        """Return a batch; None where it is not kept."""
        with self._lock:
            found = None if content is None else self._batches.pop(content, None)
            if content is None or found is None:
                return None
            self._batches[content] = found  # the last one used
            return list(found)

    def put(self, content: Content, batch: Sequence[Trajectory]) -> None:
        """Keep a batch, and let go of those that were used longest ago where there are too many messages."""
        if sum(len(one.messages) for one in batch) > self._most:
            return
        with self._lock:
            self._batches.pop(content, None)
            self._batches[content] = tuple(batch)
            messages = {key: sum(len(one.messages) for one in own) for key, own in self._batches.items()}
            while sum(messages.values()) > self._most:
                oldest = next(iter(messages))
                del messages[oldest], self._batches[oldest]


_kept = Kept(MOST_MESSAGES)


def _content(store: Store, partition: str) -> Content | None:
    """Return what the files of a batch hold; None where nothing says so."""
    if store.manifest is None:
        return None
    known = store.manifest.entries()
    found = [known.get(store.manifest.name(store.path(record, partition))) for record in _TABLES]
    return None if None in found else tuple(one for one in found if one is not None)


def _is_unchanged(store: Store, partition: str) -> bool:
    """Tell whether the files of a batch are as they were written: what is not has to be told of."""
    try:
        for record in _TABLES:
            store.check(record, partition)
    except InputError:
        return False
    return True


def read_some(store: Store, partition: str, ids: Sequence[str]) -> list[Trajectory]:
    """Return some stored trajectories of one batch, without reading what lies far from them.

    Args:
        store: Where they are.
        partition: The task batch.
        ids: Trajectory ids, ascending; those that are not there are passed over.
    """
    if not ids:
        return []
    name = pl.col("trajectory_id")
    near = name.is_between(pl.lit(ids[0]), pl.lit(ids[-1])) & name.is_in(list(ids))
    heads, messages, checks = (
        store.scan(record, partition).filter(near).collect()
        for record in (TrajectoryHead, MessageRow, CheckRow)
    )
    return _together(heads, messages, checks)


def _together(heads: pl.DataFrame, messages: pl.DataFrame, checks: pl.DataFrame) -> list[Trajectory]:
    """Put the three tables' rows together, in the order of the heads."""
    said: dict[str, list[Message]] = defaultdict(list)
    for row in from_frame(messages.sort("trajectory_id", "index"), MessageRow):
        said[row.trajectory_id].append(Message(**row.part(Message)))
    judged: dict[str, list[Check]] = defaultdict(list)
    for check in from_frame(checks, CheckRow):
        judged[check.trajectory_id].append(Check(**check.part(Check)))
    return [
        Trajectory(
            **head.part(TrajectoryHead),
            messages=tuple(said[head.trajectory_id]),
            checks=tuple(judged[head.trajectory_id]),
        )
        for head in from_frame(heads, TrajectoryHead)
    ]


# Tables that say something only together: they are replaced all at once, or stay what they were.


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
