"""How an asset of the pipeline becomes Dagster's: versions, checks, column schema, cost and errors."""

import inspect
from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from trace_assets.assets.asset import Asset, StageCheck, StageResult
from trace_assets.code_versions import code_version
from trace_assets.errors import InputError, TraceError
from trace_assets.orchestration.asset_files import DAMAGED, FILES, ItemFiles, declare, explain
from trace_assets.orchestration.configuration import OWNERS, tell_when_stale
from trace_assets.orchestration.instance import CAPABILITY, OF_BATCH, TASK_BATCH
from trace_assets.orchestration.pages import definition_metadata, describe, page_metadata, show_on
from trace_assets.orchestration.remote.launcher import elsewhere
from trace_assets.records import TrainingPoint
from trace_assets.resources.inbox import batches
from trace_assets.store.history import metered
from trace_assets.store.item_locks import due_items, item_lock
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.untrusted.printable import plain
from trace_assets.workflows.finished_work import AGAIN_TAG, KINDS, finished_work, refusal, would_replace
from trace_assets.workflows.lineage.edges import record_lineage
from trace_assets.workflows.made_with import SECTIONS, note_settings

BLOCKED_BY = "trace/blocked_by"
"""Tag of a materialization: its blocking checks that failed. Also a later sync holds back what follows."""
UNFINISHED = "trace/unfinished"
"""Tag of a materialization that was stopped before its end: the item is due again."""
DIAGNOSIS_GROUPS = frozenset({"rollouts", "diagnosis"})
"""Groups whose assets also stand on trajectories that were made elsewhere."""


def key(name: str) -> dg.AssetKey:
    """Return the asset key of a name such as `config/labels`."""
    return dg.AssetKey(name.split("/"))


PARTITIONS: Mapping[str, dg.PartitionsDefinition[str]] = {"task_batch": TASK_BATCH, "capability": CAPABILITY}


_made: dict[str, tuple[Asset, str, dg.AssetsDefinition]] = {}


def dagster_asset(one: Asset) -> dg.AssetsDefinition:
    """Return Dagster's asset of one of the pipeline's: with versions, checks, column schema and cost.

    No study decides it, and Dagster looks long at what it makes one of: it is made once a process.
    """
    version = code_version(one.name)
    last = _made.get(one.name)
    if last is None or last[0] is not one or last[1] != version:
        last = _made[one.name] = one, version, _dagster_asset(one, version)
    return last[2]


def _dagster_asset(one: Asset, version: str) -> dg.AssetsDefinition:
    name, records, checks, blocking = one.name, one.records, one.checks, one.blocking
    partitions = PARTITIONS[one.partitions] if one.partitions else None
    work, group, unfinished = one.work, one.group, one.unfinished
    declare(name, records, one.parts, one.together)
    wanted = inspect.signature(work).parameters

    def compute(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
        # No return annotation: Dagster would want a tuple type as soon as there are checks.
        study: Study = context.resources.study
        partition = context.partition_key if partitions is not None else ""
        arguments = [study, *([partition] if partitions is not None else [])]
        asked = context.run.tags.get(AGAIN_TAG)
        offered: dict[str, Callable[[], object]] = {
            "again": lambda: asked == "true",
            "on_point": lambda: _curve_listener(context),
            "elsewhere": lambda: elsewhere(study, context),
        }
        extra = {word: make() for word, make in offered.items() if word in wanted}
        if asked is None and name in KINDS:
            _refuse_to_replace(context, study, name, partition)
        try:
            announce(study.home)
        except TraceError as error:
            raise dg.Failure(
                str(error), metadata={"exit_code": error.exit_code}, allow_retries=False
            ) from error

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
                        if name in SECTIONS and not (name == "trajectories" and partition in batches(study)):
                            note_settings(study, name, partition)
                        for (kind, unit), quantity in result.spent.items():
                            spending.add(kind, quantity, unit)
                        spending.cost_usd += result.cost_usd
                    if one.shown_on is not None:
                        show_on(context, one.shown_on, partition, result)
                    if name in AFTERWARDS:
                        AFTERWARDS[name](context.instance, study, partition)
                    left = files.seal(name, partition)
                lock.lease.confirm()  # nor is anything recorded of an item that was begun anew elsewhere
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
            # Where one dies just now `recover` removes the mark.
            lock.settle()
            if result.recorded is not None:
                result.recorded()

    compute.__name__ = name
    return dg.asset(
        name=name,
        description=describe(work, records),
        deps=[_reads(one, dep) for dep in one.deps],
        partitions_def=partitions,
        group_name=group,
        kinds=set(one.kinds),
        owners=OWNERS,
        tags={
            "layer": "gpu" if one.pool == "gpu" else "cpu",
            "door": one.door or ("diagnosis" if group in DIAGNOSIS_GROUPS else "loop"),
            **({"light": "true"} if one.light else {}),
        },
        code_version=version,
        pool=one.pool,
        required_resource_keys={"study"},
        metadata=definition_metadata(records),
        check_specs=[
            dg.AssetCheckSpec(check, asset=name, description=says, blocking=check in blocking)
            for check, says in checks.items()
        ],
    )(compute)


def _reads(one: Asset, dep: str) -> dg.AssetDep:
    """Return how an asset reads another: what is made for each capability reads the batches of all."""
    every = one.partitions == "capability" and dep in OF_BATCH
    return dg.AssetDep(key(dep), partition_mapping=dg.AllPartitionMapping() if every else None)


def _follow_selection(instance: dg.DagsterInstance, study: Study, _: str) -> None:
    """Make the kept capabilities the keys of their partition: new ones come, dropped ones go."""
    from trace_assets.assets.selected_capabilities import kept_capabilities

    wanted, name = set(kept_capabilities(study)), str(CAPABILITY.name)
    known = set(instance.get_dynamic_partitions(name))
    if wanted - known:
        instance.add_dynamic_partitions(name, sorted(wanted - known))
    for dropped in sorted(known - wanted):
        instance.delete_dynamic_partition(name, dropped)


AFTERWARDS: Mapping[str, Callable[[dg.DagsterInstance, Study, str], None]] = {
    "selected_capabilities": _follow_selection,
    "environment_audit": tell_when_stale,
}
"""What is put right in Dagster's instance when an asset was made."""


def _curve_listener(context: dg.AssetExecutionContext) -> Callable[[TrainingPoint], None]:
    """Return a listener that streams the learning curve to the asset's page while it is being trained."""

    def observe(point: TrainingPoint) -> None:
        metadata = {
            "iteration": point.iteration,
            "reward": point.reward_mean,
            "success_rate": point.success_rate,
            "dead_groups": point.dead_groups,
            "n": point.n,
            **{
                name: value
                for name in ("entropy", "grad_norm", "sampler_kl", "outside_clip")
                if (value := getattr(point, name)) is not None
            },
        }
        partition = context.partition_key if context.has_partition_key else None
        context.log_event(dg.AssetObservation(context.asset_key, partition=partition, metadata=metadata))

    return observe


def _refuse_to_replace(context: dg.AssetExecutionContext, study: Study, name: str, partition: str) -> None:
    """Fail where a run that nobody asked to would put new work in the place of finished work."""
    from trace_assets.definitions import graph
    from trace_assets.orchestration.planner import Item, Planner

    if not (work := finished_work(study, name, partition)):
        return
    planner = Planner(graph(study), context.instance, [name])
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
