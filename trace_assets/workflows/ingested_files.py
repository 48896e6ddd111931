"""What is remembered of ingested files, beside the batches in the inbox.

Which they were, by their bytes: the same file again is told apart without parsing it. And what there was to
say of them, for whoever looks later; beside trajectories that is their target's policy and its tools.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from trace_assets.code_versions import code_version
from trace_assets.environments.contract.description import (
    TargetDescription,
    read_description,
    tools_in,
    write_description,
)
from trace_assets.errors import InputError
from trace_assets.formats.batch_files import stands_alone
from trace_assets.formats.load import Loaded
from trace_assets.formats.problem import Problem, ProblemLog
from trace_assets.formats.tau2_file import Tau2File
from trace_assets.records import Record, Task
from trace_assets.resources.inbox import batch_problem, inbox, laid_version
from trace_assets.store.files import make_folder, replacing_file
from trace_assets.store.lines import sealed, unsealed
from trace_assets.study import Study
from trace_assets.workflows.watched_folder import file_digest, signature

_KNOWN = ".files.json"
HEAD_BYTES = 4 << 20
"""Where in a file to look: `info` stands before the simulations."""
_NOTED = "ingested: "


class IngestedFile(Record):
    """What a file gave when it was ingested."""

    batches: dict[str, int]
    """Batch to its number of trajectories."""
    messages: dict[str, int]
    """Batch to its number of messages."""
    versions: dict[str, str]
    """Batch to the content version that was laid into the inbox."""
    problems: tuple[Problem, ...] = ()
    """Examples of what was wrong with it, to be told again."""


class IngestedFiles:
    """The list of ingested files, beside the batches in the inbox.

    A file is known when its bytes, its name, the format asked for and the importers' code are the same, and
    the batches it gave still lie in the inbox as they were laid, to the last byte.
    """

    def __init__(self, inbox: Path, format: str) -> None:
        self._inbox, self._format = inbox, format
        self._reader = code_version("importers")
        self._found: dict[Path, tuple[str, object]] = {}
        try:
            known = json.loads((inbox / _KNOWN).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            known = None
        self._known: dict[str, str] = known if isinstance(known, dict) else {}

    def known(self, path: Path) -> IngestedFile | None:
        """Return what a file gave; None when it must be read."""
        if not path.is_file() or not stands_alone(path):
            return None
        try:
            key = self._key(path)  # before the file is read: it may be written to meanwhile
            text = unsealed(self._known.get(key, "").encode())
            before = IngestedFile.model_validate_json(text or "")
        except (ValidationError, OSError, AttributeError):
            return None
        for batch, version in before.versions.items():
            folder = self._inbox / batch
            if laid_version(folder) != version or batch_problem(folder):
                return None
        return before

    def had_bytes(self, path: Path) -> bool:
        """Tell whether a file of this name and these bytes was ingested, by whichever version's reading."""
        try:
            key = self._key(path)
        except OSError:
            return False
        return any(one.startswith(key.removesuffix(self._reader)) for one in self._known)

    def remember(self, inbox: Path, read: Loaded, problems: ProblemLog) -> None:
        """Add the files that nobody touched meanwhile and from which all came into batches of their own."""
        for name, batches in read.gave.items():
            shared = any(
                batch in other for key, other in read.gave.items() if key != name for batch in batches
            )
            # What was judged anew is news once.
            own = [one for one in problems if one.path == name and one.kind != "judged_anew"]
            # What was held by others, or too large for the memory of that day, may be taken another time.
            if shared or not batches or any(problem.kind in ("held", "too_large") for problem in own):
                continue
            if not self._is_untouched(Path(name)):
                continue
            before = IngestedFile(
                batches={batch: read.batches[batch].n_trajectories for batch in batches},
                messages={batch: read.batches[batch].n_messages for batch in batches},
                versions={batch: laid_version(inbox / batch) for batch in batches},
                problems=tuple(own[:100]),
            )
            self._known[self._key(Path(name))] = sealed(before.model_dump_json()).decode().rstrip("\n")
        inbox.mkdir(parents=True, exist_ok=True)
        with replacing_file(inbox / _KNOWN) as partial:
            partial.write_text(json.dumps(self._known), encoding="utf-8")

    def _key(self, path: Path) -> str:
        if path not in self._found:
            state = signature(path.stat())
            self._found[path] = file_digest(path), state
        return f"{self._found[path][0]} {path.name} {self._format} {self._reader}"

    def _is_untouched(self, path: Path) -> bool:
        """Tell whether a file is the one that was looked at before it was read, to the last byte."""
        try:
            return path in self._found and self._found[path][1] == signature(path.stat())
        except OSError:
            return False


# What there was to say of them, a line a file or folder as it was named: what was left out of it, what
# another batch held, what contradicts. It counts until the same is ingested again, or what came of it is no
# longer what lies in the inbox.


_TOLD = ".told.json"
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
        with replacing_file(inbox / _TOLD) as partial:
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
        found = json.loads((inbox / _TOLD).read_text(encoding="utf-8"))
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


def keep_notes(folder: Path, paths: Sequence[Path]) -> list[str]:
    """Keep what tau2 simulation files say of their targets, unless a person or an earlier file has said it.

    Args:
        folder: Where descriptions of targets lie.
        paths: Files of any form; those of other forms say nothing.

    Returns:
        The targets of which something new is known.
    """
    told = []
    for path in paths:
        noted = noted_in(path)
        if noted is None:
            continue
        known = read_description(folder, noted.target)
        more: dict[str, Any] = {}
        if noted.policy and not known.policy:
            more |= {"policy": noted.policy, "policy_from": noted.policy_from}
        if noted.tools.agent and not known.tools.agent:
            more |= {"tools": noted.tools, "tools_from": noted.tools_from}
        if more and write_description(folder, known.model_copy(update=more)):
            told.append(noted.target)
    return told


def keep_policies(study: Study, given: Iterable[str]) -> None:
    """Keep the policy that all tasks of a target tell alike, unless a person or an earlier file has said it.

    Tasks hold what is expected too, so whoever labels never opens them: the policy, which the agent was
    given, has to lie beside them.

    Args:
        study: With the inbox.
        given: Batches that have just come in.
    """
    told: dict[str, set[str]] = defaultdict(set)
    of: dict[str, str] = {}
    for batch in given:
        tasks = inbox(study, batch).frame(Task).select("target", "domain_policy").unique()
        for target, policy in tasks.iter_rows():
            told[target].add((policy or "").strip())
            of[target] = batch
    for target, policies in sorted(told.items()):
        known = read_description(study.home.descriptions, target)
        if len(policies) != 1 or not (policy := next(iter(policies))) or known.policy:
            continue
        more = {"policy": policy, "policy_from": _NOTED + of[target]}
        write_description(study.home.descriptions, known.model_copy(update=more))


def noted_in(path: Path) -> TargetDescription | None:
    """Return what the head of a tau2 simulation file says of its target, None for other files.

    Of an agent that works alone the policy is left out: the file holds the one of agents that have a user.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES).partition(b'"simulations"')[0]
        content = from_json(head, allow_partial=True)
        file = Tau2File.of(path, {**content, "tasks": [], "simulations": []})
        about = content["info"]["environment_info"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    policy, listed = about.get("policy"), about.get("tool_defs")
    description = TargetDescription(target=file.target)
    if isinstance(policy, str) and policy and not file.solo:
        description = description.model_copy(update={"policy": policy, "policy_from": _NOTED + path.name})
    if listed:
        try:
            tools = tools_in(listed, path.name)
        except InputError:
            return description
        description = description.model_copy(update={"tools": tools, "tools_from": _NOTED + path.name})
    return description
