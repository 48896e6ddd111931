"""Materialize items as one Dagster run, in this process or in one of its own, and say how it went."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import dagster as dg

from trace_assets.assets.heal import PROCESS_TAG
from trace_assets.assets.stage_asset import BLOCKED_BY
from trace_assets.assets.staleness import Item
from trace_assets.errors import plain_warnings
from trace_assets.policies.accelerator import give_back
from trace_assets.stages.finished import AGAIN_TAG
from trace_assets.store.presence import announce
from trace_assets.study import Study


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
    from trace_assets.definitions import load

    definitions, study = load()
    with dg.DagsterInstance.get() as instance:
        try:
            return materialize_here(definitions, study, instance, items, again)
        finally:
            give_back()


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
    with _heeding_interrupts():
        result = dg.materialize(
            list(definitions.assets or []),  # type: ignore[arg-type]
            selection=[_key(item) for item in items],
            partition_key=items[0].partition or None,
            instance=instance,
            resources={"study": study},
            run_config=QUIET,
            raise_on_error=False,
            tags={
                "trace/by": "sync",
                PROCESS_TAG: process,
                **({} if again is None else {AGAIN_TAG: str(again).lower()}),
            },
        )
    seconds = time.monotonic() - started
    return [_outcome(item, result, seconds) for item in items]


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
            if {signal.SIGINT, signal.SIGTERM} & set(os.read(reader, 1024)):
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
