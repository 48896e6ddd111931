"""Which files were ingested, by their bytes: the same file again is told apart without parsing it."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from trace_assets.importers.batch import stands_alone
from trace_assets.importers.load import Loaded
from trace_assets.importers.problem import Problem, ProblemLog
from trace_assets.records import Record
from trace_assets.sources import source_version
from trace_assets.stages.inbox_files import batch_problem, laid_version
from trace_assets.stages.watched_folder import file_digest
from trace_assets.store.home import replacing_file
from trace_assets.store.lines import sealed, unsealed

_FILE = ".files.json"


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
        self._reader = source_version(
            *("importers", "records.message", "records.trajectory", "records.verdict"),
            *("untrusted.json_text", "untrusted.lines", "untrusted.parquet_rows"),
        )
        self._found: dict[Path, str] = {}
        try:
            self._known: dict[str, str] = json.loads((inbox / _FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._known = {}

    def known(self, path: Path) -> IngestedFile | None:
        """Return what a file gave; None when it must be read."""
        if not self._known or not path.is_file() or not stands_alone(path):
            return None
        try:
            text = unsealed(self._known.get(self._key(path), "").encode())
            before = IngestedFile.model_validate_json(text or "")
        except (ValidationError, OSError, AttributeError):
            return None
        for batch, version in before.versions.items():
            folder = self._inbox / batch
            if laid_version(folder) != version or batch_problem(folder):
                return None
        return before

    def remember(self, inbox: Path, read: Loaded, problems: ProblemLog) -> None:
        """Add the files of a reading from which all came into batches of their own."""
        for name, batches in read.gave.items():
            shared = any(
                batch in other for key, other in read.gave.items() if key != name for batch in batches
            )
            own = [problem for problem in problems if problem.path == name]
            # What was held by others, or too large for the memory of that day, may be taken another time.
            if shared or not batches or any(problem.kind in ("held", "too_large") for problem in own):
                continue
            before = IngestedFile(
                batches={batch: read.batches[batch].n_trajectories for batch in batches},
                messages={batch: read.batches[batch].n_messages for batch in batches},
                versions={batch: laid_version(inbox / batch) for batch in batches},
                problems=tuple(own[:100]),
            )
            self._known[self._key(Path(name))] = sealed(before.model_dump_json()).decode().rstrip("\n")
        inbox.mkdir(parents=True, exist_ok=True)
        with replacing_file(inbox / _FILE) as partial:
            partial.write_text(json.dumps(self._known), encoding="utf-8")

    def _key(self, path: Path) -> str:
        if path not in self._found:
            self._found[path] = file_digest(path)
        return f"{self._found[path]} {path.name} {self._format} {self._reader}"
