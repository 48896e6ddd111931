"""All that can be read of a home, to be compared with what it was before a bit flipped."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from trace_assets.diagnosis.llm.budget import read_calls, totals
from trace_assets.environments.contract.description import read_description
from trace_assets.errors import InputError
from trace_assets.records import TABLES, Adapter, BaseCheckpoint
from trace_assets.resources.inbox import batch_store, batches
from trace_assets.resources.policy import base_folder, files_in, whole_adapter, whole_router
from trace_assets.rollouts.runner import Journal
from trace_assets.store.lines import unsealed
from trace_assets.store.warehouse import Warehouse
from trace_assets.study import Study
from trace_assets.workflows.ingested_files import IngestedFiles

REFUSED = "refused"
"""What stands for a reading that ended in a sentence."""
Readings = Mapping[str, str]


def kept_files(home: Path) -> list[Path]:
    """Return the files whose content is a result, or is what a result is made from."""
    found = [
        *home.glob("tables/*/*.parquet"),
        *home.glob("inbox/*/*/*.parquet"),
        *home.glob("inbox/*/version"),
        *home.glob("inbox/.files.json"),
        *home.glob("models/base/*/*"),
        *home.glob("models/adapters/*/*"),
        *home.glob("models/router/*"),
        *home.glob("descriptions/*.json"),
        *home.glob("journals/rollouts/*/*.jsonl"),
        *home.glob("answers/spent.jsonl"),
        *home.glob("answers/??/*.json"),
        *home.glob("manifest.jsonl"),
        *home.glob("inbox/*/manifest.jsonl"),
    ]
    return sorted(file for file in found if file.is_file() and file.stat().st_size)


def readings(study: Study, source: Path | None = None, targets: Sequence[str] = ()) -> tuple[Readings, bool]:
    """Read everything, and tell whether something was said about damage on the way.

    Args:
        study: The study.
        source: A file that was ingested.
        targets: Those of which something is known.
    """
    said: list[logging.LogRecord] = []
    listener = logging.Handler()
    listener.emit = said.append  # type: ignore[method-assign]
    logging.getLogger("trace_assets").addHandler(listener)
    try:
        return _read(study, source, targets), bool(said)
    finally:
        logging.getLogger("trace_assets").removeHandler(listener)


def differing(now: Readings, before: Readings) -> list[str]:
    """Return what reads as something else, and is not refused."""
    return sorted(name for name, value in before.items() if now.get(name, "") not in (value, REFUSED))


def _read(study: Study, source: Path | None, targets: Sequence[str]) -> Readings:
    home, found = study.home, dict[str, str]()

    def note(name: str, read: Callable[[], object]) -> None:
        try:
            found[name] = hashlib.sha256(repr(read()).encode()).hexdigest()
        except InputError:
            found[name] = REFUSED

    for record in TABLES:
        for part in study.store.partitions(record):
            note(f"{record.table}/{part}", lambda r=record, p=part: _rows(study.store.frame(r, p)))
    note("SQL", lambda: _counted(study))
    for batch in batches(study):
        store = batch_store(home.inbox / batch)
        for record in TABLES:
            note(f"inbox {batch}/{record.table}", lambda r=record, s=store: _rows(s.frame(r)))
    if source is not None:
        note("known", lambda: IngestedFiles(home.inbox, "auto").known(source) or _unknown())
    note("base", lambda: [_contents(base_folder(study)) for _ in study.store.read(BaseCheckpoint)])
    note("adapters", lambda: [_contents(whole_adapter(study, row)) for row in study.store.read(Adapter)])
    note("router", lambda: _contents(whole_router(study)))
    for target in targets:
        note(f"description {target}", lambda t=target: read_description(home.descriptions, t))
    for folder in home.journals.glob("rollouts/*"):
        note(f"journal {folder.name}", lambda f=folder: sorted(Journal(f).load().items()))
    note("spent", lambda: totals(read_calls(home.answers)))
    for file in home.answers.glob("??/*.json"):
        note(f"answer {file.name}", lambda f=file: _answer(f))
    return found


def _unknown() -> object:
    raise InputError("it is read again")


def _rows(frame: pl.DataFrame) -> list[tuple[object, ...]]:
    return [tuple(frame.columns), *frame.rows()]


def _counted(study: Study) -> object:
    with Warehouse(study.home) as warehouse:
        return warehouse.query("SELECT count(*), sum(hash(t)) FROM triage t").rows()


def _contents(folder: Path) -> list[tuple[str, str]]:
    """Return what decides the content of a model: how it was trained, and its curve, stand in tables."""
    files = [file for file in files_in(folder) if not file.name.startswith("training")]
    return [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]


def _answer(file: Path) -> object:
    text = unsealed(file.read_bytes().rstrip(b"\n"))
    if text is None:
        raise InputError("it is asked again")
    return json.loads(text)
