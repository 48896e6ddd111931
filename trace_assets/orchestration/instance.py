"""The project's own Dagster home: history is kept, telemetry is off."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import weakref
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import dagster as dg

from trace_assets.errors import InputError, require_extra
from trace_assets.store import Home
from trace_assets.store.database import database_of
from trace_assets.store.files import replace_folder, replacing_file
from trace_assets.store.locks import exclusive
from trace_assets.study import Study
from trace_assets.system.processes import whole_cores
from trace_assets.workflows.ingest import batches
from trace_assets.workflows.task_inbox import task_batches

DAGSTER_YAML = """\
# Written by trace-assets when this home was made; edit freely.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    # Runs of the page and its sensors at once; each is a process of some 300 MB.
    max_concurrent_runs: {runs}
  pools:
    # Steps of the pool `gpu` at once: one a GPU; without any, as many as share the processor well.
    default_limit: {limit}
    granularity: op
run_monitoring:
  enabled: false
"""
IN_DATABASE = """\
# In the database that holds the home's leases, in a schema of its own.
storage:
  postgres:
    postgres_url: "{address}"
"""
"""What is written where a home has a database before it has a history; libpq knows user and password."""


def prepare_instance(home: Home, *, to_look: bool = False) -> dg.DagsterInstance:
    """Make the Dagster home if it is not there, and open its instance.

    Of a home that cannot be written to, the history is copied: Dagster writes also where it only reads.

    Args:
        home: The home.
        to_look: Nothing will be recorded, so a copy will do also where the disk is full.
    """
    _keep_migrations()
    if not home.is_writable or (to_look and home.is_full):
        return _open_copy(home)
    if not (home.dagster / "dagster.yaml").exists():
        _make_dagster_home(home)
    os.environ["DAGSTER_HOME"] = str(home.dagster)
    return dg.DagsterInstance.get()


def _open_copy(home: Home) -> dg.DagsterInstance:
    """Open an instance on a copy of a home's history, which is removed with it."""
    folder = TemporaryDirectory(prefix="trace-dagster-")
    copy = Path(folder.name)
    _write_configuration(copy)
    try:
        for kept in ("history/runs.db*", "history/runs/index.db*", "schedules/*.db*"):
            for file in sorted(home.dagster.glob(kept)):
                place = copy / file.relative_to(home.dagster)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
    except OSError as error:
        raise InputError(f"the history in {home.dagster} cannot be read ({error.strerror}).") from error
    os.environ["DAGSTER_HOME"] = str(copy)
    instance = dg.DagsterInstance.get()
    weakref.finalize(instance, folder.cleanup)
    return instance


def open_instance(home: Home) -> dg.DagsterInstance:
    """Open the instance of a Dagster home that is there, to look at it."""
    _keep_migrations()
    return dg.DagsterInstance.from_config(str(home.dagster))


def _keep_migrations() -> None:
    """Have the migrations of Dagster's databases read once in a process.

    Whenever a database is made or opened, so for every run, all eighty files of them are executed to learn
    which is the last: most of the time that it takes to make a home's history or to open one.
    """
    from alembic.script import ScriptDirectory

    if not hasattr(ScriptDirectory.from_config, "cache_info"):
        kept = staticmethod(cache(ScriptDirectory.from_config))
        ScriptDirectory.from_config = kept  # type: ignore[method-assign]


def old_schemas(instance: dg.DagsterInstance) -> list[str]:
    """Return the storages whose tables are not those of the installed Dagster, with both revisions."""
    storages = {
        "runs": instance.run_storage,
        "events": instance.event_log_storage,
        "schedules": instance.schedule_storage,
    }
    found = []
    for name, storage in storages.items():
        revisions = getattr(storage, "alembic_version", lambda: None)()
        if revisions is not None and revisions[0] != revisions[1]:
            found.append(f"{name} {revisions[0] or 'unstamped'} instead of {revisions[1]}")
    return found


def _make_dagster_home(home: Home) -> None:
    """Make the Dagster home with its databases, whole or not at all.

    A database whose tables were made and whose version was not yet noted when the process was killed would
    be taken for one of an old Dagster that needs migration.
    """
    with exclusive(home.path / "locks" / "dagster.lock", "making the Dagster home"):
        if (home.dagster / "dagster.yaml").exists():
            return
        if (home.dagster / "history").is_dir():
            # A plain `dagster dev` made the databases (see dagster.yaml of the checkout) and may be at work.
            _write_configuration(home.dagster)
            return
        with TemporaryDirectory(dir=home.path, prefix=".dagster.", suffix=".partial") as name:
            building = Path(name)
            os.chmod(building, stat.S_IMODE(home.path.stat().st_mode))  # as readable as the home is
            if home.dagster.is_dir():  # somebody laid it out by hand, without a configuration
                shutil.copytree(home.dagster, building, dirs_exist_ok=True)
            _write_configuration(building, home)
            with dg.DagsterInstance.from_config(str(building)) as instance:
                instance.get_runs(limit=1)
                instance.get_dynamic_partitions(str(TASK_BATCH.name))
                instance.event_log_storage.get_concurrency_keys()
                instance.all_instigator_state()
            replace_folder(building, home.dagster)


def _write_configuration(folder: Path, home: Home | None = None) -> None:
    """Write a `dagster.yaml`, that of a home with its history in the home's database, where it has one."""
    with replacing_file(folder / "dagster.yaml") as partial:
        text = DAGSTER_YAML.format(limit=_heavy_steps(), runs=_heavy_steps() + 2)
        database = database_of(home.path) if home is not None else None
        if database is not None:
            require_extra("dagster_postgres", "cluster", "a history in the database of the home")
            schema = f"history_{database.study[:16]}"
            database.rows(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            place, _, said = database.url.partition("://")[2].partition("?")
            options = "&".join(filter(None, [said, f"options=-csearch_path%3D{schema}"]))
            # The driver is named: SQLAlchemy 2.1 takes another one otherwise, with which Dagster fails.
            text += IN_DATABASE.format(address=f"postgresql+psycopg2://{place}?{options}")
        partial.write_text(text, encoding="utf-8")


def _heavy_steps() -> int:
    """Return how many training or rollout steps this machine can run at once."""
    program = shutil.which("nvidia-smi")
    if program is not None:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=60, check=False)
        gpus = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
        if gpus:
            return gpus
    return min(2, whole_cores())


def register_batches(instance: dg.DagsterInstance, study: Study, *, live: bool) -> list[str]:
    """Make the task batches of a study known to Dagster.

    Args:
        instance: Where to.
        study: Whose inboxes to look at.
        live: Also the batch of the live target's own tasks.

    Returns:
        All known batches, sorted.
    """
    known = set(instance.get_dynamic_partitions(str(TASK_BATCH.name)))
    wanted = {*batches(study), *task_batches(study), *([study.live_batch] if live else [])}
    if wanted - known:
        instance.add_dynamic_partitions(str(TASK_BATCH.name), sorted(wanted - known))
    return sorted(known | wanted)


TASK_BATCH = dg.DynamicPartitionsDefinition(name="task_batch")
"""Tasks arrive in batches; a new batch never redoes the rollouts of an old one."""

PLAYED = ("tasks", "trajectories")
"""Assets of which a task batch is rolled out on the live target, or taken from the inbox."""
OF_BATCH = frozenset({*PLAYED, "triage", "batch_capabilities", "labels", "lack_causes", "repairs"})
"""Assets that are made for each task batch."""

CAPABILITY = dg.DynamicPartitionsDefinition(name="capability")
"""One key a kept capability of the live target; keys come and go with the selection."""
