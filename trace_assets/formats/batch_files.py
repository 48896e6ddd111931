"""Names of task batches, and the files that form one."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from trace_assets.formats.envelope import OWN_LISTS, begun, by_run, is_log, talk_in
from trace_assets.formats.problem import Problem
from trace_assets.untrusted.allowance import BOM

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
    if is_run_file(path):
        return batch_named(path.absolute().parent.parent.name or path.stem)
    alike = path.name == _RESULTS or is_session(path) or is_talk(path) or is_one_of_folder(path)
    name = path.absolute().parent.name if alike else path.stem
    return batch_named(name or path.stem)


LONGEST_BATCH = 120
"""Characters of a batch's name: files are called by it and more, and no file's name may exceed 255 bytes."""


def batch_named(name: str) -> str:
    """Return a name as batches are called; a long one is cut, and told apart by a hash of the whole.

    So is one in letters that a batch's name cannot have: else all files of other scripts were one batch.

    >>> batch_named("a b/c"), batch_named("_a_"), batch_named("…"), len(batch_named("x" * 999))
    ('a-b-c', 'a_', 'file', 120)
    >>> batch_named("run é"), batch_named("run e\u0301"), batch_named("run è"), batch_named("運行")
    ('run-9f54bf04', 'run-9f54bf04', 'run-2328ca32', 'file-83e6a478')
    """
    # No partition of a table begins with a mark.
    batch = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-").lstrip("-_") or "file"
    whole = unicodedata.normalize("NFC", name)  # some file systems keep letters and their marks apart
    others = any(one.isalnum() and not one.isascii() for one in whole)
    if len(batch) <= LONGEST_BATCH and not others:
        return batch
    mark = hashlib.sha256((whole if others else batch).encode("utf-8", "replace")).hexdigest()[:8]
    if others:
        batch = re.sub(r"[^A-Za-z0-9_-]+", "-", whole).strip("-").lstrip("-_") or "file"
    return f"{batch[: LONGEST_BATCH - 9]}-{mark}"


def unnamable(path: Path) -> Problem | None:
    """Say so when a file's path is no text: its trajectories name the file that they come from."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        message = "its name is not UTF-8, so nothing can say where its rows come from; rename it"
        return Problem(path=shown, message=message, kind="unreadable")
    return None


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


VERDICTS = "verdicts.jsonl"
"""File beside Claude Code's sessions that says how they went."""
_SESSION_HEAD = 4096
"""Bytes of a file's beginning that tell a session: its marks come before what was said."""


def is_session(path: Path) -> bool:
    """Tell whether a file is one of Claude Code's sessions, of which each has a file of its own."""
    if not path.name.endswith(".jsonl"):
        return False
    try:
        with path.open("rb") as stream:
            return begins_session(stream.read(_SESSION_HEAD))
    except OSError:
        return False


def begins_session(head: bytes) -> bool:
    """Tell whether a file that begins so is a session: its first line is of a kind that others have not.

    >>> begins_session(b'{"type":"summary","summary":"Mend a test","leafUuid":"a"}')
    True
    >>> begins_session(b'{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"us')
    True
    >>> begins_session(b'{"messages": [], "type": "user", "sessionId": "a"}')
    False
    """
    line = head.removeprefix(BOM).lstrip().split(b"\n", 1)[0]
    try:
        row = from_json(line, allow_partial=True) if line.startswith(b"{") else None
    except ValueError:
        return False
    if not isinstance(row, dict) or "messages" in row:
        return False
    return any(
        set(marks) <= set(row)
        for marks in (("parentUuid", "isSidechain"), ("type", "sessionId"), ("type", "leafUuid"))
    ) or (row.get("type") == "file-history-snapshot" and "snapshot" in row)


_TALK_HEAD = 1 << 16
"""Bytes of a file's beginning that tell a conversation: the first message may be a long prompt."""
_BESIDE = 50
"""Files that a run's own folder has at most: one with more of them is a folder of data."""


def is_talk(path: Path) -> bool:
    """Tell whether a file is one conversation: its values are messages, not objects with them."""
    rows = _rows_of(path)
    row = rows[0] if rows else {}
    if not rows or _OF_SESSIONS & row.keys() or _of_several(rows):
        return False
    message = isinstance(row.get("role", row.get("type")), str) and _speaks(row)
    return message or is_log(rows)


_OF_SESSIONS = frozenset({"sessionId", "parentUuid", "leafUuid"})


def _of_several(rows: list[dict[str, Any]]) -> bool:
    """Tell whether messages are those of several runs, each of which they name."""
    return by_run(rows) is not None and not any(OWN_LISTS & row.keys() for row in rows)


def is_run_file(path: Path) -> bool:
    """Tell whether a file holds the one conversation of a folder that is a run's own.

    Its values are messages (`transcript.json`, `messages.jsonl`), or it is one object with a list of them and
    other folders beside have a file of its name. What else lies there tells of the run.
    """
    talk = is_talk(path)
    if not talk and not (path.suffix == ".json" and _holds_talk(path)):
        return False
    beside = _beside(path)
    if len(beside) > _BESIDE or any(is_talk(one) or _holds_talk(one) for one in beside):
        return False
    return talk or _is_one_of_many(path)


def _is_one_of_many(path: Path) -> bool:
    folder = path.absolute().parent
    try:
        return any((one / path.name).is_file() for one in folder.parent.iterdir() if one != folder)
    except OSError:  # a folder above that may not be looked into
        return False


def is_one_of_folder(path: Path) -> bool:
    """Tell whether a file is one run, and others beside it are one run each: together they are a batch.

    Each is one JSON object with a list of messages (or of ATIF's steps), not lines of such objects.
    """
    if not _is_one_run(path):
        return False
    return any(_is_one_run(one) for one in _beside(path))


def _beside(path: Path) -> list[Path]:
    """Return the JSON files of a file's folder but for itself, sorted."""
    folder = path.absolute().parent
    try:
        changed = folder.stat().st_mtime_ns
    except OSError:
        return []
    return [one for one in _json_files(folder, changed) if one.name != path.name]


@lru_cache(maxsize=16)
def _json_files(folder: Path, _changed: int) -> tuple[Path, ...]:
    """Return what is asked for with every row of every file of a folder, which may hold thousands."""
    return tuple(sorted(folder.glob("*.json*")))


def _is_one_run(path: Path) -> bool:
    return path.suffix == ".json" and (_holds_talk(path) or _holds_steps(path)) and not _has_lines(path)


def _has_lines(path: Path) -> bool:
    """Tell whether a file is JSON lines, whatever it is called: it goes on behind a first whole line."""
    try:
        with path.open("rb") as stream:
            first, second = stream.readline(), stream.readline(_TALK_HEAD)
        return bool(second.strip()) and isinstance(from_json(first.removeprefix(BOM)), dict)
    except (OSError, ValueError):
        return False


def _holds_steps(path: Path) -> bool:
    row = _begins(path)
    return row is not None and isinstance(row.get("steps"), list) and "schema_version" in row


def _holds_talk(path: Path) -> bool:
    row = _begins(path)
    if row is None:
        return False
    return any(isinstance(row.get(name), list) for name in OWN_LISTS) or talk_in(row) is not None


def _speaks(row: Mapping[str, Any]) -> bool:
    return bool({"content", "parts", "tool_calls"} & set(row)) and not {"messages", "message"} & set(row)


def _begins(path: Path) -> dict[str, Any] | None:
    """Return the first object of a JSON file or of JSON lines, as far as its beginning goes."""
    return next(iter(_rows_of(path)), None)


def _rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the first objects of a JSON file or of JSON lines."""
    if not path.name.endswith((".json", ".jsonl", ".ndjson")):
        return []
    try:
        about = path.stat()
    except OSError:
        return []
    return _beginning(path.absolute(), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def _beginning(path: Path, _size: int, _changed: int) -> list[dict[str, Any]]:
    """Return what `_rows_of` does, which is asked for with every row of a file."""
    try:
        with path.open("rb") as stream:
            return begun(stream.read(_TALK_HEAD).removeprefix(BOM))
    except OSError:
        return []


def stands_alone(path: Path) -> bool:
    """Tell whether what a file gives follows from its own bytes, and not from files beside it as well."""
    shared = path.name.endswith(_TRAJ) or is_split(path) or is_session(path)
    return not (shared or is_run_file(path) or is_one_of_folder(path))


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder and those inside it that may hold trajectories, sorted.

    Hidden ones are passed over, and so are those that another one stands for or is read with.

    Raises:
        OSError: The folder cannot be read.
    """
    inside = [one for one in sorted(folder.rglob("*")) if one.name.endswith(SUFFIXES) and one.is_file()]
    return [one for one in inside if not _hidden(one.relative_to(folder)) and not _stood_for(one)]


def _hidden(inside: Path) -> bool:
    return any(part.startswith(".") for part in inside.parts)


def _stood_for(path: Path) -> bool:
    if path.name == VERDICTS:
        return any(is_session(one) for one in path.parent.glob("*.jsonl"))
    return path.parent.name == SIMULATIONS and is_split(path.parent.parent / _RESULTS)
