"""The removal of a task batch that was ingested, and its way back.

What a killed process has begun of it is gone on with by the next sync: a batch that is out of the inbox and
still in the tables would count, and one of which Dagster still knows partitions would make nothing due.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import dagster as dg
import polars as pl

from trace_assets.assets.asset import Asset
from trace_assets.errors import InputError
from trace_assets.formats.problem import PART_TABLES
from trace_assets.orchestration.asset_files import ItemFiles
from trace_assets.orchestration.instance import OF_BATCH, TASK_BATCH
from trace_assets.orchestration.planner import MANY
from trace_assets.records import Arrival, MadeWith, Task, ToldTask, TrajectoryHead
from trace_assets.resources.inbox import (
    batch_problem,
    batch_store,
    batches,
    inbox,
    played_here,
    seal_batch,
    task_batches,
)
from trace_assets.store import Store
from trace_assets.store.content import text_version
from trace_assets.store.files import make_folder, replacing_folder, sync_file, sync_folder, sync_tree
from trace_assets.store.item_locks import mark_due
from trace_assets.store.locks import Holder, exclusive, sync_lock
from trace_assets.store.presence import announce
from trace_assets.store.tables import is_partition
from trace_assets.store.unfinished import BEGUN, REMOVED, begun_removals
from trace_assets.study import Study
from trace_assets.workflows.doubles import counted_words, find_doubles
from trace_assets.workflows.finished_work import KINDS

Waiting = Callable[[Holder | None], None]


def removable(study: Study, batch: str) -> int:
    """Return how many trajectories of a batch its removal would take away.

    Raises:
        InputError: There is no such batch, or it is not one that was ingested.
    """
    if batch not in batches(study):
        if batch in task_batches(study) or batch == study.live_batch or played_here(study, batch):
            raise InputError(
                f"the batch '{batch}' was not ingested: its episodes are rolled out here, and what is "
                "finished is not removed (docs/finished-work.md)."
            )
        known = ", ".join(batches(study)) or "none"
        back = f" It was removed before; `trace ingest --restore {batch}`." if _lies(study, batch) else ""
        raise InputError(f"there is no ingested batch '{batch}'; there are: {known}.{back}")
    try:
        return inbox(study, batch).frame(TrajectoryHead).height
    except InputError:  # damaged, which is a reason to remove it
        return 0


def remove_batch(
    study: Study, instance: dg.DagsterInstance, batch: str, waiting: Waiting = lambda _: None
) -> Path:
    """Take an ingested batch out of a study; what was made of it becomes due.

    Tasks that other batches hold trajectories of go over to these.

    Args:
        study: The study.
        instance: Its history.
        batch: The batch.
        waiting: Told who is at work before waiting for it.

    Returns:
        Where it lies from now on.

    Raises:
        InputError: See `removable`.
    """
    announce(study.home)
    place = _place(study, batch)
    with (
        exclusive(sync_lock(study.home), "trace ingest --remove", waiting=waiting),
        exclusive(study.home.path / "locks" / "ingest.lock", "trace ingest --remove", waiting=waiting),
    ):
        removable(study, batch)
        source = study.home.inbox / batch
        mark = source / BEGUN
        mark.write_text("", encoding="utf-8")
        sync_file(mark)
        sync_folder(source)
        make_folder(place.parent)
        if place.exists():  # an earlier one of this name
            os.rename(place, place.with_name(f"{batch}.{uuid4().hex[:8]}"))
        os.rename(source, place)
        sync_folder(place.parent)
        sync_folder(source.parent)
        finish_removals(study, instance)
    return place


def finish_removals(study: Study, instance: dg.DagsterInstance) -> list[str]:
    """Go on with removals that were begun; the caller holds the lock of the sync.

    Returns:
        The batches.
    """
    folder = study.home.path / REMOVED
    if not folder.is_dir():
        return []
    begun = {one for one in begun_removals(study.home.path) if is_partition(one)}
    # An earlier version left the rows of what was removed by the command where they were.
    stayed = set(study.store.partitions(TrajectoryHead)) - set(batches(study))
    begun |= {one for one in stayed if _lies(study, one) and not played_here(study, one)}
    for batch in sorted(begun):
        if batch not in batches(study):  # nor was it ingested again meanwhile
            _give_tasks_away(study, batch)
            _forget(study, instance, batch)
        (folder / batch / BEGUN).unlink(missing_ok=True)
        sync_folder(folder / batch)
    return sorted(begun)


def restore_batch(study: Study, batch: str, waiting: Waiting = lambda _: None) -> int:
    """Bring a batch that was removed back into the inbox; its items become due.

    Args:
        study: The study.
        batch: The batch.
        waiting: Told who is at work before waiting for it.

    Returns:
        Its number of trajectories.

    Raises:
        InputError: It does not lie among the removed ones, or other batches hold what it holds by now.
    """
    announce(study.home)
    place = _place(study, batch)
    with (
        exclusive(sync_lock(study.home), "trace ingest --restore", waiting=waiting),
        exclusive(study.home.path / "locks" / "ingest.lock", "trace ingest --restore", waiting=waiting),
    ):
        if not _lies(study, batch):
            there = sorted(one.name for one in place.parent.glob("*") if _lies(study, one.name))
            known = ", ".join(there) or "none"
            raise InputError(f"there is no removed batch '{batch}'; there are: {known}.")
        if batch in batches(study):
            raise InputError(
                f"the batch '{batch}' is in the study: it was ingested again after this one was removed."
            )
        if problem := batch_problem(place):
            raise InputError(f"the removed batch '{batch}' is damaged: {problem}; ingest its file again.")
        own = batch_store(place)
        _refuse_held(study, batch)
        held = {task.task_id for name in batches(study) for task in inbox(study, name).read(Task)}
        tasks = own.read(Task)
        told = [ToldTask(**one.part(ToldTask)) for one in tasks if one.task_id in held]
        with replacing_folder(study.home.inbox / batch) as building:
            _copy(place, building, [one for one in tasks if one.task_id not in held], told)
        for asset in ("tasks", "trajectories"):
            mark_due(study.home, asset, batch, "it was brought back")
        n = own.frame(TrajectoryHead).height
        os.rename(place, gone := place.with_name(f".{batch}.{uuid4().hex[:8]}.partial"))
        shutil.rmtree(gone, ignore_errors=True)
        return n


def _refuse_held(study: Study, batch: str) -> None:
    """Refuse a batch of which another one holds trajectories by now."""
    own = batch_store(_place(study, batch))
    ids = set(own.frame(TrajectoryHead)["trajectory_id"])
    for name in batches(study):
        if n := len(ids & set(inbox(study, name).frame(TrajectoryHead)["trajectory_id"])):
            raise InputError(
                f"{n:,} trajectories of the batch '{batch}' are in the batch '{name}' by now; "
                f"`trace ingest --remove {name}` first."
            )
    stores = [(name, inbox(study, name)) for name in batches(study)]
    found = [one for one in find_doubles([*stores, (batch, own)], [batch]) if not one.by_chance]
    found = [one for one in found if one.of != batch]
    if found:
        raise InputError(f"{counted_words(found)}; `trace ingest --remove {found[0].of}` first.")


def _place(study: Study, batch: str) -> Path:
    return study.home.path / REMOVED / batch


def _lies(study: Study, batch: str) -> bool:
    return is_partition(batch) and (_place(study, batch) / "version").is_file()


def _give_tasks_away(study: Study, batch: str) -> None:
    """Have the first other batch with trajectories of a task bring it from now on."""
    store = batch_store(_place(study, batch))
    try:
        tasks = {task.task_id: task for task in store.read(Task)}
    except InputError:  # damaged
        return
    for name in batches(study):
        if not tasks:
            return
        other = inbox(study, name)
        played = set(other.frame(TrajectoryHead).filter(pl.col("task_id").is_in(list(tasks)))["task_id"])
        own = other.read(Task)
        mine = played - {one.task_id for one in own}
        if not mine:
            continue
        told = {one.task_id: one for one in other.read(ToldTask)}
        for task_id in sorted(mine):
            more = told[task_id].model_dump() if task_id in told else {}
            own.append(Task(**{**tasks.pop(task_id).model_dump(), **more, "task_batch": name}))
        with replacing_folder(study.home.inbox / name) as building:
            _copy(study.home.inbox / name, building, own, [told[one] for one in sorted(told.keys() - mine)])
        mark_due(study.home, "tasks", name, f"tasks of the removed batch '{batch}'")


def _copy(source: Path, building: Path, tasks: Sequence[Task], told: Sequence[ToldTask]) -> None:
    """Lay a batch once more with other tasks."""
    before, new = batch_store(source), Store(building)
    versions = [new.write(tasks, Task)]
    if told:
        versions.append(new.write(told, ToldTask))
    parts = [new.adopt(before.path(one), one) for one in PART_TABLES]
    (building / "version").write_text(text_version(*versions, text_version(*parts)), encoding="utf-8")
    seal_batch(building)
    sync_tree(building)


def _forget(study: Study, instance: dg.DagsterInstance, batch: str) -> None:
    """Take out of the tables and of Dagster what was made of a batch."""
    from trace_assets.definitions import graph

    dimension = str(TASK_BATCH.name)
    known = instance.get_dynamic_partitions(dimension)
    if len(known) >= MANY:  # of so many a look does not see that one is gone
        for one in _fan_ins():
            mark_due(study.home, one.name, "", "a batch was removed")
    graph(study)  # declares which tables are whose
    files = ItemFiles(study)
    # What follows from all batches by code alone goes as well: nobody shall read it as what the rest shows.
    # It goes first, for a process that is killed in here must not leave it without what it was made of.
    follows = [one.name for one in _fan_ins() if one.group == "diagnosis" and one.name not in KINDS]
    for asset, partition in [
        *((name, "") for name in follows),
        *((name, batch) for name in sorted(OF_BATCH)),
    ]:
        names = files.own_tables(asset, partition)
        with files.manifest.removing(names):
            for name in names:
                files.manifest.path(name).unlink(missing_ok=True)
        if partition:
            study.store.drop(MadeWith, f"{asset}={batch}")
    for part in study.store.partitions(Arrival):
        rows = study.store.read(Arrival, part)
        if any(row.task_batch == batch for row in rows):
            changed = [
                row.model_copy(update={"task_batch": ""}) if row.task_batch == batch else row for row in rows
            ]
            study.store.write(changed, Arrival, part)
    if batch in known:
        instance.delete_dynamic_partition(dimension, batch)


def _fan_ins() -> list[Asset]:
    from trace_assets.definitions import pipeline

    return [one for one in pipeline() if one.partitions is None and OF_BATCH & set(one.deps)]
