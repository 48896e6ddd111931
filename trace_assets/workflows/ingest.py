"""Trajectories that were made elsewhere: read, checked and laid into the inbox, one batch a source file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from trace_assets.errors import InputError
from trace_assets.formats.batch_files import batch_named, batch_of, stands_alone
from trace_assets.formats.load import Loaded, Spool, load
from trace_assets.formats.problem import Problem, ProblemLog, reading
from trace_assets.formats.registry import expand
from trace_assets.formats.verdict_table import is_verdict_table
from trace_assets.records import Record, Task, TrajectoryHead
from trace_assets.resources.inbox import (
    batch_problem,
    batches,
    inbox,
    judged_otherwise,
    lacking,
    laid_version,
    played_here,
    seal_batch,
    sources_of,
)
from trace_assets.store import Store
from trace_assets.store.files import replacing_folder
from trace_assets.store.item_locks import mark_due
from trace_assets.store.locks import Holder, exclusive
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.untrusted.allowance import Allowance
from trace_assets.workflows.doubles import Double, find_doubles, policies_alike, tell_doubles
from trace_assets.workflows.ingested_files import (
    IngestedFiles,
    keep_notes,
    keep_notes_on,
    keep_policies,
    notes_on_files,
)


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
    """A batch of that name holds what the file does not.

    Attributes:
        folder: Whose files are the batch together; None where it is one file's.
    """

    def __init__(self, words: str, folder: Path | None = None) -> None:
        super().__init__(words)
        self.folder = folder


def ingest(
    study: Study,
    paths: Sequence[Path],
    format: str = "auto",
    again: bool = False,
    waiting: Callable[[Holder | None], None] = lambda _: None,
) -> Ingested:
    """Read files into the inbox; the assets `tasks` and `trajectories` take them from there.

    A trajectory or task that another batch holds already is left where it is. The same files again change
    nothing, and a file with the very bytes of one that was ingested is not parsed again. A file takes the
    place of an earlier one of its name when it holds all that the earlier one held.

    Args:
        study: Where to.
        paths: Trajectory files, and folders of them.
        format: A format's name, or `auto`.
        again: Also where trajectories of the earlier file would be gone.
        waiting: Told once who is in the way, before another one's end is waited for.

    Raises:
        InputError: No trajectory could be read, or a folder cannot be written.
    """
    announce(study.home)
    # Two at once would not see what the other one brings, and both would keep a trajectory that both hold.
    with exclusive(study.home.path / "locks" / "ingest.lock", "trace ingest", waiting=waiting):
        return _ingest(study, paths, format, again)


def _ingest(study: Study, paths: Sequence[Path], format: str, again: bool) -> Ingested:
    paths, notices = expand(paths, format)
    if not again:
        paths, more = _with_their_batch(study, paths)
        notices += more
    files = IngestedFiles(study.home.inbox, format)
    # A batch is laid as a whole: where one of its files is new, all of them are read.
    tables = {path for path in paths if is_verdict_table(path)}
    due = {
        batch_of(path) for path in paths if tables or not files.known(path)
    }  # a table may judge any of them
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
            held, place = _held(study, rest), Path(folder) / "read"
            read = load(rest, place, stack, format, held, allowance)
            _find_tasks(study, read)
            doubles = _doubles_in(study, read, again)
            if left_out := {name for one in doubles if not one.by_chance for name in one.ids}:
                place, given = Path(folder) / "rest", read.gave
                read = load(rest, place, stack, format, held, allowance, left_out)
                _find_tasks(study, read)
            else:
                given = read.gave
            for problem in tell_doubles(doubles, given):
                outcome.problems.add(problem)
            _lay_all(study, read, place, outcome, files, again)
        if outcome.new:
            laid = [(batch, inbox(study, batch)) for batch in batches(study)]
            with suppress(InputError):  # of a damaged batch: whoever looks at the files is told
                for problem in policies_alike(laid, outcome.new, rest[0]):
                    outcome.problems.add(problem)
        own = [
            problem
            for problem in outcome.problems
            if problem.path not in outcome.skipped and problem.kind != "judged_anew"
        ]
        absolute = [
            problem.model_copy(update={"path": str(Path(problem.path).absolute())}) for problem in own
        ]
        gave = {str(Path(name).absolute()): batches for name, batches in read.gave.items()}
        came = {batch for some in gave.values() for batch in some}
        keep_notes_on(study.home.inbox, absolute, gave, _laid(study, came))
        keep_notes(study.home.descriptions, rest)
        keep_policies(study, outcome.new)
    return outcome


def left_out_of(study: Study) -> list[Problem]:
    """Return what was left out of the ingested files, or needs a look, as far as it still counts."""
    return notes_on_files(study.home.inbox, _laid(study, batches(study)))


def _laid(study: Study, names: Iterable[str]) -> dict[str, str]:
    return {batch: laid_version(study.home.inbox / batch) for batch in names}


def _with_their_batch(study: Study, paths: list[Path]) -> tuple[list[Path], list[Problem]]:
    """Add to a file that came into a folder the ones beside it that were ingested: they are one batch.

    Named alone it would take the place of all of them.
    """
    named = {path.absolute() for path in paths}
    added: list[Path] = []
    notices: list[Problem] = []
    of_folders = [path for path in paths if path.is_file() and not is_verdict_table(path)]
    of_folders = [path for path in of_folders if not stands_alone(path)]
    for batch in sorted({batch_of(path) for path in of_folders}):
        folder = study.home.inbox / batch
        if not folder.is_dir() or batch_problem(folder):
            continue
        own = [path for path in of_folders if batch_of(path) == batch]
        beside = {_place_of_batch(path) for path in own}
        before = [
            path
            for path in sources_of(inbox(study, batch))
            if path.absolute() not in named and batch_of(path) == batch and _place_of_batch(path) in beside
        ]
        if before:
            added += before
            message = (
                f"it is of the batch '{batch}' with the files of its folder: the {len(before):,} that were "
                "ingested before are read with it"
            )
            notices.append(Problem(path=str(own[0]), message=message, severity="notice", kind="held"))
    return [*paths, *added], notices


def _place_of_batch(path: Path) -> Path:
    """Return the folder whose files are one batch with a file."""
    place = path.absolute().parent
    while place.name and batch_named(place.name) != batch_of(path):
        place = place.parent
    return place if place.name else path.absolute().parent


def _held(study: Study, paths: Sequence[Path]) -> dict[str, str]:
    """Return trajectory id to batch, for the batches that these files do not replace."""
    own = {batch_of(path) for path in paths if not is_verdict_table(path)}
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
    for batch, spool in sorted(read.batches.items()):
        if not spool.n_trajectories:
            outcome.unchanged[batch] = 0
            continue
        given = [Path(name) for name, own in read.gave.items() if batch in own]
        try:
            same_file = all(files.had_bytes(path) for path in given)
            place = next((_place_of_batch(path) for path in given if not stands_alone(path)), None)
            spool.finish()
            judged = _judged_otherwise(study, batch, spool.store)
            is_new = _lay(study, batch, spool, folder / batch, again, same_file, place)
        except _Held as refused:
            for path in [refused.folder] if refused.folder else given:
                outcome.problems.add(Problem(path=str(path), message=str(refused), kind="held"))
            continue
        for problem in spool.problems:
            outcome.problems.add(problem)
        if judged:
            message = (
                f"{len(judged):,} of its trajectories have another verdict than when they were ingested "
                f"before, such as '{judged[0]}'; the new one counts"
            )
            outcome.problems.add(
                Problem(path=str(given[0]), message=message, severity="notice", kind="judged_anew")
            )
        counts = outcome.new if is_new else outcome.unchanged
        counts[batch] = spool.n_trajectories
        outcome.messages[batch] = spool.n_messages
    files.remember(study.home.inbox, read, outcome.problems)


def _judged_otherwise(study: Study, batch: str, new: Store) -> list[str]:
    folder = study.home.inbox / batch
    there = folder.is_dir() and not batch_problem(folder)
    return judged_otherwise(inbox(study, batch), new) if there else []


def _find_tasks(study: Study, read: Loaded) -> None:
    """Tell batches that were read which tasks others have brought."""
    others = [batch for batch in batches(study) if batch not in read.batches]
    held = {task_id: found for batch in others for task_id, found in _tasks(study, batch)}
    for spool in read.batches.values():
        spool.held = held


def _doubles_in(study: Study, read: Loaded, again: bool) -> list[Double]:
    """Return what of the batches that were read is in another one, or twice in one.

    What a batch of that name holds already stays in it, as an earlier version has read it, unless the new one
    is to take its place.
    """
    there = batches(study)
    new = sorted((batch for batch in read.batches), key=lambda batch: batch not in there)
    new = [batch for batch in new if read.batches[batch].n_trajectories]
    for batch in new:
        read.batches[batch].finish()
    given = [(batch, inbox(study, batch)) for batch in there if batch not in read.batches]
    given += [(batch, read.batches[batch].store) for batch in new]
    found = []
    for one in find_doubles(given, new):
        folder = study.home.inbox / one.batch
        keeps = not again and folder.is_dir() and not batch_problem(folder)
        own = set(_column(inbox(study, one.batch), TrajectoryHead)) if keeps else set()
        if ids := tuple(name for name in one.ids if name not in own):
            found.append(one._replace(ids=ids))
    return found


def stored_doubles(study: Study) -> list[Double]:
    """Return what an earlier version let in twice, by batches of the inbox; damaged ones are passed over."""
    given = [(batch, inbox(study, batch)) for batch in batches(study)]
    try:
        return [one for one in find_doubles(given) if not one.by_chance]
    except InputError:  # whoever looks at the files is told
        return []


def _tasks(study: Study, batch: str) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the tasks that a batch brought: id, and the batch with what the task reads."""
    frame = inbox(study, batch).frame(Task).select("task_id", "instruction", "payload")
    for task_id, instruction, payload in frame.iter_rows():
        yield task_id, (batch, reading(instruction, json.loads(payload)))


def _lay(
    study: Study, batch: str, spool: Spool, built: Path, again: bool, same_file: bool, place: Path | None
) -> bool:
    """Put one batch in place; tell whether its content is new.

    Args:
        study: Whose inbox.
        batch: Its name.
        spool: What was read.
        built: Where that lies.
        again: Also where what is held would be gone.
        same_file: It was read from the very bytes that were read before.
        place: Folder whose files are the batch together; None where it is one file's.

    Raises:
        _Held: What is finished in a batch of this name would be gone.
    """
    folder, version = study.home.inbox / batch, spool.finish()
    if not folder.is_dir() and (n := played_here(study, batch)):
        raise _Held(
            f"the batch '{batch}' holds {n:,} trajectories that were rolled out here; "
            "rename the file, for a batch is called by its file"
        )
    if not again and folder.is_dir() and not batch_problem(folder):  # of a damaged batch nothing is held
        short = lacking(inbox(study, batch), spool.store, batch, same_file=same_file)
        if any(short):
            raise _Held(short.sentence(batch, place), place)
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
