"""A tau2 file as parts, in the order of its trajectories' ids, parsed by several processes when it is large.

The file is first walked once for where its simulations lie and what they are called (`elements`), then read
in the order of the ids: so the tables come out sorted and nothing large is ever held.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from trace_assets.formats.columns import too_heavy, weight
from trace_assets.formats.json_array import Array, Span
from trace_assets.formats.problem import Part, Problem, part_of, repeated
from trace_assets.formats.tau2 import not_judged, open_tau2, settled_items
from trace_assets.formats.tau2_columns import LARGE, LONGEST_ID, Converted, convert
from trace_assets.formats.tau2_file import Tau2File
from trace_assets.formats.tau2_helper import Helper
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import OF_MACHINE, Allowance
from trace_assets.untrusted.json_text import longest

CHUNK = 8_000_000
"""Bytes of JSON that become one part."""
PARALLEL = 96_000_000
"""Bytes from which a file is worth starting processes for."""
FOR_TWO = 1 << 30
"""Bytes of memory that reading must be allowed before two processes share it."""
AHEAD = 4
"""Chunks that lie ready at most when one before them is not."""

Seen = MutableMapping[str, str]
"""Trajectory id to where it was met, over all files of one reading."""


class _Named(msgspec.Struct):
    id: str | int | float | None = None


def read_parts(path: Path, seen: Seen, allowance: Allowance = OF_MACHINE) -> Iterator[Part | Task | Problem]:
    """Yield a file's tables part by part, its tasks, and what could not be read.

    Args:
        path: A tau2 simulation file.
        seen: Ids that are not to be read again; what is read is added.
        allowance: Memory that this may take.
    """
    with ExitStack() as stack:
        # Asked for first of all: it takes half a second to come up.
        several = path.stat().st_size >= PARALLEL and allowance.total >= FOR_TWO
        helper = _helper(stack) if several else None
        opened = open_tau2(path, allowance)
        if isinstance(opened, Problem):
            yield opened
        else:
            yield from _parts(*opened, seen, helper, allowance)


def _helper(stack: ExitStack) -> Helper | None:
    try:
        return stack.enter_context(Helper())
    except OSError:  # no more processes may be started: it takes longer alone
        return None


def _parts(
    file: Tau2File, array: Array, seen: Seen, helper: Helper | None, allowance: Allowance
) -> Iterator[Part | Task | Problem]:
    path = file.path
    ids = _ids(path, array, longest(allowance.row))
    if not array.whole:
        message = (
            f"there are more than {len(ids):,} simulations, which is more than can be remembered within "
        )
        message += "the memory that reading may take (ingest.memory_gib); the others are left out"
        position = f"simulations[{len(ids)}]"
        yield Problem(path=str(path), position=position, message=message, kind="too_large")
    here = f"tau2:{path.name}"
    chosen: list[int] = []
    doubles: list[int] = []
    for number in sorted(range(len(ids)), key=lambda number: (ids[number], number)):
        if ids[number] in seen and seen[ids[number]] == here and chosen and ids[chosen[-1]] == ids[number]:
            doubles.append(number)
        elif ids[number] in seen:
            yield repeated(ids[number], path, seen[ids[number]], None, f"simulations[{number}]")
        else:
            if ids[number]:
                seen[ids[number]] = here
            chosen.append(number)
    refused: list[Span] = []
    notices: list[tuple[int, str]] = []
    tasks = set[str]()
    chunks = list(_chunks([array.spans[number] for number in chosen]))
    for converted in _converted(file, chunks, helper, allowance):
        refused.extend(converted.refused)
        for task_id in converted.tasks:
            if task_id not in tasks:
                tasks.add(task_id)
                yield file.task(task_id)
        notices.extend(converted.notices)
        if converted.part is not None:
            yield converted.part
    shifts: list[tuple[int, int]] = []
    own = {ids[span.number] for span in refused}
    torn = {span.number for span in refused}
    for number in sorted(doubles):
        if number - 1 in torn:  # perhaps no element at all, but the rest of the piece before it
            torn.add(number)
            refused.append(array.spans[number])
    yield from _slowly(file, refused, own, tasks, seen, shifts, allowance)
    first = {name: number for number, name in reversed(list(enumerate(ids)))} if doubles else {}
    for number in (number for number in doubles if number not in torn):
        if ids[number] in own:  # the first of that name was of no use
            yield from _slowly(file, [array.spans[number]], own, tasks, seen, [], allowance)
        else:
            yield _again(file, array, first[ids[number]], ids[number], number, seen)
    for number, notice in sorted(notices):
        place = number + sum(more for before, more in shifts if before < number)
        yield not_judged(path, place, notice)


def _ids(path: Path, array: Array, most: int) -> list[str]:
    """Return each piece's trajectory id; empty where only the records' way can tell."""
    found: list[str] = []
    decoder = msgspec.json.Decoder(_Named)
    with path.open("rb") as stream:
        for name, span in zip(array.ids, array.spans, strict=True):
            if name is not None:
                found.append(name)
                continue
            stream.seek(span.start)
            try:
                text = stream.read(span.end - span.start) if span.end - span.start <= most else b""
                value = decoder.decode(text.rstrip(b" \t\r\n,")).id
            except (ValueError, RecursionError):
                value = None
            found.append("" if value is None or len(str(value)) > LONGEST_ID else str(value))
    return found


def _again(file: Tau2File, array: Array, first: int, name: str, number: int, seen: Seen) -> Problem:
    """Tell of a trajectory that was read before, and whether it is the same when both are in this file."""
    where = seen[name]
    same = None
    if first < number and where == f"tau2:{file.path.name}":
        with file.path.open("rb") as stream:
            prints = []
            for span in (array.spans[first], array.spans[number]):
                stream.seek(span.start)
                text = stream.read(min(span.end - span.start, LARGE)).rstrip(b" \t\r\n,")
                prints.append((len(text), hash(text)))
        same = prints[0] == prints[1]
    return repeated(name, file.path, where, same, f"simulations[{number}]")


def _chunks(spans: Sequence[Span]) -> Iterator[list[Span]]:
    chunk: list[Span] = []
    size = 0
    for span in spans:
        chunk.append(span)
        size += span.end - span.start
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _converted(
    file: Tau2File, chunks: Sequence[Sequence[Span]], helper: Helper | None, allowance: Allowance
) -> Iterator[Converted]:
    """Convert chunks in order: here, and where there is a helper in its process too."""
    if helper is None:
        yield from (_uncollected(file, chunk, allowance) for chunk in chunks)
        return
    helper.open(file, allowance)
    todo = dict(enumerate(chunks))
    done: dict[int, Converted] = {}
    for number in range(len(chunks)):
        while number not in done:
            if helper.lost:
                todo = dict(sorted([*todo.items(), *helper.lost.items()]))
                helper.lost.clear()
            while todo and helper.free:
                other = next(iter(todo))
                helper.give(other, todo.pop(other))
            if todo and (len(done) < AHEAD or number in todo):
                mine = next(iter(todo))
                done[mine] = _uncollected(file, todo.pop(mine), allowance)
                done.update(helper.take())
            else:
                done.update(helper.take(wait=True))
        yield done.pop(number)


def _uncollected(file: Tau2File, chunk: Sequence[Span], allowance: Allowance) -> Converted:
    """Convert with the collector off, as the other process does all the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        return convert(file, chunk, allowance)
    finally:
        if running:
            gc.enable()


def _slowly(
    file: Tau2File,
    refused: list[Span],
    own: set[str],
    tasks: set[str],
    seen: Seen,
    shifts: list[tuple[int, int]],
    allowance: Allowance,
) -> Iterator[Part | Task | Problem]:
    """Read what the fast way refused, run by run of neighbouring pieces.

    `own` holds the ids that are expected; those that were read are taken out. `shifts` is told (number of a
    piece, elements more than pieces from there on): pieces that hold no or two elements move the places of
    those behind them.
    """
    waiting: list[Trajectory] = []
    heavy = 0
    runs: list[list[Span]] = []
    for span in sorted(refused):
        if runs and runs[-1][-1].end == span.start:
            runs[-1].append(span)
        else:
            runs.append([span])
    for run in runs:
        shift, count = sum(more for _, more in shifts), 0
        shifted = [span._replace(number=span.number + shift) for span in run]
        for item in settled_items(file, shifted, allowance):
            count += not isinstance(item, Problem) or item.severity == "error"
            if not isinstance(item, Problem):
                item = too_heavy(item, file.path, allowance) or item
            if isinstance(item, Problem):
                yield item
                continue
            if item.trajectory_id in own:
                own.discard(item.trajectory_id)
            elif item.trajectory_id in seen:
                yield repeated(item.trajectory_id, file.path, seen[item.trajectory_id], None)
                continue
            seen[item.trajectory_id] = f"tau2:{file.path.name}"
            task_id = item.task_id.removeprefix(f"{file.target}/")
            if task_id not in tasks:
                tasks.add(task_id)
                yield file.task(task_id)
            if waiting and heavy + weight(item) > allowance.waiting:
                yield part_of(waiting)
                waiting, heavy = [], 0
            waiting.append(item)
            heavy += weight(item)
        shifts.append((run[-1].number, count - len(run)))
    if waiting:
        yield part_of(waiting)
