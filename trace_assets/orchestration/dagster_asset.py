"""How a stage becomes an asset: versions, checks, column schema, cost and errors, the same for all."""

import inspect
from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from trace_assets.assets.result import StageCheck, StageResult
from trace_assets.code_versions import code_version
from trace_assets.errors import InputError, TraceError
from trace_assets.orchestration.asset_files import DAMAGED, FILES, ItemFiles, declare, explain
from trace_assets.orchestration.pages import definition_metadata, describe, page_metadata
from trace_assets.records import Record
from trace_assets.store import locks
from trace_assets.store.history import metered
from trace_assets.store.locks import due_items, item_lock
from trace_assets.study import Study
from trace_assets.untrusted.printable import plain
from trace_assets.workflows.finished_work import AGAIN_TAG, KINDS, finished_work, refusal, would_replace
from trace_assets.workflows.ingest import batches
from trace_assets.workflows.lineage.record import record_lineage
from trace_assets.workflows.made_with import SECTIONS, note_settings

OWNERS = ["team:trace-assets"]
BLOCKED_BY = "trace/blocked_by"
"""Tag of a materialization: its blocking checks that failed. Also a later sync holds back what follows."""
UNFINISHED = "trace/unfinished"
"""Tag of a materialization that was stopped before its end: the item is due again."""
DIAGNOSIS_GROUPS = frozenset({"rollouts", "diagnosis"})
"""Groups whose assets also stand on trajectories that were made elsewhere."""
DIAGNOSIS_SECTIONS = frozenset(
    {"targets", "rollouts", "discovery", "labels", "contrast", "selection", "stability"}
)
"""Sections of the settings that they read."""


def key(name: str) -> dg.AssetKey:
    """Return the asset key of a name such as `config/labels`."""
    return dg.AssetKey(name.split("/"))


def stage_asset(
    *,
    group: str,
    records: Sequence[type[Record]],
    deps: Sequence[str] = (),
    partitions: dg.PartitionsDefinition[str] | None = None,
    checks: Mapping[str, str] = {},
    blocking: Sequence[str] = (),
    unfinished: Sequence[str] = (),
    kinds: Sequence[str] = ("parquet",),
    pool: str | None = None,
    light: bool = False,
    tags: dict[str, str] | None = None,
    parts: Mapping[type[Record], str] = {},
    together: bool = False,
) -> Callable[[Callable[..., StageResult]], dg.AssetsDefinition]:
    """Turn a function `(study[, partition][, context]) -> StageResult` into an asset of the same name.

    The function's docstring begins the asset's description. What it raises as a `TraceError` fails the step
    with that one sentence and without retries.

    Args:
        group: Group in the UI: the stage.
        records: Tables that it writes, the main one first.
        deps: Names of the assets it reads.
        partitions: How it is partitioned; its function then takes the partition key.
        checks: Checks that its result may carry: name to what they say, in one sentence.
        blocking: Those of them whose failure as an error stops what comes next, in a run and in a sync.
        unfinished: Those of them whose failure says that the work was stopped before its end, by a budget for
            instance: the item is due again at the next sync.
        kinds: Icons in the UI.
        pool: Concurrency pool, for work that takes the whole accelerator.
        light: Takes well under a second of one core, so that a process of its own would cost more.
        tags: Further tags, beside `layer` (cpu or gpu), `light`, and `door` (diagnosis, which needs no
            torch, or loop).
        parts: File names of those of its tables that are not named after its partition.
        together: Whether its tables are of use only together: one that is lost takes the others with it.
    """

    def wrap(work: Callable[..., StageResult]) -> dg.AssetsDefinition:
        name = work.__name__
        declare(name, records, parts, together)
        wanted = inspect.signature(work).parameters

        def compute(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
            # No return annotation: Dagster would want a tuple type as soon as there are checks.
            study: Study = context.resources.study
            partition = context.partition_key if partitions is not None else ""
            arguments = [study, *([partition] if partitions is not None else [])]
            asked = context.run.tags.get(AGAIN_TAG)
            offered = {"context": context, "again": asked == "true"}
            extra = {name: value for name, value in offered.items() if name in wanted}
            if asked is None and name in KINDS:
                _refuse_to_replace(context, study, name, partition)
            locks.announce(study.home)

            def waiting(holder: object) -> None:
                context.log.info(f"another process makes this now: {holder}; waiting for it")

            # Two runs, of a sync and of the UI for instance, never write one item at once.
            with item_lock(study.home, name, partition, waiting=waiting, by=context.run.run_id) as lock:
                files = ItemFiles(study)
                for damaged in files.set_aside(name, partition):
                    context.log.warning(f"{damaged} was damaged; it lies in {DAMAGED}/ now")
                try:
                    # All that it writes is on the disk before Dagster is told of it.
                    with files.manifest.together():
                        with metered(
                            study.store,
                            stage=group,
                            asset=name,
                            partition=partition,
                            run_id=context.run.run_id,
                        ) as spending:
                            result = work(*arguments, **extra)
                            record_lineage(study, name, partition)
                            if name in SECTIONS and not (
                                name == "trajectories" and partition in batches(study)
                            ):
                                note_settings(study, name, partition)
                            for (kind, unit), quantity in result.spent.items():
                                spending.add(kind, quantity, unit)
                            spending.cost_usd += result.cost_usd
                        left = files.seal(name, partition)
                except Exception as error:
                    told = error if isinstance(error, TraceError) else explain(error, study.home.path)
                    if told is None:
                        raise
                    raise dg.Failure(
                        str(told), metadata={"exit_code": told.exit_code}, allow_retries=False
                    ) from error
                stopped = sorted(
                    check.name
                    for check in result.checks
                    if check.name in blocking and check.passed is False and check.severity == "error"
                )
                yield dg.MaterializeResult(
                    data_version=dg.DataVersion(result.version),
                    metadata=page_metadata(
                        name, result, spending, records=records, store=study.store, partition=partition
                    ),
                    check_results=_check_results(result, list(checks)),
                    tags={
                        FILES: left,
                        **({BLOCKED_BY: ".".join(stopped)} if stopped else {}),
                        **({UNFINISHED: "true"} if set(stopped) & set(unfinished) else {}),
                    },
                )
                # Only here the materialization is recorded: a process that dies before leaves the item due.
                # Where one dies just now `heal` removes the mark.
                lock.settle()
                if result.recorded is not None:
                    result.recorded()

        compute.__name__ = name
        return dg.asset(
            name=name,
            description=describe(work, records),
            deps=[key(dep) for dep in deps],
            partitions_def=partitions,
            group_name=group,
            kinds=set(kinds),
            owners=OWNERS,
            tags={
                "layer": "gpu" if pool == "gpu" else "cpu",
                "door": "diagnosis" if group in DIAGNOSIS_GROUPS else "loop",
                **({"light": "true"} if light else {}),
                **(tags or {}),
            },
            code_version=code_version(name),
            pool=pool,
            required_resource_keys={"study"},
            metadata=definition_metadata(records),
            check_specs=[
                dg.AssetCheckSpec(check, asset=name, description=says, blocking=check in blocking)
                for check, says in checks.items()
            ],
        )(compute)

    return wrap


def _refuse_to_replace(context: dg.AssetExecutionContext, study: Study, name: str, partition: str) -> None:
    """Fail where a run that nobody asked to would put new work in the place of finished work."""
    from trace_assets.definitions import build
    from trace_assets.orchestration.planner import Item, Planner

    if not (work := finished_work(study, name, partition)):
        return
    planner = Planner(build(study), context.instance, [name])
    planner.look()
    item = Item(name, partition)
    causes = planner.causes(item)
    if (name, partition) in due_items(study.home):  # interrupted: its tables are newer than what is recorded
        causes = {words: "other" if kind == "missing" else kind for words, kind in causes.items()} or {
            "it was interrupted": "other"
        }
    why = would_replace(study, name, partition, causes)
    if KINDS[name].plays_again and not causes:
        why = "it is up to date"
    if why:
        raise dg.Failure(
            refusal(str(item), work, why), metadata={"exit_code": InputError.exit_code}, allow_retries=False
        )


def _check_results(result: StageResult, declared: Sequence[str]) -> list[dg.AssetCheckResult]:
    """Return one result for every declared check: Dagster wants them all, and a check not run is no pass."""
    found = {check.name: check for check in result.checks}
    skipped = [StageCheck(name, None, "there was nothing to check") for name in declared if name not in found]
    return [
        dg.AssetCheckResult(
            check_name=check.name,
            passed=bool(check.passed),
            description=plain(check.detail if check.passed is not None else f"not run: {check.detail}"),
            severity=dg.AssetCheckSeverity.ERROR
            if check.severity == "error" and check.passed is not None
            else dg.AssetCheckSeverity.WARN,
        )
        for check in [*result.checks, *skipped]
    ]
