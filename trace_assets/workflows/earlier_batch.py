"""What a batch in the inbox holds that the file which is to take its place does not."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from trace_assets.records import MessageRow, TrajectoryHead
from trace_assets.store import Store


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
