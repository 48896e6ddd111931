"""Which formats can be read, and the one door to all of them.

To add a format: write a class with `name`, `sniff` and `read` (see `Importer`) in a module of its own and
name it in `IMPORTERS`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from pydantic_core import from_json

from trace_assets.errors import InputError
from trace_assets.formats.atif import AtifImporter
from trace_assets.formats.batch_files import files_in, is_run_file, unnamable
from trace_assets.formats.claude_code import ClaudeCodeImporter
from trace_assets.formats.documents import ChatFileImporter
from trace_assets.formats.envelope import begun
from trace_assets.formats.inspect_log import InspectImporter
from trace_assets.formats.openai_chat import OpenAIChatImporter
from trace_assets.formats.parquet import ParquetImporter
from trace_assets.formats.problem import Problem
from trace_assets.formats.spans.importer import SpanImporter
from trace_assets.formats.swe_agent import SweAgentImporter
from trace_assets.formats.tau2 import Tau2FolderImporter, Tau2Importer
from trace_assets.formats.tau_bench import TauBenchImporter
from trace_assets.formats.verdict_table import is_verdict_table, why_no_table
from trace_assets.formats.verifiers import VerifiersImporter
from trace_assets.records import Task, Trajectory
from trace_assets.untrusted.allowance import BOM, OF_MACHINE, Allowance, with_line_ends
from trace_assets.untrusted.json_text import other_encoding, whole_pairs

HEAD_BYTES = 65_536
"""How much of a file `sniff` is shown."""

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00")
"""How gzip, zstd, bzip2 and xz begin."""

OWN_FORM = (
    "What you write yourself is best JSON lines, one object an episode: 'messages' (OpenAI chat form), "
    "'reward' (0 to 1) or 'success', 'task_id', 'trial', 'target' (where the tasks live), "
    "'model' (who acted) and 'user_policy' (who played the user, if anybody did); such as "
    '{"messages": [{"role": "assistant", "tool_calls": [{"name": "find", "arguments": {"id": 1}}]}, '
    '{"role": "tool", "content": "..."}], "success": false} (docs/formats.md)'
)
"""How to write trajectories that come in no known form."""

Item = Task | Trajectory | Problem
"""What a file consists of, in the order in which it is met."""


class Importer(Protocol):
    """Reads one format. Holds no state between files."""

    @property
    def name(self) -> str:
        """The format's name, as in `--format` and at the start of `Trajectory.source`."""
        ...

    def sniff(self, path: Path, head: bytes) -> bool:
        """Tell whether a file is of this format, from its name and its first `HEAD_BYTES`."""
        ...

    def read(self, path: Path, allowance: Allowance = OF_MACHINE) -> Iterator[Item]:
        """Yield what the file holds; a task before its trajectories.

        Never raises for what the file contains, and takes no more memory than it is allowed, whatever that
        is: a row that cannot be read is a `Problem` with its place, and reading goes on with the next one.
        Raises `OSError` when the file cannot be opened.
        """
        ...


IMPORTERS: tuple[Importer, ...] = (
    Tau2Importer(),
    Tau2FolderImporter(),
    TauBenchImporter(),
    SweAgentImporter(),
    ClaudeCodeImporter(),
    InspectImporter(),
    AtifImporter(),
    VerifiersImporter(),
    SpanImporter(),
    OpenAIChatImporter(),
    ParquetImporter(),
    ChatFileImporter(),
)
"""Every format, in the order in which they are tried; the last one only where no other fits."""


def choose(path: Path, format: str = "auto") -> Importer | Problem:
    """Return the importer for a file, or why there is none.

    Raises:
        InputError: `format` is not known.
        OSError: The file cannot be opened.
    """
    named = [one for one in IMPORTERS if one.name == format]
    if format != "auto" and not named:
        names = ", ".join(["auto", *(one.name for one in IMPORTERS)])
        raise InputError(f"there is no format '{format}' to read trajectories from; choose one of {names}.")
    if (problem := unnamable(path)) is not None:
        return problem
    kind = path.stat().st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # opening a pipe waits until somebody writes to it
        message = "it is a pipe, socket or device and not a file; save what it gives in a file first"
        return Problem(path=str(path), message=message, kind="unreadable")
    with path.open("rb") as stream:
        head = whole_pairs(with_line_ends(stream.read(HEAD_BYTES).removeprefix(BOM)))
    fitting = named or [one for one in IMPORTERS[:-1] if one.sniff(path, head)]
    fitting = fitting or [one for one in IMPORTERS[-1:] if one.sniff(path, head)]
    if len(fitting) > 1:
        names = " and ".join(one.name for one in fitting)
        message = f"the file could be {names}; say which with --format {fitting[0].name}"
        return Problem(path=str(path), message=message, kind="unknown_format")
    return fitting[0] if fitting else _unknown(path, head)


def expand(paths: Iterable[str | Path], format: str = "auto") -> tuple[list[Path], list[Problem]]:
    """Return the files to be read, and a notice for each folder that holds others as well.

    Files that are named are taken as they are; of those in folders, the ones in a known form.

    Args:
        paths: Files and folders.
        format: A format's name, or `auto`.

    Raises:
        InputError: A folder cannot be read, or holds no trajectories; or `format` is not known.
    """
    files: list[Path] = []
    problems: list[Problem] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        try:
            found = files_in(path)
            fitting = [one for one in found if _fits(one, format)]
        except OSError as error:
            raise InputError(f"the folder {path} cannot be read ({error.strerror}).") from error
        if not fitting:
            said = f"none of its {len(found):,} files is in a known form"
            if found and isinstance(first := choose(found[0], format), Problem):
                said += f" ({found[0].relative_to(path)}: {first.message.partition(', which is none')[0]})"
            raise InputError(f"the folder {path} holds no trajectories: {said}. {OWN_FORM}.")
        runs = {one.parent for one in fitting if is_run_file(one)}
        rest = set(found) - set(fitting)
        rest -= {one for one in rest if one.parent in runs and one.suffix == ".json"}
        passed_over = [one for one in found if one in rest]
        if passed_over:
            message = (
                f"{len(passed_over):,} of its {len(found):,} files hold no trajectories in a known form, "
            )
            message += f"such as {passed_over[0].relative_to(path)}; they are passed over"
            problems.append(
                Problem(path=str(path), message=message, severity="notice", kind="unknown_format")
            )
        files += fitting
        files += [one for one in sorted(path.rglob("*.[ct]sv")) if format == "auto" and is_verdict_table(one)]
    return list(dict.fromkeys(files)), problems


def _fits(path: Path, format: str) -> bool:
    chosen = choose(path)
    choose(path, format)  # that the name is known
    return not isinstance(chosen, Problem) and format in ("auto", chosen.name)


def _unknown(file: Path, head: bytes) -> Problem:
    """Say what an unreadable file is instead of what it should be."""
    formats = ", ".join(importer.name for importer in IMPORTERS)
    position = ""
    if file.suffix.lower() in (".csv", ".tsv") and head.strip():
        message = f"{why_no_table(file)}. {OWN_FORM}"
        return Problem(path=str(file), message=message, kind="unknown_format")
    if not head.strip():
        found = "the file is empty"
    elif head.startswith(_COMPRESSED):
        found = "the file is compressed (unpack it first)"
    elif (other := other_encoding(head)) or b"\0" in head[:4]:
        found = f"the file is not UTF-8 text{other}"
    else:
        try:
            value = from_json(head, allow_partial=True)
        except ValueError as error:
            reason, _, where = str(error).partition(" at ")
            found, position = f"the file is not JSON ({reason})", where
        else:
            if isinstance(value, dict):
                keys = ", ".join(f"'{key}'" for key in list(value)[:5])
                lines = head.count(b"\n") > 1 and len(begun(head)) > 1
                found = "the file's first line" if lines else "the file"
                found += f" is a JSON object with the keys {keys or 'none'}"
            else:
                found = f"the file is a JSON {type(value).__name__}"
    message = f"{found}, which is none of the formats {formats}. {OWN_FORM}"
    return Problem(path=str(file), position=position, message=message, kind="unknown_format")
