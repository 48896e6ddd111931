"""How a stage becomes an asset: versions, checks, column schema, cost and errors, the same for all."""

import inspect
from collections.abc import Callable, Sequence

import dagster as dg

from trace_assets.errors import TraceError
from trace_assets.records import Record
from trace_assets.records.table import polars_schema
from trace_assets.stages.result import StageCheck, StageResult
from trace_assets.store.ledger import metered
from trace_assets.study import Study

OWNERS = ["team:trace-assets"]


def key(name: str) -> dg.AssetKey:
    """Return the asset key of a name such as `config/labels`."""
    return dg.AssetKey(name.split("/"))


def column_schema(record: type[Record]) -> dg.TableSchema:
    """Return a record type's table schema as Dagster shows it."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name, str(dtype), constraints=dg.TableColumnConstraints(unique=record.key == (name,))
            )
            for name, dtype in polars_schema(record).items()
        ]
    )


def stage_asset(
    *,
    group: str,
    records: Sequence[type[Record]],
    deps: Sequence[str] = (),
    partitions: dg.PartitionsDefinition[str] | None = None,
    checks: Sequence[str] = (),
    blocking: Sequence[str] = (),
    kinds: Sequence[str] = ("parquet",),
    code_version: str = "1",
    pool: str | None = None,
    tags: dict[str, str] | None = None,
) -> Callable[[Callable[..., StageResult]], dg.AssetsDefinition]:
    """Turn a function `(study[, partition][, context]) -> StageResult` into an asset of the same name.

    The function's docstring is the asset's description. What it raises as a `TraceError` fails the step with
    that one sentence and without retries.

    Args:
        group: Group in the UI: the stage.
        records: Tables that it writes, the main one first.
        deps: Names of the assets it reads.
        partitions: How it is partitioned; its function then takes the partition key.
        checks: Names of the checks its result may carry.
        blocking: Those of them whose failure as an error stops what comes next in the same run.
        kinds: Icons in the UI.
        code_version: To be raised when equal inputs shall give another result.
        pool: Concurrency pool, for work that takes the whole accelerator.
        tags: Further tags.
    """

    def wrap(work: Callable[..., StageResult]) -> dg.AssetsDefinition:
        name = work.__name__
        wants_context = "context" in inspect.signature(work).parameters

        def compute(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
            # No return annotation: Dagster would want a tuple type as soon as there are checks.
            study: Study = context.resources.study
            partition = context.partition_key if partitions is not None else ""
            arguments = [study, *([partition] if partitions is not None else [])]
            extra = {"context": context} if wants_context else {}
            try:
                with metered(
                    study.store, stage=group, asset=name, partition=partition, run_id=context.run_id
                ) as spending:
                    result = work(*arguments, **extra)
                    for (kind, unit), quantity in result.spent.items():
                        spending.add(kind, quantity, unit)
                    spending.cost_usd += result.cost_usd
            except TraceError as error:
                raise dg.Failure(
                    str(error), metadata={"exit_code": error.exit_code}, allow_retries=False
                ) from error
            return dg.MaterializeResult(
                data_version=dg.DataVersion(result.version),
                metadata={
                    "dagster/row_count": result.rows,
                    **result.figures,
                    **{title: dg.MetadataValue.md(page) for title, page in result.pages.items()},
                },
                check_results=_check_results(result, checks),
            )

        compute.__name__ = name
        return dg.asset(
            name=name,
            description=inspect.getdoc(work),
            deps=[key(dep) for dep in deps],
            partitions_def=partitions,
            group_name=group,
            kinds=set(kinds),
            owners=OWNERS,
            tags=tags,
            code_version=code_version,
            pool=pool,
            required_resource_keys={"study"},
            metadata={"dagster/column_schema": column_schema(records[0])} if records else None,
            check_specs=[
                dg.AssetCheckSpec(check, asset=name, blocking=check in blocking) for check in checks
            ],
        )(compute)

    return wrap


def _check_results(result: StageResult, declared: Sequence[str]) -> list[dg.AssetCheckResult]:
    """Return one result for every declared check: Dagster wants them all, and a check not run is no pass."""
    found = {check.name: check for check in result.checks}
    skipped = [StageCheck(name, None, "there was nothing to check") for name in declared if name not in found]
    return [
        dg.AssetCheckResult(
            check_name=check.name,
            passed=bool(check.passed),
            description=check.detail if check.passed is not None else f"not run: {check.detail}",
            severity=dg.AssetCheckSeverity.ERROR
            if check.severity == "error" and check.passed is not None
            else dg.AssetCheckSeverity.WARN,
        )
        for check in [*result.checks, *skipped]
    ]
