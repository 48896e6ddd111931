"""What there was to say of ingested files, kept beside the batches for whoever looks later.

A line a file or folder as it was named: what was left out of it, what another batch held, what contradicts.
It counts until the same is ingested again, or what came of it is no longer what lies in the inbox.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from trace_assets.formats.problem import Problem
from trace_assets.records import Record
from trace_assets.store.files import make_folder, replacing_file
from trace_assets.store.lines import sealed, unsealed

FILE = ".told.json"
MOST = 100
"""Problems of a file that are kept."""


class FileNotes(Record):
    """What was said of one file or folder."""

    versions: dict[str, str] = {}
    """The batches that came of it, with the version that was laid."""
    state: str = ""
    """Of a file of which nothing came: its size and time, for it counts as long as it lies there."""
    problems: tuple[Problem, ...]


def keep_notes_on(
    inbox: Path, problems: Iterable[Problem], gave: Mapping[str, Iterable[str]], laid: Mapping[str, str]
) -> None:
    """Keep what was said of some files, in the place of what was said of them before.

    Args:
        inbox: The folder of the batches.
        problems: What was said.
        gave: File to the batches that came of it, for all that were read.
        laid: Batch to the version that lies in the inbox.
    """
    gave = {_place(name): batches for name, batches in gave.items()}
    said: dict[str, list[Problem]] = {name: [] for name in gave}
    for problem in problems:
        place = _place(problem.path)
        said.setdefault(place, []).append(problem.model_copy(update={"path": place}))
    notes, new = _read(inbox), {}
    for name, own in said.items():
        came = gave.get(name, laid)  # a folder, or a table of verdicts, is of all of them
        versions = {batch: laid[batch] for batch in came if laid.get(batch)}
        if own:
            state = "" if versions else _state(name)
            note = FileNotes(versions=versions, state=state, problems=tuple(own[:MOST]))
            new[name] = sealed(note.model_dump_json()).decode().rstrip("\n")
    kept = {name: text for name, text in notes.items() if name not in said} | new
    if kept != notes:
        make_folder(inbox)  # synced: a power cut would take the folder, and what is noted, with its name
        with replacing_file(inbox / FILE) as partial:
            partial.write_text(json.dumps(kept), encoding="utf-8")


def notes_on_files(inbox: Path, laid: Mapping[str, str]) -> list[Problem]:
    """Return what was said of the files that were ingested and still counts.

    Args:
        inbox: The folder of the batches.
        laid: Batch to the version that lies there.
    """
    found: dict[str, Problem] = {}
    for name, text in _read(inbox).items():
        try:
            note = FileNotes.model_validate_json(unsealed(text.encode()) or "")
        except (ValidationError, AttributeError):  # damaged: it says nothing of what the tables hold
            continue
        as_it_was = all(laid.get(batch) == version for batch, version in note.versions.items())
        if as_it_was and (note.versions or note.state == _state(name)):
            found |= {str(problem): problem for problem in note.problems}
    return list(found.values())


def _read(inbox: Path) -> dict[str, str]:
    try:
        found = json.loads((inbox / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _place(name: str) -> str:
    return str(Path(name).absolute())


def _state(name: str) -> str:
    try:
        about = Path(name).stat()
    except (OSError, ValueError):
        return "gone"
    return f"{about.st_size} {about.st_mtime_ns}"
