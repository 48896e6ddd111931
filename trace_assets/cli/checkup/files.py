"""The files of a home: whether they are what was written, to the last byte where that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

from trace_assets.assets.item_files import READ_TO_THE_END, set_aside
from trace_assets.assets.storage_faults import damaged_database, way_back
from trace_assets.cli.checkup.finding import EVERY, Finding
from trace_assets.errors import InputError
from trace_assets.records import TABLES, BaseCheckpoint
from trace_assets.stages.ingest import batches
from trace_assets.stages.model_files import whole_base
from trace_assets.stages.task_inbox import FOLDER, LAID_AGAIN
from trace_assets.store.lines import read_lines, unsealed
from trace_assets.store.manifest import MANIFEST, Manifest, manifest_of
from trace_assets.study import Study

SYNC, ACCEPT = "trace sync", "trace doctor --accept-losses"
SHOWN = 5
_HISTORY = {record.table for record in TABLES if not record.restored_by}


def files(study: Study, *, deep: bool) -> list[Finding]:
    """Look at everything that a manifest lists, and at journals and databases.

    Args:
        study: Whose home.
        deep: Read every file to its end; otherwise half a gigabyte of the smallest, and of the others sizes
            and ends.
    """
    manifest = manifest_of(study.home.path)
    known = manifest.entries()
    quick = manifest.problems(known, READ_TO_THE_END)
    found = quick | (manifest.problems(known) if deep else {})
    size = sum(entry.size for entry in known.values())
    hidden = bool(found.keys() - quick.keys())  # from a sync, which reads as much as a quick look does
    findings = [_listed(found, hidden, n=len(known), size=size, deep=deep)]
    if altered := manifest.altered_lines():
        detail = f"{manifest.file} has {altered} altered lines: their files are taken as they are"
        findings.append(Finding("manifest", "degraded", detail, fix=SYNC))
    if unlisted := _unlisted(study, manifest):
        detail = (
            f"{unlisted:,} files have no content hash yet (an earlier version made them); the next sync "
            "takes them as they are"
        )
        findings.append(Finding("content hashes", "degraded", detail, fix=SYNC))
    findings += _inbox(study, deep)
    if deep:
        findings += [*_base(study), *_journals(study), *_history(study)]
    return findings


def accept_losses(study: Study) -> list[str]:
    """Strike lost files out of the manifest, and move altered ones to `damaged/`; return their names.

    What can be made again is due afterwards; of history the rest stands.
    """
    manifest = manifest_of(study.home.path)
    found = sorted(manifest.problems(manifest.entries()))
    set_aside(study, manifest, found)
    return found


def _listed(found: dict[str, str], hidden: bool, *, n: int, size: int, deep: bool) -> Finding:
    if not found:
        part = (
            "; the largest by size and ends, whole by --deep" if size > READ_TO_THE_END and not deep else ""
        )
        detail = f"{n:,} files of {size / 2**20:,.1f} MiB are what was written{part}"
        return Finding("files", "ok", detail, EVERY)
    named = "; ".join(f"{name} {said}" for name, said in sorted(found.items())[:SHOWN])
    more = f"; and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    lost_history = [name for name in found if name.startswith("tables/") and name.split("/")[1] in _HISTORY]
    lost_tasks = [name for name in found if name.startswith(f"{FOLDER}/")]
    fixes = [SYNC] if len(lost_history) + len(lost_tasks) < len(found) else []
    if lost_history or hidden:
        fixes.insert(0, f"{ACCEPT}, to go on without what nothing makes again")
    if lost_tasks:
        fixes.insert(0, f"{LAID_AGAIN}, or {ACCEPT}, to go on without")
    detail = f"{len(found):,} of {n:,} are not what was written: {named}{more}"
    return Finding("files", "missing", detail, EVERY, "; then ".join(fixes))


def _unlisted(study: Study, manifest: Manifest) -> int:
    known = manifest.entries()
    return sum(manifest.name(file) not in known for file in study.home.tables.glob("*/*.parquet"))


def _inbox(study: Study, deep: bool) -> list[Finding]:
    """Look at the batches that were ingested: what was made of them can be made again from here."""
    found: list[str] = []
    for batch in batches(study):
        folder = study.home.inbox / batch
        manifest = Manifest(folder / MANIFEST, folder)
        said = manifest.problems(manifest.entries(), None if deep else READ_TO_THE_END)
        found += [f"{batch}/{name} {words}" for name, words in sorted(said.items())]
        if manifest.altered_lines():
            found.append(f"{batch}/{MANIFEST} was altered")
    if not found:
        return []
    detail = f"{len(found):,} files are not what was ingested: {'; '.join(found[:SHOWN])}"
    return [Finding("inbox", "missing", detail, EVERY, "trace ingest, with the files that they came from")]


def _base(study: Study) -> list[Finding]:
    try:
        for row in study.store.read(BaseCheckpoint):
            whole_base(study, row)
    except InputError as error:
        return [Finding("base model", "missing", str(error), EVERY, SYNC)]
    return []


def _journals(study: Study) -> list[Finding]:
    home, said = study.home, list[str]()
    for file in [*home.journals.rglob("*.jsonl"), home.answers / "spent.jsonl"]:
        if altered := read_lines(file).altered:
            said.append(f"{file.relative_to(home.path)} line {', '.join(map(str, altered))}")
    bad = [file for file in home.answers.glob("??/*.json") if not _is_answer(file)]
    said += [f"{file.relative_to(home.path)}" for file in bad]
    if not said:
        return [Finding("journals", "ok", "played episodes and paid answers are as they were written")]
    detail = f"altered: {'; '.join(said[:SHOWN])}; what was in them is played or asked again when needed"
    return [Finding("journals", "degraded", detail)]


def _is_answer(file: Path) -> bool:
    try:
        text = unsealed(file.read_bytes().rstrip(b"\n"))
        return text is not None and isinstance(json.loads(text), dict)
    except (OSError, ValueError):
        return False


def _history(study: Study) -> list[Finding]:
    file = damaged_database(study.home.dagster)
    if file is None:
        return []
    return [Finding("history", "missing", f"{file} is damaged", EVERY, way_back(study.home.path))]
