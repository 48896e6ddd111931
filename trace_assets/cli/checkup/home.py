"""The home: whether it can be written to, who works on it, what an interruption left there."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from trace_assets.cli.checkup.finding import EVERY, Finding
from trace_assets.store import Home
from trace_assets.store.home import exchange_works
from trace_assets.store.leftovers import half_made, unfinished_work
from trace_assets.store.locks import due_items, exclusive, holder, is_held, sync_lock
from trace_assets.store.presence import living

SYNC = "trace sync"


def home(home: Home) -> list[Finding]:
    """Look at whether files can be written, locked and put in place in one step."""
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
        detail = f"{home.path} cannot exchange two folders in one step; an interruption is healed afterwards"
        return [Finding("home", "degraded", detail, EVERY, "set TRACE_HOME to ext4, xfs, btrfs or tmpfs")]
    return [Finding("home", "ok", f"{home.path} can be written and locked", EVERY)]


def _remove(probe: Path) -> None:
    import shutil

    shutil.rmtree(probe, ignore_errors=True)


def dagster_home(home: Home, named: str = "") -> list[Finding]:
    """Look at the run and event storage: whether it is there, ours, and of this Dagster's schema.

    Args:
        home: The home.
        named: What `DAGSTER_HOME` said when the program was started.
    """
    name, found = "dagster home", []
    if named and Path(named) != home.dagster:
        detail = f"DAGSTER_HOME names {named}; this program uses {home.dagster} all the same"
        found.append(Finding("DAGSTER_HOME", "degraded", detail, fix="unset DAGSTER_HOME"))
    if not (home.dagster / "dagster.yaml").is_file():
        return [*found, Finding(name, "ok", f"{home.dagster} is made when first needed", EVERY)]
    from trace_assets.assets.instance import old_schemas, open_instance
    from trace_assets.assets.storage_faults import way_back

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
    from trace_assets.assets.heal import dead_runs, stale_claims
    from trace_assets.assets.instance import open_instance

    try:
        with open_instance(home) as instance:
            dead = {run.run_id for run in dead_runs(instance, home)}
            return len(dead), len(stale_claims(instance, dead))
    except Exception:  # `dagster_home` says what is wrong with it
        return 0, 0
