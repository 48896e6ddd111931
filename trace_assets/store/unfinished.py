"""What work that is under way keeps in a home, so that the next try goes on from it.

Everything here may be copied while it is worked on: lines are appended and never changed, a paid answer is
put in place whole, and of a run directory any moment is one in which its process might have been killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

COMPLETE = "complete"
"""Marker inside a checkpoint, written last: without it the checkpoint was cut short and is not used. It lists
the checkpoint's files."""
CHECKPOINT = "checkpoint-"
"""What the names of checkpoints begin with."""
SAMPLER = "sampler"
"""Folder of a run directory that its sampler writes into, anew for each try."""
_RUN_DIRECTORY = ".work"
REMOVED = "removed"
"""Folder of a home for batches that were taken out: they lie there until somebody deletes them."""
BEGUN = "removal-begun"
"""Lies in such a batch until nothing that was made of it is in the tables any more."""


def begun_removals(home: Path) -> list[str]:
    """Return the batches whose removal was begun and not ended: the tables may show them still."""
    return sorted(one.parent.name for one in (home / REMOVED).glob(f"[!.]*/{BEGUN}"))


def words_on_removals(home: Path) -> str:
    """Say of a home that the removal of a batch was cut short there; empty where none was."""
    names = begun_removals(home)
    if not names:
        return ""
    return (
        f"the removal of {', '.join(names)} was interrupted: what the tables hold was made with "
        f"{'it' if len(names) == 1 else 'them'}, in part at least, until `trace diagnose` (or any sync) "
        "ends the removal"
    )


def run_directory_of(folder: Path) -> Path:
    """Return where the run works whose result will be in a folder."""
    return folder.with_name(f".{folder.name}{_RUN_DIRECTORY}")


def run_directories(home: Path) -> Iterator[Path]:
    """Return the folders of runs that are under way, in a home and in those of its later rounds."""
    for one in _homes(home):
        for place, folders, _ in os.walk(one / "models"):
            found = [name for name in folders if name.startswith(".") and name.endswith(_RUN_DIRECTORY)]
            yield from (Path(place, name) for name in sorted(found))
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def files_of_run_directory(run_directory: Path) -> Iterator[Path]:
    """Return the files that matter of a run under way: of a checkpoint that is cut short, none."""
    for place, folders, files in os.walk(run_directory):
        folder = Path(place)
        if folder.name.startswith(CHECKPOINT) and not (folder / COMPLETE).is_file():
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if folder != run_directory or name != SAMPLER)
        yield from (folder / name for name in sorted(files))


def journals(home: Path) -> Iterator[Path]:
    """Return the files of lines: episodes that were played, and what was spent."""
    for one in _homes(home):
        yield from sorted(path for path in (one / "journals").rglob("*.jsonl") if path.is_file())
        if (spent := one / "answers" / "spent.jsonl").is_file():
            yield spent


def paid_answers(home: Path) -> Iterator[Path]:
    """Return what models answered, a file each."""
    for one in _homes(home):
        yield from sorted((one / "answers").glob("??/*.json"))


def _homes(home: Path) -> Iterator[Path]:
    yield home
    yield from sorted((home / "rounds").glob("*/"))
