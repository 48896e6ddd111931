"""The project's own Dagster home: its history is kept, read from all nodes, and telemetry is off."""

from __future__ import annotations

import inspect
import os
import shutil
import stat
import subprocess
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
from sqlalchemy.exc import SQLAlchemyError

from trace_assets.errors import InputError, require_extra
from trace_assets.orchestration.cheaper_dagster import close_run
from trace_assets.resources.inbox import batches, task_batches
from trace_assets.store import Home
from trace_assets.store.database import database_of
from trace_assets.store.files import replace_folder, replacing_file
from trace_assets.store.locks import exclusive
from trace_assets.study import Study
from trace_assets.system.processes import whole_cores

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
    if not home.is_writable:
        return _open_copy(home)
    return dg.DagsterInstance.from_config(str(home.dagster))


def _keep_migrations() -> None:
    """Have the migrations of Dagster's databases read once in a process.

    Whenever a database is made or opened, so for every run, all eighty files of them are executed to learn
    which is the last: most of the time that it takes to make a home's history or to open one. All three
    databases have the same migrations.
    """
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    read = ScriptDirectory.from_config
    if getattr(read, "kept", None) is not None:
        return
    kept: dict[str | None, ScriptDirectory] = {}

    def from_config(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in kept:
            kept[place] = read(config)
        return kept[place]

    from_config.kept = kept  # type: ignore[attr-defined]
    ScriptDirectory.from_config = staticmethod(from_config)  # type: ignore[method-assign]


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
            as_always = not home.dagster.is_dir() and database_of(home.path) is None
            if not (as_always and _laid(building)):
                with dg.DagsterInstance.from_config(str(building)) as instance:
                    instance.get_runs(limit=1)
                    instance.get_dynamic_partitions(str(TASK_BATCH.name))
                    instance.event_log_storage.get_concurrency_keys()
                    instance.all_instigator_state()
                # Made for their owner alone to write, whoever may write to the home.
                mode = stat.S_IMODE((building / "dagster.yaml").stat().st_mode)
                for file in building.rglob("*.db"):
                    file.chmod(mode)
                if as_always:
                    _keep(building)
            replace_folder(building, home.dagster)


_empty: dict[Path, bytes] = {}
"""Databases of a history without runs, by their place in its folder, as this process has seen them made."""


def _laid(folder: Path) -> bool:
    """Lay empty databases, where this process has made some before: Dagster takes a second for it."""
    for place, content in _empty.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(content)
    return bool(_empty)


def _keep(folder: Path) -> None:
    """Keep a folder's databases to be laid again, where nothing of them is still in a log beside them."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "dagster.yaml"]
    if all(file.suffix == ".db" for file in files):
        _empty.update({file.relative_to(folder): file.read_bytes() for file in files})


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


_made: dict[type, bytes] = {}
"""Kind of storage to the file of a run without events, as this process has seen one made."""


def lay_run_file(instance: dg.DagsterInstance, run_id: str) -> None:
    """Lay the file of a run that begins now; Dagster makes a process's first one, which is kept to copy.

    Nothing is laid where the history is not in SQLite, or where the file cannot be written: Dagster then
    tries for itself, and what is wrong is said as it is everywhere.
    """
    storage: Any = instance.event_log_storage
    if not hasattr(storage, "path_for_shard"):
        return
    place = Path(storage.path_for_shard(run_id))
    with suppress(OSError, SQLAlchemyError):
        if (empty := _made.get(type(storage))) is not None:
            with replacing_file(place) as file:
                file.write_bytes(empty)
            return
        with storage.run_connection(run_id):
            pass
        close_run(storage, run_id)
        # Made for their owner alone to write, whoever else may have to note there that the run was killed.
        place.chmod(stat.S_IMODE(place.with_name("index.db").stat().st_mode))
        # What is still in the file's log, for somebody else looks at it, would be missing from the copy.
        if not place.with_name(f"{place.name}-wal").exists():
            _made[type(storage)] = place.read_bytes()


ACTOR = "history"
"""Name of the actor in the namespace of a sync."""
HISTORY_VARIABLE = "TRACE_CLUSTER_HISTORY"
"""Set in a worker on a cluster: where its sync has opened Dagster's history for all nodes."""

_OF_THE_PROCESS = frozenset(
    {
        "register_instance",
        "has_instance",
        "dispose",
        "optimize_for_webserver",
        "watch",
        "end_watch",
        "get_pool_config",
        "inst_data",
    }
)
"""What belongs to the process that has the storage, not to what is stored."""


class History:
    """Answers for the storages of one Dagster home; runs as an actor on the node of the driver.

    Args:
        folder: The Dagster home.
    """

    def __init__(self, folder: str) -> None:
        self._instance = dg.DagsterInstance.from_config(folder)
        self._storages = {"runs": self._instance.run_storage, "events": self._instance.event_log_storage}

    def ask(self, storage: str, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Return what a method of a storage returns, or the value of a property."""
        found = getattr(self._storages[storage], name)
        answer = found(*arguments, **named) if callable(found) else found
        return list(answer) if inspect.isgenerator(answer) else answer


Ask = Callable[[str, str, tuple[Any, ...], dict[str, Any]], Any]


def open_history(ask: Ask) -> dg.DagsterInstance:
    """Return an instance whose runs and events are kept where `ask` leads.

    Args:
        ask: `History.ask`, from afar.
    """
    instance = dg.DagsterInstance.ephemeral()
    for storage, kind in ((instance.run_storage, "runs"), (instance.event_log_storage, "events")):
        # Dagster has no public class to derive a storage from, nor an instance that takes one.
        storage.__class__ = _asking_class(type(storage), kind)
        storage.__dict__["ask"] = ask
    return instance


@cache
def _asking_class(base: type, storage: str) -> type:
    """Return a class each of whose methods and properties asks for that of another storage."""
    body: dict[str, Any] = {"watch": _not_here, "end_watch": _not_here}
    for name in dir(base):
        if name.startswith("_") or name in _OF_THE_PROCESS:
            continue
        found = inspect.getattr_static(base, name)
        if isinstance(found, property):
            body[name] = property(_asking_for_value(storage, name))
        elif inspect.isfunction(found):
            body[name] = _asking(storage, name)
    if hasattr(base, "supports_global_concurrency_limits"):
        # Ray counts GPUs over all nodes: the slots of one machine would hold them up.
        body["supports_global_concurrency_limits"] = False
    return type(f"Asking{base.__name__}", (base,), body)


def _not_here(self: Any, *arguments: Any, **named: Any) -> None:
    raise NotImplementedError("runs are watched on the node of the driver")


def _asking(storage: str, name: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self.ask(storage, name, arguments, named)

    return call


def _asking_for_value(storage: str, name: str) -> Callable[[Any], Any]:
    return lambda self: self.ask(storage, name, (), {})
