"""Materialize items as one Dagster run, in this process or in one of its own, and say how it went."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import dagster as dg

from trace_assets.errors import plain_interrupts, plain_warnings
from trace_assets.orchestration.cheaper_dagster import asset_job, close_run, kept_connections, show_by_threads
from trace_assets.orchestration.dagster_asset import BLOCKED_BY
from trace_assets.orchestration.instance import HISTORY_VARIABLE, lay_run_file
from trace_assets.orchestration.planner import Item
from trace_assets.orchestration.recovery import PROCESS_TAG
from trace_assets.policies.token_policy import give_back
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.workflows.finished_work import AGAIN_TAG


@dataclass(frozen=True)
class Outcome:
    """How one materialization went.

    Attributes:
        item: What was made.
        made: Whether it was materialized.
        seconds: Wall time.
        rows: Rows in its main table, None when not known.
        failed_checks: `name: detail` of every check that failed as an error.
        warnings: The same for warnings.
        blocked: Whether one of the failed checks holds back what comes next.
        error: One sentence when it was not made.
        exit_code: What the program should exit with because of this item.
    """

    item: Item
    made: bool
    seconds: float
    rows: int | None = None
    failed_checks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    blocked: bool = False
    error: str = ""
    exit_code: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it was made, and its table has no row."""
        return self.made and self.rows == 0


QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def materialize_items(
    environment: Mapping[str, str], items: Sequence[Item], again: bool | None = None
) -> list[Outcome]:
    """Materialize items in a process that was started for it.

    Args:
        environment: Variables that open the study and its Dagster home.
        items: As for `materialize_here`.
        again: The same.

    Returns:
        One outcome an item, in order.
    """
    os.environ.update(environment)
    plain_warnings()
    plain_interrupts()
    opened = _opened()
    try:
        return materialize_here(opened.definitions, opened.study, opened.instance, items, again)
    finally:
        give_back()


@dataclass(frozen=True)
class _Opened:
    """What a worker keeps from one item to the next: to make it anew takes longer than most items."""

    study: Study
    definitions: dg.Definitions
    instance: dg.DagsterInstance
    history: str
    """The Dagster home of the instance, or the sync of the cluster whose history it is."""


def _open_history() -> dg.DagsterInstance:
    if not (where := os.environ.get(HISTORY_VARIABLE)):
        return dg.DagsterInstance.get()
    from trace_assets.orchestration.cluster.ray_pool import opened_history

    return opened_history(where)


_kept: _Opened | None = None


def _opened() -> _Opened:
    """Open the study that the environment names, or return what was opened before while it is the same."""
    global _kept
    from trace_assets.definitions import graph

    study, history = Study.open(), os.environ.get(HISTORY_VARIABLE) or os.environ.get("DAGSTER_HOME", "")
    if _kept is None or (_kept.study, _kept.history) != (study, history):
        if _kept is not None:
            _kept.instance.dispose()
        _kept = _Opened(study, graph(study), _open_history(), history)
    return _kept


def materialize_here(
    definitions: dg.Definitions,
    study: Study,
    instance: dg.DagsterInstance,
    items: Sequence[Item],
    again: bool | None = None,
) -> list[Outcome]:
    """Materialize items as one Dagster run in this process.

    Args:
        definitions: The graph.
        study: What its assets work on.
        instance: Where the run is recorded.
        items: What to make: one, or several without partitions that do not depend on each other.
        again: Whether it was asked for in the place of what is finished; None has each item look whether
            anything finished would be replaced, and refuse.

    Returns:
        One outcome an item, in order.

    Raises:
        KeyboardInterrupt: The process was interrupted or told to end; the run is marked as cancelled.
    """
    process = announce(study.home)
    started = time.monotonic()
    with kept_connections(), _heeding_interrupts():
        show_by_threads()
        job = asset_job(definitions)
        lay_run_file(instance, run_id := str(uuid4()))
        result = job.execute_in_process(
            run_id=run_id,
            asset_selection=[_key(item) for item in items],
            partition_key=items[0].partition or None,
            instance=_of_our_location(instance, job.name),
            run_config=QUIET,
            raise_on_error=False,
            tags={
                "trace/by": "sync",
                ".dagster/repository": f"{REPOSITORY}@{LOCATION}",
                PROCESS_TAG: process,
                **({} if again is None else {AGAIN_TAG: str(again).lower()}),
            },
        )
        close_run(instance.event_log_storage, run_id)
    seconds = time.monotonic() - started
    return [_outcome(item, result, seconds) for item in items]


LOCATION = "trace_assets.definitions"
"""The code location's name where it is loaded with `dagster dev -m`, as `trace ui` does."""
REPOSITORY = "__repository__"
"""What Dagster calls the definitions of a module."""
ORIGIN = {
    "__class__": "ExternalPipelineOrigin",
    "external_repository_origin": {
        "__class__": "ExternalRepositoryOrigin",
        "repository_location_origin": {
            "__class__": "ManagedGrpcPythonEnvRepositoryLocationOrigin",
            "loadable_target_origin": {
                "__class__": "LoadableTargetOrigin",
                "attribute": None,
                "executable_path": sys.executable,
                "module_name": LOCATION,
                "package_name": None,
                "python_file": None,
                "working_directory": None,
            },
            "location_name": LOCATION,
        },
        "repository_name": REPOSITORY,
    },
}
"""Where a run is from, as Dagster writes it into its history; for the type itself it has no public name."""


def _of_our_location(instance: dg.DagsterInstance, job: str) -> dg.DagsterInstance:
    """Have the runs of an instance say where they are from: without that no timeline shows them."""
    origin: Any = dg.deserialize_value(json.dumps({**ORIGIN, "pipeline_name": job}))
    # Dagster has no argument for it on the way of `execute_in_process`.
    instance.create_run_for_job = partial(  # type: ignore[method-assign]
        type(instance).create_run_for_job, instance, remote_job_origin=origin
    )
    return instance


@contextmanager
def _heeding_interrupts() -> Iterator[None]:
    """Raise an interrupt after a run that was hit by one.

    While a run goes on Dagster has its own handlers: an interrupt inside a step cancels the run and is then
    forgotten, one between two steps is forgotten at once. The wake-up file of Python sees them all.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
        with suppress(BlockingIOError):
            if {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} & set(os.read(reader, 1024)):
                raise KeyboardInterrupt
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def _key(item: Item) -> dg.AssetKey:
    return dg.AssetKey(item.asset.split("/"))


def _outcome(item: Item, result: dg.ExecuteInProcessResult, seconds: float) -> Outcome:
    made, blocked, rows = False, False, None
    failed: list[str] = []
    warnings: list[str] = []
    for event in result.get_asset_materialization_events():
        if event.asset_key == _key(item):
            made, blocked = True, BLOCKED_BY in (event.materialization.tags or {})
            count = event.materialization.metadata.get("dagster/row_count")
            rows = count.value if isinstance(count, dg.IntMetadataValue) else None
    for check in result.get_asset_check_evaluations():
        if check.asset_key == _key(item) and not check.passed:
            kind = failed if check.severity == dg.AssetCheckSeverity.ERROR else warnings
            kind.append(f"{check.check_name}: {check.description}")
    error, code = "", 1 if failed else 0
    if not made:
        error, code = _failure(result)
    return Outcome(item, made, seconds, rows, tuple(failed), tuple(warnings), blocked, error, code)


def _failure(result: dg.ExecuteInProcessResult) -> tuple[str, int]:
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            failure = data.user_failure_data
            if failure is not None and failure.description:
                code = failure.metadata.get("exit_code")
                return failure.description, (code.value or 3) if isinstance(code, dg.IntMetadataValue) else 3
            if data.error is not None:
                cause = data.error.cause or data.error
                return f"{cause.to_string().strip()}", 3
    return "the run failed before its step began; see it in `trace ui`.", 3
