"""Conversations in files of their own: one JSON document, an array, or a message a line.

A file that is one conversation is read together with what lies beside it, where its folder is the run's:
`run-7/transcript.json` with `run-7/result.json` becomes one trajectory, called by the folder, with every
field of the other objects that a line of `openai_chat` may have. Files are read so only where no other form
fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trace_assets.formats.documents import first_object, read_documents
from trace_assets.formats.openai_chat import begins_talk, holds_messages, read_conversation
from trace_assets.formats.problem import UNUSABLE, Problem, batch_named, batch_of, is_run_file, is_talk
from trace_assets.formats.reading import Reading
from trace_assets.formats.task_facts import facts_of
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import BOM, OF_MACHINE, Allowance
from trace_assets.untrusted.json_text import read_json

_BESIDE = 1 << 20
"""Bytes of a file beside a conversation that may say how it ended; larger ones are data."""
_FEW = 50
"""Files beside a conversation that are looked at."""


class ChatFileImporter:
    """Reads conversations that have files of their own."""

    name = "chat_files"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether the file begins with a message, or with an object that has a list of them."""
        first = first_object(head)
        return is_talk(path) or (begins_talk(first) and "content" in first) or holds_messages(first)

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield a task and a trajectory an episode, each task once."""
        reading = Reading(path)
        said: list[Any] = []
        for row in read_documents(path, allowance):
            if isinstance(row, Problem):
                yield row
            elif holds_messages(row[1]):
                yield from _told(path, reading, row[0], row[1], allowance)
            else:
                said.append(row[1])
        if said:
            yield from _told(path, reading, "", {"messages": said}, allowance)


def _told(
    path: Path, reading: Reading, position: str, row: dict[str, Any], allowance: Allowance
) -> Iterator[Task | Trajectory | Problem]:
    try:
        if is_run_file(path) and position in ("", "[0]"):
            row = {**_beside(path, allowance), **row}
            row["trajectory_id"] = f"{batch_of(path)}/{path.absolute().parent.name}"
            row.setdefault("target", f"chat_files:{batch_of(path)}")
        elif not position:
            row = {"id": path.stem, **row}
            row.setdefault("target", f"chat_files:{batch_named(path.absolute().parent.name)}")
        number = int(position.strip("[]")) + 1 if position.startswith("[") else 1
        trajectory, notice = read_conversation(path, number, row)
        facts = facts_of(row)
    except UNUSABLE as error:
        yield reading.left_out(error, position, "this conversation")
        return
    trajectory = trajectory.model_copy(update={"source": f"chat_files:{path.name}"})
    yield from reading.told(trajectory, notice, position, facts)


def _beside(path: Path, allowance: Allowance) -> dict[str, Any]:
    """Return the fields of the objects beside a conversation; of two that say one thing the first by name."""
    found: dict[str, Any] = {}
    for file in sorted(path.absolute().parent.glob("*.json"))[:_FEW]:
        if file.name == path.name or file.stat().st_size > _BESIDE:
            continue
        try:
            value = read_json(file.read_bytes().removeprefix(BOM), allowance.row)
        except (ValueError, OSError):
            continue
        if isinstance(value, dict):
            found = {**value, **found}
    return found
