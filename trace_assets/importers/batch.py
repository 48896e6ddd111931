"""Names of task batches, and the files that form one."""

from __future__ import annotations

import re
from pathlib import Path

_TRAJ = (".traj.json", ".traj")
_RESULTS = "results.json"
SIMULATIONS = "simulations"
"""Folder beside tau2's `results.json` where each simulation may be a file."""
SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".parquet")
"""How files end that a folder is looked through for."""


def batch_of(path: Path) -> str:
    """Return the task batch that a file's trajectories form, from its name.

    Where a program writes a file for each trajectory, or calls the results of every run alike, it is the
    run's folder that names the batch.

    >>> batch_of(Path("runs/gpt-4.1 retail.json")), batch_of(Path("runs/gpt-4.1 retail/results.json"))
    ('gpt-4-1-retail', 'gpt-4-1-retail')
    >>> batch_of(Path("runs/m__lite/repo-1/repo-1.traj")), batch_of(Path("runs/m__lite/repo-1.traj"))
    ('m__lite', 'm__lite')
    """
    if path.name.endswith(_TRAJ):
        return batch_named(run_folder(path).name or path.stem)
    name = path.absolute().parent.name if path.name == _RESULTS else path.stem
    return batch_named(name or path.stem)


def batch_named(name: str) -> str:
    """Return a name as batches are called."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "file"


def instance_of(path: Path) -> str:
    """Return what a file with one trajectory is called without its endings."""
    return path.name.removesuffix(".json").removesuffix(".traj")


def run_folder(path: Path) -> Path:
    """Return the folder of the run that a trajectory's file belongs to: some have a folder for each."""
    folder = path.absolute().parent
    return folder.parent if folder.name == instance_of(path) else folder


def is_split(path: Path) -> bool:
    """Tell whether a file is the head of a tau2 run whose simulations lie in files of their own beside it."""
    return path.name == _RESULTS and any((path.parent / SIMULATIONS).glob("*.json"))


def stands_alone(path: Path) -> bool:
    """Tell whether what a file gives follows from its own bytes, and not from files beside it as well."""
    return not path.name.endswith(_TRAJ) and not is_split(path)


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder and those inside it that may hold trajectories, sorted.

    Hidden ones are passed over, and so are those that another one stands for.

    Raises:
        OSError: The folder cannot be read.
    """
    inside = [one for one in sorted(folder.rglob("*")) if one.name.endswith(SUFFIXES) and one.is_file()]
    return [one for one in inside if not _hidden(one.relative_to(folder)) and not _stood_for(one)]


def _hidden(inside: Path) -> bool:
    return any(part.startswith(".") for part in inside.parts)


def _stood_for(path: Path) -> bool:
    return path.parent.name == SIMULATIONS and is_split(path.parent.parent / _RESULTS)
