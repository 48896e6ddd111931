"""Doubles: trajectories that came in twice, by a copy of a file or an export that holds an earlier one.

An id of the source's own tells a trajectory wherever it is read from, and reading looks after those. Here it
is about the others, which are called by their file and their place in it: what they say has to tell.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from trace_assets.formats.batch_files import batch_named
from trace_assets.formats.problem import Problem
from trace_assets.records import TrajectoryHead
from trace_assets.resources.inbox import conversations
from trace_assets.store import Store

KEY = (
    *("task", "trial", "seed", "policy", "adapter", "user_policy", "date", "seconds"),
    *("prompt_tokens", "completion_tokens", "cost_usd", "n_messages"),
)
"""What doubles have alike, beside what was said. The verdict is not among it: a run may be judged again."""
_HEAD = (
    *("trajectory_id", "task_id", "target", "source", "source_uri", "success"),
    *(name for name in KEY if name != "task"),
)
_TIME_OF_DAY = r"\d:\d\d"
_SAME_RUN = ("task", "trial", "policy")


class Double(NamedTuple):
    """Trajectories of a batch that another one holds, or another file of the same one.

    Attributes:
        batch: The batch in which they are once more.
        of: The batch that has them; the same one for two files of a folder.
        ids: What they are called in the former.
        n: How many trajectories the former has.
        judged_otherwise: How many of them have another verdict there.
        by_chance: They may be trials of their own that an agent went through word for word alike: nothing
            tells them apart, but other runs of the same tasks differ.
        example: Two files, one in each, that hold one and the same.
    """

    batch: str
    of: str
    ids: tuple[str, ...]
    n: int
    judged_otherwise: int = 0
    by_chance: bool = False
    example: tuple[str, str] = ("", "")


def counted_words(doubles: Sequence[Double]) -> str:
    """Say of the doubles of one batch how many there are and where else they are.

    >>> counted_words([Double("feb", "jan", ("feb/1",), 12), Double("feb", "a", ("feb/2", "feb/3"), 12)])
    "3 of 12 trajectories of the batch 'feb' are in the store already (1 in 'jan', 2 in 'a')"
    """
    first = doubles[0]
    n = f"{sum(len(one.ids) for one in doubles):,} of {first.n:,} trajectories of the batch '{first.batch}'"
    if all(one.of == first.batch for one in doubles):
        one, other = (Path(name).name for name in first.example)
        return f"{n} are in it twice ({one} is {other} word for word)"
    where = ", ".join(
        f"{len(one.ids):,} in {'another of its files' if one.of == one.batch else repr(one.of)}"
        for one in doubles
    )
    return f"{n} are in the store already ({where})"


def tell_doubles(doubles: Sequence[Double], given: Mapping[str, set[str]]) -> Iterable[Problem]:
    """Say what becomes of doubles, in one sentence a batch.

    Args:
        doubles: What was found.
        given: File to the batches that it gave.
    """
    for batch in dict.fromkeys(one.batch for one in doubles):
        path = next((name for name, own in given.items() if batch in own), batch)
        for by_chance in (False, True):
            some = [one for one in doubles if one.batch == batch and one.by_chance == by_chance]
            if some:
                words, kind = (_kept_words(some), "duplicate") if by_chance else (_left_words(some), "held")
                yield Problem.model_validate(
                    {"path": path, "message": words, "severity": "notice", "kind": kind}
                )


def _left_words(doubles: Sequence[Double]) -> str:
    others = [one.of for one in doubles if one.of != one.batch]
    said = f"{counted_words(doubles)}: counted once, so left out here"
    if judged := sum(one.judged_otherwise for one in doubles):
        said += f" ({judged:,} of them have another verdict there)"
    if others:
        said += f"; to have them here instead, first `trace ingest --remove {others[0]}`"
    return f"{said}. Other runs that read alike need an `id`, a `trial` or a `date` of their own"


def _kept_words(doubles: Sequence[Double]) -> str:
    return (
        f"{counted_words(doubles)}; nothing tells them apart, but other runs of the same tasks differ, so "
        "they are kept as trials of their own: take one of the two away where it is a copy"
    )


@dataclass(frozen=True)
class _Row:
    """One trajectory, as far as it counts here."""

    number: int
    batch: str
    name: str
    tail: str | None
    target: str | None
    uri: str
    success: bool | None
    marked: bool
    timed: bool


def find_doubles(given: Sequence[tuple[str, Store]], new: Collection[str] | None = None) -> list[Double]:
    """Return which trajectories of some batches are in an earlier one, or in an earlier file of the same.

    A time of day, a duration or a random id of a call is one run's alone: what is equal with them is the same
    run. Without any of these a whole earlier batch, or nothing but what it holds, is a copy; where other runs
    of the same tasks differ, equal ones may be an agent's that now and then says the same.

    Args:
        given: Batches with their tables; of two that hold one trajectory it is the earlier one's.
        new: Batches in which doubles are looked for; None for all of them.
    """
    frames = [_heads(number, batch, store) for number, (batch, store) in enumerate(given)]
    frames = [frame for frame in frames if not frame.is_empty()]
    if not frames:
        return []
    rows = pl.concat(frames)
    looked = pl.col("batch").is_in(list(new)) if new is not None else pl.lit(True)
    several = pl.struct("batch", "source_uri").n_unique().over(KEY) > 1
    alike = rows.filter(several).filter(looked.any().over(KEY))
    if alike.is_empty():
        return []
    said = pl.concat(
        conversations(store, ids).with_columns(batch=pl.lit(batch))
        for batch, store in given
        if not (ids := alike.filter(pl.col("batch") == batch)["trajectory_id"]).is_empty()
    )
    alike = alike.join(said, on=["batch", "trajectory_id"], how="left", maintain_order="left")
    found: dict[tuple[str, str], list[tuple[_Row, _Row]]] = defaultdict(list)
    for _, group in alike.group_by([*KEY, "said"], maintain_order=True):
        for one, other in _pairs(_rows(group)):
            if new is None or one.batch in new:
                found[one.batch, other.batch].append((one, other))
    return [double for pair, both in found.items() for double in _judged(*pair, both, rows)]


def _heads(number: int, batch: str, store: Store) -> pl.DataFrame:
    """Return a batch's rows with what they are called where a file's name is taken out of it."""
    if not store.has(TrajectoryHead):
        return pl.DataFrame()
    lazy = store.scan(TrajectoryHead)
    there = lazy.collect_schema().names()  # of an earlier version without some columns
    schema = {"success": pl.Boolean, "trial": pl.Int64, "seed": pl.Int64, "n_messages": pl.Int64}
    schema |= {name: pl.Float64 for name in ("seconds", "cost_usd")}
    schema |= {name: pl.Int64 for name in ("prompt_tokens", "completion_tokens")}
    frame = lazy.select(
        (pl.col(name) if name in there else pl.lit(None).alias(name)).cast(schema.get(name, pl.String))
        for name in _HEAD
    ).collect()
    frame = frame.filter(pl.col("source") != "rollout")
    prefix = pl.col("target") + "/"
    own = frame.select("target", "source_uri").unique()
    own = own.with_columns(
        pl.struct("target", "source_uri")
        .map_elements(lambda row: _is_called_by_file(batch, **row), return_dtype=pl.Boolean)
        .alias("by_file")
    )
    return (
        frame.join(own, on=["target", "source_uri"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            pl.lit(number).alias("number"),
            pl.lit(batch).alias("batch"),
            pl.when(pl.col("task_id").str.starts_with(prefix))
            .then(pl.col("task_id").str.slice(prefix.str.len_chars()))
            .otherwise("task_id")
            .alias("task"),
            pl.col("source_uri").fill_null(""),
        )
        .sort("source_uri", "trajectory_id")
    )


def _is_called_by_file(batch: str, target: str, source_uri: str | None) -> bool:
    """Tell whether a target is only called by the file or folder that it was read from."""
    rest = target.partition(":")[2]
    folders = [batch_named(one.name) for one in list(Path(source_uri or "").parents)[:2] if one.name]
    return rest in (batch, *folders)


def _rows(group: pl.DataFrame) -> list[_Row]:
    return [_row(row) for row in group.iter_rows(named=True)]


def _row(row: Mapping[str, Any]) -> _Row:
    name, uri, batch = row["trajectory_id"], row["source_uri"], row["batch"]
    tail: str | None = name.removeprefix(f"{batch}/")
    file = Path(uri)
    called = {file.parent.name, file.name, *_stems(file.name)}
    last = name.rpartition("/")[2]
    # A place in the file, or the file's name: nothing that the run itself is called.
    if not row["source"].startswith("tau2") and (last in called or (name != tail and last.isdigit())):
        tail = None
    return _Row(
        number=row["number"],
        batch=batch,
        name=name,
        tail=tail,
        target=None if row["by_file"] else row["target"],
        uri=uri,
        success=row["success"],
        marked=bool(row["marked"]) or (row["seconds"] or 0.0) % 1 != 0,
        timed=re.search(_TIME_OF_DAY, row["date"] or "") is not None,
    )


def _stems(name: str) -> Iterable[str]:
    while "." in name[1:]:
        name = name.rpartition(".")[0]
        yield name


def _pairs(rows: Sequence[_Row]) -> Iterable[tuple[_Row, _Row]]:
    """Yield each row that repeats one of an earlier batch or file with that one.

    A file that says one thing three times means three trials of it: of a later one, so many are doubles.
    """
    files: dict[tuple[int, str], list[_Row]] = defaultdict(list)
    for row in rows:
        files[row.number, row.uri].append(row)
    earlier: list[list[_Row]] = []
    for _, own in sorted(files.items()):
        rest, left = own, own
        for other in earlier:
            free = list(other)
            rest = []
            for row in left:
                match = next((one for one in free if _may_be(row, one)), None)
                if match is None:
                    rest.append(row)
                else:
                    free.remove(match)
                    yield row, match
            left = rest
            if not left:
                break
        if rest:
            earlier.append(rest)


def _may_be(one: _Row, other: _Row) -> bool:
    """Tell whether two rows that say the same may be one run, by what they are called."""
    named = None not in (one.tail, other.tail) and one.tail != other.tail
    placed = None not in (one.target, other.target) and one.target != other.target
    return not named and not placed


def _judged(batch: str, of: str, both: Sequence[tuple[_Row, _Row]], rows: pl.DataFrame) -> Iterable[Double]:
    """Yield the doubles of two batches: those that are certain, and those that may be chance."""
    sure, rest = list[tuple[_Row, _Row]](), list[tuple[_Row, _Row]]()
    for pair in both:
        (sure if pair[0].marked or (batch != of and pair[0].timed) else rest).append(pair)
    by_chance = bool(rest) and _others_differ(batch, of, both, rows)
    n = rows.filter(pl.col("batch") == batch).height
    for chosen, chance in ((sure if by_chance else both, False), (rest if by_chance else (), True)):
        if chosen:
            yield Double(
                batch,
                of,
                tuple(one.name for one, _ in chosen),
                n,
                sum(one.success != other.success for one, other in chosen),
                chance,
                (chosen[0][0].uri, chosen[0][1].uri),
            )


def _others_differ(batch: str, of: str, both: Sequence[tuple[_Row, _Row]], rows: pl.DataFrame) -> bool:
    """Tell whether the rest of two batches holds further runs of one task by one agent."""
    taken = {batch: {one.name for one, _ in both}}
    if of != batch:
        taken[of] = {other.name for _, other in both}
    rest = [
        rows.filter((pl.col("batch") == name) & ~pl.col("trajectory_id").is_in(list(names)))
        for name, names in taken.items()
    ]
    if len(rest) == 2:
        return not rest[0].join(rest[1], on=_SAME_RUN, how="semi", nulls_equal=True).is_empty()
    return bool(rest[0].select(_SAME_RUN).is_duplicated().any())


def policies_alike(given: Iterable[tuple[str, Store]], new: Collection[str], path: Path) -> Iterator[Problem]:
    """Tell of policies of a target whose names differ in capitals or blanks alone: they are counted as two.

    They are not made one: a person may have meant two, and knows it.

    Args:
        given: Batches and where they lie.
        new: Those that have just come in: what none of them has was told before.
        path: The file that is told of.
    """
    runs: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    came = set()
    for batch, store in given:
        if not store.has(TrajectoryHead):
            continue
        counted = store.scan(TrajectoryHead).group_by("target", "policy").len().collect()
        for target, policy, n in counted.iter_rows():
            key = (target, "".join((policy or "").split()).casefold())
            runs[key][policy or ""] += n
            came |= {key} if batch in new else set()
    for key, names in sorted(runs.items()):
        if len(names) > 1 and key in came:
            told = " and ".join(f"{json.dumps(name)} ({n:,} runs)" for name, n in sorted(names.items()))
            message = (
                f"of {key[0]} there are the policies {told}: the names differ in capitals or blanks alone "
                "and count as different agents. Where they are one, write its name alike and ingest again"
            )
            yield Problem(path=str(path), message=message, severity="notice", kind="policies_alike")
