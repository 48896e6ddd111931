"""Trajectories that were made elsewhere: read, checked and laid into the inbox, one batch a source file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from trace_assets.importers.batch import batch_of
from trace_assets.importers.load import Loaded, load
from trace_assets.importers.problem import Problem, ProblemLog, reading
from trace_assets.importers.registry import expand
from trace_assets.importers.spool import Spool
from trace_assets.records import Record, Task, TrajectoryHead
from trace_assets.stages.inbox_files import batch_problem, batch_store, laid_version, seal_batch
from trace_assets.stages.ingested_files import IngestedFiles
from trace_assets.stages.target_notes import keep_notes
from trace_assets.store import Store
from trace_assets.store.home import replacing_folder
from trace_assets.store.locks import mark_due
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.untrusted.allowance import Allowance


@dataclass(frozen=True)
class Ingested:
    """What came of some files.

    Attributes:
        new: Batches that were not there or whose content changed, with their number of trajectories.
        unchanged: Batches that were there with equal content.
        messages: Messages by batch.
        problems: What was left out or needs a look: counts, and examples of each kind.
        skipped: Files that were not even parsed: the same bytes were ingested before.
    """

    new: dict[str, int]
    unchanged: dict[str, int]
    messages: dict[str, int] = field(default_factory=dict)
    problems: ProblemLog = field(default_factory=ProblemLog)
    skipped: Sequence[str] = ()

    @property
    def errors(self) -> list[Problem]:
        """The problems that left something out (examples, where there are thousands of one kind)."""
        return [problem for problem in self.problems if problem.severity == "error"]


class _Held(Exception):
    """A batch of that name holds what the file does not."""


def ingest(study: Study, paths: Sequence[Path], format: str = "auto", again: bool = False) -> Ingested:
    """Read files into the inbox; the assets `tasks` and `trajectories` take them from there.

    A trajectory or task that another batch holds already is left where it is. The same files again change
    nothing, and a file with the very bytes of one that was ingested is not parsed again. A file takes the
    place of an earlier one of its name when it holds all that the earlier one held.

    Args:
        study: Where to.
        paths: Trajectory files, and folders of them.
        format: A format's name, or `auto`.
        again: Also where trajectories of the earlier file would be gone.

    Raises:
        InputError: No trajectory could be read, or a folder cannot be written.
    """
    announce(study.home)
    paths, notices = expand(paths, format)
    files = IngestedFiles(study.home.inbox, format)
    # A batch is laid as a whole: where one of its files is new, all of them are read.
    due = {batch_of(path) for path in paths if not files.known(path)}
    known = [path for path in paths if files.known(path) and batch_of(path) not in due]
    outcome = Ingested({}, {}, skipped=[str(path) for path in known])
    for notice in notices:
        outcome.problems.add(notice)
    for path in outcome.skipped:
        before = files.known(Path(path))
        assert before is not None
        for problem in before.problems:
            outcome.problems.add(problem.model_copy(update={"path": path}))
        outcome.unchanged.update(before.batches)
        outcome.messages.update(before.messages)
    rest = [path for path in paths if str(path) not in outcome.skipped]
    if rest or not paths:
        with (
            TemporaryDirectory(dir=study.home.path, prefix=".ingest-") as folder,
            ExitStack() as stack,
        ):
            allowance = Allowance.of_machine(study.settings.ingest.memory_gib)
            read = load(rest, Path(folder), stack, format, _held(study, rest), allowance)
            _lay_all(study, read, Path(folder), outcome, files, again)
        keep_notes(study.home.descriptions, rest)
    return outcome


def batches(study: Study) -> list[str]:
    """Return the batches in the inbox, sorted."""
    if not study.home.inbox.is_dir():
        return []
    found = (path for path in study.home.inbox.iterdir() if not path.name.startswith("."))  # half-made ones
    return sorted(path.name for path in found if (path / "version").is_file())


def inbox(study: Study, batch: str) -> Store:
    """Return the tables of a batch as they were ingested."""
    return batch_store(study.home.inbox / batch)


def _held(study: Study, paths: Sequence[Path]) -> dict[str, str]:
    """Return trajectory id to batch, for the batches that these files do not replace."""
    own = {batch_of(path) for path in paths}
    others = [batch for batch in batches(study) if batch not in own]
    return {name: batch for batch in others for name in _column(inbox(study, batch), TrajectoryHead)}


def _column(store: Store, record: type[Record]) -> list[str]:
    if not store.has(record):
        return []
    return store.scan(record).select(record.key[0]).collect()[record.key[0]].to_list()


def _lay_all(
    study: Study, read: Loaded, folder: Path, outcome: Ingested, files: IngestedFiles, again: bool
) -> None:
    for problem in read.problems:
        outcome.problems.add(problem)
    outcome.problems.counts.update(read.problems.surplus())
    others = [batch for batch in batches(study) if batch not in read.batches]
    held = {task_id: found for batch in others for task_id, found in _tasks(study, batch)}
    for batch, spool in sorted(read.batches.items()):
        if not spool.n_trajectories:
            outcome.unchanged[batch] = 0
            continue
        spool.held = held
        try:
            is_new = _lay(study, batch, spool, folder / batch, again)
        except _Held as refused:
            for path in (name for name, own in read.gave.items() if batch in own):
                outcome.problems.add(Problem(path=path, message=str(refused), kind="held"))
            continue
        for problem in spool.problems:
            outcome.problems.add(problem)
        counts = outcome.new if is_new else outcome.unchanged
        counts[batch] = spool.n_trajectories
        outcome.messages[batch] = spool.n_messages
    files.remember(study.home.inbox, read, outcome.problems)


def _tasks(study: Study, batch: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the tasks that a batch brought: id, and the batch with what the task reads."""
    frame = inbox(study, batch).frame(Task).select("task_id", "instruction", "payload")
    for task_id, instruction, payload in frame.iter_rows():
        yield task_id, (batch, reading(instruction, json.loads(payload)))


def _lay(study: Study, batch: str, spool: Spool, built: Path, again: bool) -> bool:
    """Put one batch in place; tell whether its content is new.

    Raises:
        _Held: What is finished in a batch of this name would be gone.
    """
    folder, version = study.home.inbox / batch, spool.finish()
    rolled_out = study.store.frame(TrajectoryHead, batch) if not folder.is_dir() else None
    if rolled_out is not None and rolled_out.height:
        raise _Held(
            f"the batch '{batch}' holds {rolled_out.height:,} trajectories that were rolled out here; "
            "rename the file, for a batch is called by its file"
        )
    held = () if batch_problem(folder) else _column(inbox(study, batch), TrajectoryHead)
    gone = len(set(held) - set(_column(spool.store, TrajectoryHead)))  # of a damaged batch nothing is held
    if gone and not again:
        raise _Held(
            f"the batch '{batch}' holds {gone:,} trajectories that this file does not; rename the file to "
            "have both, or say --again to have it take the other's place"
        )
    (built / "version").write_text(version, encoding="utf-8")
    seal_batch(built)
    if laid_version(folder) == version and not batch_problem(folder):
        return False
    for asset in ("tasks", "trajectories"):  # seen by the next sync, also when this process ends before it
        mark_due(study.home, asset, batch, "new files")
    with replacing_folder(folder) as building:
        for entry in built.iterdir():
            shutil.move(entry, building / entry.name)
    return True
