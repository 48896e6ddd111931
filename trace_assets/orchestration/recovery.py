"""Put right what killed processes left behind: runs that seem to go on, claimed slots, half-made files."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from trace_assets.errors import InputError
from trace_assets.records import LedgerEntry
from trace_assets.sandbox.image import sweep_folders
from trace_assets.store import Home, Store
from trace_assets.store.item_locks import is_item_held, settle_recorded
from trace_assets.store.manifest import Manifest, manifest_of
from trace_assets.store.presence import boots, elsewhere, forget_dead, is_alive, living
from trace_assets.store.tables import doubles, is_readable
from trace_assets.store.trajectories import put_back

# What killed processes leave lying about in a home, and its removal.


_HALF = re.compile(r".+\.(partial|old)|\.(ingest|watch)-.+")
"""Names of files and folders that exist only while something is being put in place."""
_SPARED = re.compile(r"\..+\.work|\.training|dagster|locks")
"""Folders that are not looked into: training that is under way, to be resumed; other people's formats."""


def half_made(home: Home, spare_seconds: float = 0.0) -> list[Path]:
    """Return the half-made files and folders whose writer is dead.

    The writer lives, perhaps, when a process at work on the home announced itself before they were last
    touched: then they are left alone until a later look.

    Args:
        home: The home.
        spare_seconds: What was touched so short a time ago is left alone too, for the sake of a writer that
            did not announce itself.
    """
    alive, now = living(home).values(), time.time()
    if any(since > now + _SILENCE for since in alive):
        return []  # the clock was set back under a writer; that of a file server may be seconds ahead
    switched_on = boots(home)
    set_back = max(switched_on) - switched_on[0]  # under a writer: what it writes since is as much older
    oldest = min([now - spare_seconds, *alive]) - set_back
    # What was touched in the future was left before the clock was set back.
    latest = float("inf") if alive else now + spare_seconds + 1
    return [path for path in _half_made(home.path) if not oldest <= _touched(path) <= latest]


def clear_half_made(home: Home, spare_seconds: float = 0.0) -> list[Path]:
    """Remove what `half_made` finds; a folder that was on its way out comes back when nothing took its place.

    Returns:
        What was there.
    """
    found = half_made(home, spare_seconds)
    for path in found:
        if path.name.endswith(".old"):
            target = path.with_name(path.name.removeprefix(".").rsplit(".", 2)[0])
            with suppress(OSError):  # somebody else was faster
                if not target.exists():
                    os.rename(path, target)
                    continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return found


def unfinished_work(home: Home) -> dict[Path, int]:
    """Return what interrupted work keeps for its resumption: training and played episodes, with its bytes."""
    kept = [
        *home.models.glob("adapters/.*.work"),
        *home.models.glob("base/.training/*"),
        *home.journals.glob("rollouts/*"),
    ]
    sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in kept}
    return {path: size for path, size in sizes.items() if size}


def _half_made(folder: Path) -> Iterator[Path]:
    if not folder.exists():
        return
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if _HALF.fullmatch(entry.name):
                yield Path(entry.path)
            elif entry.is_dir(follow_symlinks=False) and not _SPARED.fullmatch(entry.name):
                with suppress(FileNotFoundError):
                    yield from _half_made(Path(entry.path))


def _touched(path: Path) -> float:
    """Return when a file, or anything in a folder, was last written or moved; now, when it is gone."""
    times = [path, *path.rglob("*")] if path.is_dir() else [path]
    try:
        return max(one.stat().st_ctime for one in times)
    except FileNotFoundError:
        return time.time()


PROCESS_TAG = "trace/process"
"""Tag of a run: the name under which its process is known to the home (`store.presence`)."""

_SILENCE = 60.0
"""Seconds without an event after which a run of another program is looked up by its process ids."""
_SPARED_SECONDS = 2.0
"""A half-made file this young may be that of a command which did not announce itself; see `leftovers`."""
KEPT = ("tables/*/*.parquet", "models/*/*", "models/*/*/*", "descriptions/*.json", "task_inbox/*/*.parquet")
"""What of a home the manifest lists."""
_GOING_ON = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
KILLED = "The process of this run ended without a word (killed, perhaps for want of memory)."


@dataclass(frozen=True)
class RecoveryReport:
    """What was put right.

    Attributes:
        runs: Ids of runs that seemed to go on and whose process is dead; they are marked as failed.
        slots: Claims of concurrency slots that were given back, as `pool: run id`.
        half_made: Files and folders that were removed or put back.
        ledger: Entries of the ledger that belonged to no recorded materialization and were removed.
        hashed: Files without an entry in the manifest, taken as they are: an earlier version made them, or
            their writer was killed at the very end.
        forgotten: Lost files that nothing makes any more, struck out of the manifest.
        lineage: Lost records of lineage that could not be made again.
    """

    runs: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    half_made: tuple[Path, ...] = ()
    ledger: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = {
            "interrupted run": len(self.runs),
            "claimed slot": len(self.slots),
            "half-made file": len(self.half_made),
            "ledger entry": len(self.ledger),
            "lost file": len(self.forgotten),
            "lost lineage record": len(self.lineage),
        }
        named = [f"{n} {name if n == 1 else _plural(name)}" for name, n in counts.items() if n]
        return ", ".join(named) or "nothing"

    def __bool__(self) -> bool:
        return bool(
            self.runs or self.slots or self.half_made or self.ledger or self.forgotten or self.lineage
        )


def recover(instance: dg.DagsterInstance, home: Home) -> RecoveryReport:
    """Put right what dead processes left; what the living are at is not touched, so call it at any time.

    Every step can itself be interrupted and done again.
    """
    dead = dead_runs(instance, home)
    ledger = [name for run in dead for name in _drop_unrecorded(instance, Store.of(home), run.run_id)]
    for run in dead:
        settle_recorded(home, run.run_id, lambda *item, of=run.run_id: of in _runs_that_made(instance, *item))
        instance.report_run_failed(run, KILLED)
    slots = tuple(_free_slots(instance))
    half_made = (
        *put_back(Store(home.tables), lambda batch: is_item_held(home, "trajectories", batch)),
        *clear_half_made(home, _SPARED_SECONDS),
    )
    sweep_folders()
    forget_dead(home)
    manifest = manifest_of(home.path)
    hashed = _hash_unlisted(manifest)
    return RecoveryReport(tuple(run.run_id for run in dead), slots, half_made, tuple(ledger), hashed)


def _hash_unlisted(manifest: Manifest) -> tuple[str, ...]:
    """Take the files that no hash is known of as they are; of models those of which none is known at all."""

    def is_new(file: Path) -> bool:
        if file.suffix == ".parquet":
            return is_readable(file) and not doubles(manifest, file)
        return "models" not in file.relative_to(manifest.root).parts or file.parent not in begun

    begun = {manifest.path(name).parent for name in manifest.entries() if name.startswith("models/")}
    return tuple(name for kept in KEPT for name in manifest.note_unlisted(kept, is_new))


def dead_runs(instance: dg.DagsterInstance, home: Home) -> list[dg.DagsterRun]:
    """Return the runs that Dagster believes to go on and whose process is gone.

    A run that this program started names its process. A run of another (the Dagster UI, `dg launch`) is
    taken for dead when it has been silent for a minute and none of the processes it ever named is there;
    never while a process of another machine works on the home, for the numbers may be of that machine.
    """
    records = instance.get_run_records(dg.RunsFilter(statuses=_GOING_ON))
    return [one.dagster_run for one in records if _is_dead(instance, home, one.dagster_run)]


def _is_dead(instance: dg.DagsterInstance, home: Home, run: dg.DagsterRun) -> bool:
    name = run.tags.get(PROCESS_TAG)
    if name is not None:
        return not is_alive(home, name)
    if elsewhere(home):
        return False
    entries = instance.all_logs(run.run_id)
    pids = {pid: entry.timestamp for entry in entries for pid in _pids(entry)}
    # An event of the future was recorded before the clock was set back: it says nothing of the last minute.
    if not pids or abs(time.time() - max(entry.timestamp for entry in entries)) < _SILENCE:
        return False
    # The clock may have been set forward under the run: the earliest is nearest to what it was at its events.
    booted = min(boots(home))
    return all(_gone(pid, seen, booted) for pid, seen in pids.items())


def _pids(entry: dg.EventLogEntry) -> Iterator[int]:
    data = entry.dagster_event.event_specific_data if entry.dagster_event else None
    named = getattr(data, "metadata", None) or {}
    for key in ("pid", "child_pid"):
        value = getattr(named.get(key), "text", None)
        if isinstance(value, str) and value.isdigit():
            yield int(value)


def _gone(pid: int, seen: float, booted: float) -> bool:
    """Whether the process that had this id at some time has ended; the id may be another's by now.

    Args:
        pid: Its id.
        seen: When it had it, seconds (Unix).
        booted: When this machine was switched on, by the clock as it was then.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    except (FileNotFoundError, ProcessLookupError):  # before it was opened, or while it was read
        return os.path.isdir("/proc/self")
    return booted + ticks / os.sysconf("SC_CLK_TCK") > seen + 1.0


def _drop_unrecorded(instance: dg.DagsterInstance, store: Store, run_id: str) -> Iterator[str]:
    """Drop a dead run's ledger entries when its materialization was not recorded: it is booked when made.

    What was booked without a run (money that is gone whatever came of it) stays.
    """
    for name in store.partitions(LedgerEntry):
        try:
            frame = store.frame(LedgerEntry, name)
        except InputError:  # whoever reads the ledger is told
            continue
        if not frame.height or frame["run_id"][0] != run_id:
            continue
        if run_id not in _runs_that_made(instance, frame["asset"][0], frame["partition"][0]):
            store.drop(LedgerEntry, name)
            yield name


def _runs_that_made(instance: dg.DagsterInstance, asset: str, partition: str) -> set[str]:
    """Return the ids of the latest runs whose materialization of an item is recorded."""
    recorded = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            asset_key=dg.AssetKey(asset.split("/")),
            asset_partitions=[partition] if partition else None,
        ),
        limit=20,
    ).records
    return {one.event_log_entry.run_id for one in recorded}


def stale_claims(instance: dg.DagsterInstance, dead: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return the slots, and places in the queue for one, of runs that have ended.

    Args:
        instance: The home's Dagster instance.
        dead: Ids of runs that are known to be dead and not yet marked so.

    Returns:
        (pool, run id), each once.
    """
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return []
    claims: dict[tuple[str, str], None] = {}
    for pool in sorted(storage.get_concurrency_keys()):
        info = storage.get_concurrency_info(pool)
        claims |= {(pool, slot.run_id): None for slot in info.claimed_slots}
        claims |= {(pool, step.run_id): None for step in info.pending_steps}
    return [
        claim
        for claim in claims
        for run in [instance.get_run_by_id(claim[1])]
        if run is None or run.is_finished or run.run_id in dead
    ]


def _free_slots(instance: dg.DagsterInstance) -> Iterator[str]:
    """Give back the slots of runs that have ended, and their places in the queue."""
    for pool, run_id in stale_claims(instance):
        instance.event_log_storage.free_concurrency_slots_for_run(run_id)
        yield f"{pool}: {run_id}"


def _plural(name: str) -> str:
    return name[:-1] + "ies" if name.endswith("y") else name + "s"
