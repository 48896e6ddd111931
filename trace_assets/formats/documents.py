"""JSON values of a file in whichever way it lists them: an array, JSON lines, or one document.

However long the file is, one value at a time is held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from trace_assets.formats.batch_files import batch_named, batch_of, is_one_of_folder, is_run_file, is_talk
from trace_assets.formats.envelope import ABOUT_RUN, begun, by_run, is_entry, is_log, opened, speaks, talk_in
from trace_assets.formats.fields import dict_of
from trace_assets.formats.json_array import Array, find_array, find_elements, settle
from trace_assets.formats.openai_chat import (
    holds_messages,
    not_json,
    read_conversation,
    read_rows,
)
from trace_assets.formats.problem import UNUSABLE, Problem, Reading
from trace_assets.formats.task_facts import facts_of
from trace_assets.formats.unread import LEFT_OUT, kind_of, left_of, texts_in
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import BOM, OF_MACHINE, Allowance, TooLarge, open_lines
from trace_assets.untrusted.json_text import longest, read_json, too_long

_HEAD = 1 << 16


def read_documents(
    path: Path, allowance: Allowance, many: Sequence[str] = ()
) -> Iterator[tuple[str, Any] | Problem]:
    """Yield (place, value): an array's elements, each line of JSON lines, or the file's one document.

    What is damaged is told of, and the values before and behind it are given.

    Args:
        path: The file.
        allowance: Memory that a value may take.
        many: Keys of a document's arrays to be taken for the file: `{"data": [...]}` gives the elements.

    Raises:
        OSError: The file cannot be read.
    """
    most = longest(allowance.row)
    with open_lines(path) as stream:
        head = stream.read(_HEAD).removeprefix(BOM).lstrip()
        stream.seek(0)
        first = stream.readline(most).removeprefix(BOM).strip() if head[:1] == b"{" else b""
        second = stream.read(_HEAD).strip()
    if head[:1] == b"[":
        array = find_elements(path, allowance)
        assert array is not None
        yield from _elements(path, array, "", allowance)
        return
    for key in many:
        known = b'"' + key.encode() + b'"' in head
        found = find_array(path, key, allowance) if known and second[:1] != b"{" else None
        if found is not None:
            yield from _elements(path, found, key, allowance)
            return
    lines = bool(second) and _is_object(first, allowance)
    del first, second
    if lines:
        yield from (
            row if isinstance(row, Problem) else (f"line {row[0]}", row[1])
            for row in read_rows(path, allowance)
        )
        return
    document = read_document(path, allowance)
    yield document if isinstance(document, Problem) else ("", document)


def read_document(path: Path, allowance: Allowance) -> dict[str, Any] | Problem:
    """Return the one object that a file is, or why it is none.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        size = path.stat().st_size
        if size > longest(allowance.row):
            raise too_long(size, allowance.row)
        value = read_json(path.read_bytes().removeprefix(BOM), allowance.row)
    except TooLarge as error:
        return Problem(path=str(path), message=f"{error}; write one trajectory a line", kind="too_large")
    except ValueError as error:
        message = f"the file breaks off or is damaged ({error}); nothing can be read"
        return Problem(path=str(path), message=message, kind="broken_off")
    if not isinstance(value, dict):
        return Problem(path=str(path), message=f"it is a JSON {type(value).__name__}, not an object")
    return value


def outermost(head: bytes) -> Any:
    """Return the value that a file begins with, as far as its beginning goes; None when it is no JSON.

    >>> outermost(b'[{"traj": [1, 2'), outermost(b"# Readme")
    ([{'traj': [1, 2]}], None)
    """
    text = head.removeprefix(BOM).lstrip()
    for part in (text, text.partition(b"\n")[0]):
        try:
            return from_json(part, allow_partial=True)
        except ValueError:
            continue
    return None


def first_object(head: bytes) -> dict[str, Any]:
    """Return the first object that a file lists, as far as its beginning goes; empty when it lists none."""
    value = outermost(head)
    if isinstance(value, list):
        value = value[0] if value else None
    return dict_of(value)


def _is_object(line: bytes, allowance: Allowance) -> bool:
    try:
        return isinstance(read_json(line, allowance.row), dict)
    except ValueError:
        return False


def _elements(
    path: Path, array: Array, name: str, allowance: Allowance
) -> Iterator[tuple[str, Any] | Problem]:
    for settled in settle(path, array.spans, allowance):
        position = f"{name}[{settled.span.number}]"
        if not settled.reason:
            yield position, settled.value
        elif settled.broken_off:
            before = settled.span.number
            message = f"the file breaks off or is damaged here ({settled.reason}); "
            message += f"the {before} elements before it are read" if before else "nothing can be read"
            yield Problem(path=str(path), position=position, message=message, kind="broken_off")
        else:
            message = f"{not_json(settled.reason)}; this element is left out"
            kind = "too_large" if settled.large else "left_out"
            yield Problem.model_validate(
                {"path": str(path), "position": position, "message": message, "kind": kind}
            )
    if not array.whole:
        message = "there are more elements than can be remembered within the memory that reading may take "
        message += "(ingest.memory_gib); the others are left out"
        position = f"{name}[{len(array.spans)}]"
        yield Problem(path=str(path), position=position, message=message, kind="too_large")


# A file that is one conversation is read together with what lies beside it, where its folder is the run's:
# `run-7/transcript.json` with `run-7/result.json` becomes one trajectory, called by the folder, with every
# field of the other objects that a line of `openai_chat` may have. Files are read so only where no other form
# fits.

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
        known = is_talk(path) or holds_messages(first) or talk_in(first) is not None
        known = known or ("role" in first and "content" in first) or named_runs(first) is not None
        return known or is_log(begun(head.removeprefix(BOM)))

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Task | Trajectory | Problem]:
        """Yield a task and a trajectory an episode, each task once."""
        reading = Reading(path)
        said: list[Any] = []
        for row in read_documents(path, allowance):
            if isinstance(row, Problem):
                yield row
                continue
            whole = _whole(dict_of(row[1]))
            named = named_runs(row[1]) if whole is None and not row[0] else None
            for name, run in (named or {}).items():
                own = _whole({"id": name, **dict_of(run)}) or {"id": name}
                yield from _told(path, reading, f"key {name}", own, allowance)
            if named is not None:
                continue
            if whole is None:
                said.append(row[1])
            else:
                yield from _told(path, reading, row[0], whole, allowance)
        if (runs := by_run(said)) is not None:
            for name, rows in runs:
                own = {"trajectory_id": f"{batch_of(path)}/{name}", "id": name, **_gathered(rows)}
                yield from _told(path, reading, f"run {name}", own, allowance)
        elif said:
            yield from _told(path, reading, "", _gathered(said), allowance)


def named_runs(document: Any) -> Mapping[str, Any] | None:
    """Return a document of which each value is a run, called by its key; None where it is another.

    >>> run = {"steps": [{"action": "look", "observation": "a room"}]}
    >>> named_runs({"7": run, "8": run}) is not None, named_runs({"7": run, "n": 2}), named_runs(run)
    (True, None, None)
    """
    rows = dict_of(document)
    if len(rows) < _FEWEST_RUNS or not all(isinstance(one, Mapping) for one in rows.values()):
        return None
    first = next(iter(rows.values()))
    return rows if holds_messages(first) or talk_in(first) is not None else None


_FEWEST_RUNS = 2
"""Of one object in another nothing says that the key is a run's name."""


def _whole(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return an object that is a run, with its messages where they are looked for; None for a part of one."""
    if not holds_messages(row):
        found = None if is_entry(row) else opened(row)
        if found is None:
            return None
        row = found
    return _with_model(row, row.get("messages") or ())


def _gathered(rows: Sequence[Any]) -> dict[str, Any]:
    """Return a run's messages, and what its other entries say of it: its model, how it ended."""
    messages = [row for row in rows if speaks(row)]
    if not messages:  # whoever reads it says why it is none
        return {"messages": list(rows)}
    about: dict[str, Any] = {}
    for row in rows:
        if isinstance(row, Mapping):
            about.update({name: row[name] for name in ABOUT_RUN if row.get(name) is not None})
            about.update(_how_claude_ended(row))
    others, last = [row for row in rows if not speaks(row)], _last_answer(rows)
    said = texts_in(messages) if others else ()  # some logs say at the end again what was answered
    if last and last not in texts_in(row for row in messages if not _ended(row)):
        messages.append({"role": "assistant", "content": last})
    if left := Counter(kind_of(row) for row in others if left_of(row, elsewhere=said)):
        about["metadata"] = {LEFT_OUT: dict(sorted(left.items()))}
    return _with_model({**about, "messages": messages}, rows)


def _ended(row: Any) -> bool:
    """Tell whether an entry says how a run of Claude's Agent SDK ended."""
    about = dict_of(row)
    return about.get("type") == "result" and isinstance(about.get("subtype"), str) and "num_turns" in about


def _last_answer(rows: Sequence[Any]) -> str:
    """Return what such an entry gives as the run's answer: a log that broke may lack the message itself."""
    ends = (row for row in reversed(rows) if _ended(row) and not row.get("is_error"))
    given = next((row.get("result") for row in ends), None)
    return given if isinstance(given, str) else ""


def _how_claude_ended(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a run of Claude's Agent SDK ended, if this is the entry that says it."""
    if not _ended(row):
        return {}
    if row["subtype"] == "error_during_execution":
        return {"error": str(row.get("result") or row["subtype"])}
    return {"stop_reason": "max_turns" if row["subtype"] == "error_max_turns" else "end_turn"}


def _with_model(row: dict[str, Any], entries: Sequence[Any]) -> dict[str, Any]:
    """Return a run with the model that most of its entries name, where it says none itself."""
    if any(row.get(name) for name in ("model", "policy", "model_name")):
        return row
    named = Counter(name for one in entries if (name := _model_of(one)))
    return {**row, "model": named.most_common(1)[0][0]} if named else row


def _model_of(one: Any) -> str:
    about = dict_of(one)
    inner = [dict_of(about.get(name)) for name in ("message", "payload", "data", "kwargs")]
    inner += [dict_of(each.get("response_metadata")) for each in (about, *inner)]
    for each in (about, *inner):
        for name in ("model", "model_name", "model_id", "modelId"):
            if isinstance(each.get(name), str) and each[name]:
                return str(each[name])
    return ""


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
            if is_one_of_folder(path):  # trials of a task may have one id
                row.setdefault("trajectory_id", f"{batch_of(path)}/{path.stem}")
            if not any(row.get(name) for name in ("target", "env", "environment")):
                row["target"] = f"chat_files:{batch_named(path.absolute().parent.name)}"
        number = int(position.strip("[]")) + 1 if position.startswith("[") else 1
        if position.startswith("line "):
            number = int(position.removeprefix("line "))
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
