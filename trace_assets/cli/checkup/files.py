"""The files of a home: whether they are what was written, to the last byte where that is asked for."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

from trace_assets.cli.checkup.machine import EVERY, Finding
from trace_assets.errors import InputError
from trace_assets.formats.problem import counted_kinds
from trace_assets.orchestration.asset_files import READ_TO_THE_END, damaged_database, set_aside, way_back
from trace_assets.orchestration.recovery import half_made, unfinished_work
from trace_assets.records import TABLES, BaseCheckpoint
from trace_assets.resources.inbox import FOLDER, LAID_AGAIN, batches
from trace_assets.resources.policy import whole_base
from trace_assets.store import Home
from trace_assets.store.files import exchange_works, nearest
from trace_assets.store.item_locks import due_items
from trace_assets.store.lines import read_lines, unsealed
from trace_assets.store.locks import exclusive, holder, is_held, sync_lock
from trace_assets.store.manifest import MANIFEST, Manifest, manifest_of
from trace_assets.store.presence import elsewhere, living
from trace_assets.study import Study
from trace_assets.workflows.doubles import Double, counted_words
from trace_assets.workflows.ingest import left_out_of, stored_doubles

SYNC_MENDS, ACCEPT = "trace sync", "trace doctor --accept-losses"
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
    if said := manifest.lost():
        return [Finding("files", "missing", said, EVERY, ACCEPT)]
    known = manifest.entries()
    quick = manifest.problems(known, READ_TO_THE_END)
    found = quick | (manifest.problems(known) if deep else {})
    size = sum(entry.size for entry in known.values())
    hidden = bool(found.keys() - quick.keys())  # from a sync, which reads as much as a quick look does
    findings = [_listed(found, hidden, n=len(known), size=size, deep=deep)]
    if altered := manifest.altered_lines():
        detail = f"{manifest.file} has {altered} altered lines: their files are taken as they are"
        findings.append(Finding("manifest", "degraded", detail, fix=SYNC_MENDS))
    if unlisted := _unlisted(study, manifest):
        detail = (
            f"{unlisted:,} files have no content hash yet (an earlier version made them); the next sync "
            "takes them as they are"
        )
        findings.append(Finding("content hashes", "degraded", detail, fix=SYNC_MENDS))
    findings += _inbox(study, deep)
    findings += _told(study)
    findings += _doubles(study)
    if deep:
        findings += [*_base(study), *_journals(study), *_history(study)]
    return findings


def accept_losses(study: Study) -> list[str]:
    """Strike lost files out of the manifest, and move altered ones to `damaged/`; return their names.

    What can be made again is due afterwards; of history the rest stands. Where the manifest itself is lost,
    the files that are there are taken as they are.
    """
    manifest = manifest_of(study.home.path)
    if manifest.begin_anew():
        return [MANIFEST]
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
    fixes = [SYNC_MENDS] if len(lost_history) + len(lost_tasks) < len(found) else []
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


def _told(study: Study) -> list[Finding]:
    """Look for what was left out of the files that were ingested: who was told of it may be another one."""
    found = left_out_of(study)
    if not found:
        return []
    said = " ".join(map(str, found[:SHOWN]))
    files = len({problem.path for problem in found})
    detail = f"of {files:,} files not all could be taken as it is ({counted_kinds(found)}): {said}"
    return [Finding("ingested files", "degraded", detail, fix="mend the files, then trace ingest of them")]


def _doubles(study: Study) -> list[Finding]:
    """Look for trajectories that an earlier version let in twice: they count twice."""
    found = stored_doubles(study)
    again: dict[str, list[Double]] = {}
    for one in found:
        again.setdefault(one.batch, []).append(one)
    if not again:
        return []
    detail = "; ".join(counted_words(some) for some in again.values())
    fix = (
        f"trace ingest --remove {next(iter(again))}, then trace ingest of its files: each is then taken once"
    )
    return [Finding("doubles", "degraded", f"what counts twice: {detail}", fix=fix)]


def _base(study: Study) -> list[Finding]:
    try:
        for row in study.store.read(BaseCheckpoint):
            whole_base(study, row)
    except InputError as error:
        return [Finding("base model", "missing", str(error), EVERY, SYNC_MENDS)]
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


# The home: whether it can be written to, who works on it, what an interruption left there.


SYNC = "trace sync"


def home(home: Home) -> list[Finding]:
    """Look at whether files can be written, locked and put in place in one step."""
    if not home.path.exists():
        above = nearest(home.path)
        if os.access(above, os.W_OK):
            return [Finding("home", "ok", f"{home.path} is not there yet and can be made", EVERY)]
        detail = f"{home.path} is not there and cannot be made: {above} cannot be written to"
        return [Finding("home", "missing", detail, EVERY, "set TRACE_HOME to a folder of yours")]
    if not home.is_writable:
        detail = f"{home.path} cannot be written to: it can be looked at (sql, report, sync --dry-run)"
        return [Finding("home", "missing", detail, EVERY, "set TRACE_HOME to a folder of yours to work in")]
    probe = home.path / f".doctor-{uuid4().hex[:8]}.partial"
    fix = f"sudo chown -R {os.getuid()} {home.path}, or set TRACE_HOME to a folder of yours"
    try:
        probe.mkdir()
        (probe / "file").write_text("written")
        lock = probe / "lock"
        with exclusive(lock, "a test", patience=0):
            locks = is_held(lock)
        atomic = exchange_works(probe)
    except OSError as error:
        return [Finding("home", "missing", f"{home.path}: {error.strerror or error}", EVERY, fix)]
    finally:
        _remove(probe)
    if not locks:
        detail = f"{home.path} is on a file system without locks: two programs could work on one table"
        return [Finding("home", "missing", detail, EVERY, "set TRACE_HOME to a local disk")]
    if not atomic:
        detail = (
            f"{home.path} cannot exchange two folders in one step; an interruption is put right afterwards"
        )
        return [Finding("home", "degraded", detail, EVERY, "set TRACE_HOME to ext4, xfs, btrfs or tmpfs")]
    return [Finding("home", "ok", f"{home.path} can be written and locked", EVERY)]


def _remove(probe: Path) -> None:
    import shutil

    shutil.rmtree(probe, ignore_errors=True)


def dagster_home(home: Home, named: str = "") -> list[Finding]:
    """Look at the run and event storage: whether it is there, ours, and of this Dagster's schema."""
    name, found = "dagster home", []
    if named and Path(named) != home.dagster:
        detail = f"DAGSTER_HOME names {named}; this program uses {home.dagster} all the same"
        found.append(Finding("DAGSTER_HOME", "degraded", detail, fix="unset DAGSTER_HOME"))
    if not (home.dagster / "dagster.yaml").is_file():
        return [*found, Finding(name, "ok", f"{home.dagster} is made when first needed", EVERY)]
    from trace_assets.orchestration.asset_files import way_back
    from trace_assets.orchestration.instance import old_schemas, open_instance

    try:
        with open_instance(home) as instance:
            old = old_schemas(instance)
    except Exception as error:  # of whatever library lies under the storage that dagster.yaml names
        said = (str(error).splitlines() or [""])[0][:160]
        detail = f"{home.dagster} cannot be opened ({type(error).__name__}: {said})"
        fix = f"mend {home.dagster}/dagster.yaml; or {way_back(home.path)}"
        return [*found, Finding(name, "missing", detail, EVERY, fix)]
    if old:
        detail = f"{home.dagster} was written by another Dagster: {', '.join(old)}"
        fix = f"DAGSTER_HOME={home.dagster} dagster instance migrate"
        return [*found, Finding(name, "degraded", detail, EVERY, fix)]
    return [*found, Finding(name, "ok", f"{home.dagster} has this Dagster's schema", EVERY)]


def at_work(home: Home) -> Finding:
    """Look at who works on the home."""
    path, n = sync_lock(home), len(living(home))
    who = f"{n} process{'es' if n != 1 else ''} at work" if n else "nobody is at work"
    if others := elsewhere(home):
        who += f", {len(others)} of them on another machine ({others[0]})"
    if is_held(path):
        return Finding("sync lock", "ok", f"held by {holder(path) or 'an unknown process'}; {who}")
    return Finding("sync lock", "ok", f"free; {who}")


def leftovers(home: Home) -> list[Finding]:
    """Look at what interrupted work left: what the next sync puts right, and what is kept for it."""
    found = []
    dead, slots = _dead_runs(home)
    signs = {
        "interrupted runs": dead,
        "slots they hold": slots,
        "half-made files": len(half_made(home)),
        "items due for it": len(due_items(home)),
    }
    seen = ", ".join(f"{what}: {n}" for what, n in signs.items() if n)
    if seen:
        found.append(Finding("left-overs", "degraded", f"{seen}; `{SYNC}` puts them right", fix=SYNC))
    else:
        found.append(Finding("left-overs", "ok", "nothing was interrupted here"))
    work = unfinished_work(home)
    if work:
        size = sum(work.values()) / 2**20
        names = ", ".join(path.relative_to(home.path).as_posix() for path in sorted(work)[:4])
        detail = f"{len(work)} of {size:.1f} MiB, taken up by `{SYNC}` with the same settings: {names}"
        found.append(Finding("unfinished work", "ok", detail))
    return found


def _dead_runs(home: Home) -> tuple[int, int]:
    if not (home.dagster / "dagster.yaml").is_file():
        return 0, 0
    from trace_assets.orchestration.instance import open_instance
    from trace_assets.orchestration.recovery import dead_runs, stale_claims

    try:
        with open_instance(home) as instance:
            dead = {run.run_id for run in dead_runs(instance, home)}
            return len(dead), len(stale_claims(instance, dead))
    except Exception:  # `dagster_home` says what is wrong with it
        return 0, 0
