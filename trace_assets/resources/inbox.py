"""The inbox: batches as they were ingested, of which tables are made; beside it batches of tasks alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from trace_assets.errors import InputError
from trace_assets.records import MessageRow, Task, TrajectoryHead
from trace_assets.store import Store
from trace_assets.store.manifest import MANIFEST, Manifest, manifest_of
from trace_assets.store.tables import is_partition, is_readable
from trace_assets.study import Study

AGAIN = "run `trace ingest` with its file again"


def batches(study: Study) -> list[str]:
    """Return the batches in the inbox, sorted."""
    if not study.home.inbox.is_dir():
        return []
    # What is half-made begins with a dot; folders that are called otherwise were not laid here.
    found = (path for path in study.home.inbox.iterdir() if is_partition(path.name))
    return sorted(path.name for path in found if (path / "version").is_file())


def played_here(study: Study, batch: str) -> int:
    """Return how many stored trajectories of a batch were rolled out here: its inbox may have been lost."""
    return study.store.frame(TrajectoryHead, batch).filter(pl.col("source") == "rollout").height


def inbox(study: Study, batch: str) -> Store:
    """Return the tables of a batch as they were ingested."""
    return batch_store(study.home.inbox / batch)


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


FOLDER = "task_inbox"
LAID_AGAIN = "drop the file of these tasks into the watched folder again"


def task_inbox(study: Study) -> Store:
    """Return the tables of the task inbox; partitions are batches."""
    return Store(study.home.path / FOLDER, manifest_of(study.home.path), restored_by=LAID_AGAIN)


def task_batches(study: Study) -> list[str]:
    """Return the batches in the task inbox, sorted; one whose file is gone is none of them."""
    inbox_of_tasks = task_inbox(study)
    return [batch for batch in inbox_of_tasks.partitions(Task) if inbox_of_tasks.path(Task, batch).exists()]


def lost_tasks(study: Study) -> dict[str, str]:
    """Return the batches whose file in the task inbox is gone or altered, each with what became of it."""
    found, inbox_of_tasks = {}, task_inbox(study)
    for batch in inbox_of_tasks.partitions(Task):
        try:
            inbox_of_tasks.check(Task, batch)
        except InputError as error:
            found[batch] = str(error)
    return found


def lay_tasks(study: Study, batch: str, tasks: Sequence[Task]) -> str:
    """Put tasks into the inbox as one batch, in place of what lay there; return the content version."""
    return task_inbox(study).write(
        [task.model_copy(update={"task_batch": batch}) for task in tasks], Task, batch
    )


def known_tasks(study: Study, *, but: str = "") -> dict[str, Task]:
    """Return every task that some batch holds, by id; one that was lost from the inbox holds none there."""
    found, lost = study.store.read(Task), lost_tasks(study)
    for batch in task_batches(study):
        found += task_inbox(study).read(Task, batch) if batch not in lost else []
    for batch in batches(study):
        found += inbox(study, batch).read(Task)
    return {task.task_id: task for task in found if task.task_batch != but}


class Lacking(NamedTuple):
    """How many trajectories of an earlier batch a new one has not.

    Attributes:
        gone: Their ids are not in it.
        other: Their ids are in it, for other conversations.
        sources: Files that the first came from.
    """

    gone: int
    other: int
    sources: tuple[str, ...] = ()

    def sentence(self, batch: str, folder: Path | None = None) -> str:
        """Say what would be lost, and how to have both.

        Args:
            batch: Its name.
            folder: Whose files are the batch together; None where it is one file's.

        >>> Lacking(0, 40).sentence("results").partition("; ")[0]
        "the batch 'results' holds 40 trajectories that this file does not: it calls 40 other ones alike"
        >>> Lacking(1, 0, ("runs/a.json",)).sentence("runs", Path("runs")).partition(": ")[0]
        "the batch 'runs' holds 1 trajectories that could not be read again (of a.json)"
        """
        if folder is not None:
            few = ", ".join(Path(one).name for one in self.sources[:3])
            more = f" and {len(self.sources) - 3:,} more" if len(self.sources) > 3 else ""
            return (
                f"the batch '{batch}' holds {self.gone + self.other:,} trajectories that could not be read "
                f"again (of {few or 'the same names'}{more}): put these files back as they were and ingest "
                f"the folder {folder}, or say --again to have what is there now take the batch's place"
            )
        alike = f": it calls {self.other:,} other ones alike" if self.other else ""
        n = self.gone + self.other
        return (
            f"the batch '{batch}' holds {n:,} trajectories that this file does not{alike}; "
            "rename the file to have both, or say --again to have it take the other's place"
        )


def lacking(earlier: Store, new: Store, batch: str, *, same_file: bool) -> Lacking:
    """Compare a batch with the one of its name that is there.

    An id that is a place in a file (`results/7`), or that comes from a file elsewhere, may be another
    trajectory's: two files of one name number their lines alike. Such ids count as held where the
    conversation is the same. Other ids are the source's own: a file at its old place may say more of them.

    Args:
        earlier: The batch that is there.
        new: What would take its place.
        batch: The name of both.
        same_file: All comes of the very bytes that the earlier one came of, as another version reads them.
    """
    heads = [_heads(store) for store in (earlier, new)]
    lost = heads[0].join(heads[1], on="trajectory_id", how="anti")
    gone, sources = lost.height, tuple(sorted(lost["source_uri"].drop_nulls().unique()))
    if same_file:
        return Lacking(gone, 0, sources)
    shared = heads[0].join(heads[1], on="trajectory_id", suffix="_now")
    numbered = pl.col("trajectory_id").str.strip_prefix(f"{batch}/").str.contains(r"^\d+$")
    elsewhere = pl.col("source_uri").ne_missing(pl.col("source_uri_now"))
    doubtful = shared.filter(elsewhere | numbered)["trajectory_id"]
    if doubtful.is_empty():
        return Lacking(gone, 0, sources)
    said = [conversations(store, doubtful) for store in (earlier, new)]
    same = said[0].join(said[1], on=["trajectory_id", "said"], nulls_equal=True)
    return Lacking(gone, said[0].height - same.height, sources)


def judged_otherwise(earlier: Store, new: Store) -> list[str]:
    """Return the ids of the trajectories that a batch holds with another verdict than a new one."""
    if not (earlier.has(TrajectoryHead) and new.has(TrajectoryHead)):
        return []
    verdicts = [
        store.scan(TrajectoryHead).select("trajectory_id", "success", "reward") for store in (earlier, new)
    ]
    both = verdicts[0].join(verdicts[1], on="trajectory_id", suffix="_now")
    same = [pl.col(name).eq_missing(pl.col(f"{name}_now")) for name in ("success", "reward")]
    other = both.filter(~pl.all_horizontal(same))
    return sorted(other.select("trajectory_id").collect()["trajectory_id"])


def sources_of(store: Store) -> list[Path]:
    """Return the files that a batch came from, as far as they are still there."""
    named = _heads(store)["source_uri"].drop_nulls().unique().sort()
    return [path for path in map(Path, named) if path.is_file()]


def _heads(store: Store) -> pl.DataFrame:
    if not store.has(TrajectoryHead):
        return pl.DataFrame(schema={"trajectory_id": pl.String, "source_uri": pl.String})
    return store.scan(TrajectoryHead).select("trajectory_id", "source_uri").collect()


_RANDOM = r"[0-9A-Za-z]{16,}|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-"
"""What an id looks like that somebody drew at random, where it has digits and letters."""


def conversations(store: Store, ids: pl.Series) -> pl.DataFrame:
    """Return what some trajectories of a batch say.

    Args:
        store: The batch.
        ids: The trajectories.

    Returns:
        A row each: `trajectory_id`, `said`, a number that two equal conversations share, and `marked`,
        whether one of its calls has an id that no other run's has.
    """
    whole = pl.struct("index", "role", "content", "tool_calls").hash().sum().alias("said")
    calls = pl.col("tool_calls").list.eval(pl.element().struct.field("id"))
    looks = [pl.element().str.contains(shape) for shape in (_RANDOM, "[0-9]", "[A-Za-z]")]
    drawn = calls.list.eval(pl.all_horizontal(looks)).list.any()
    rows = store.scan(MessageRow).filter(pl.col("trajectory_id").is_in(ids.implode()))
    return (
        rows.with_columns(drawn.fill_null(False).alias("drawn"))
        .group_by("trajectory_id")
        .agg(whole, pl.col("drawn").any().alias("marked"))
        .collect(engine="streaming")
    )
