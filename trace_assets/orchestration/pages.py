"""What an asset's page shows: what its tables mean, where they lie, its figures, tables and plots."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from trace_assets.assets.asset import StageResult, TableRow
from trace_assets.records import Record
from trace_assets.records.base import describe_columns
from trace_assets.records.table import polars_schema
from trace_assets.store.history import Spending
from trace_assets.store.tables import WHOLE, Store
from trace_assets.untrusted.printable import in_markdown, one_line, plain


def column_schema(record: type[Record]) -> dg.TableSchema:
    """Return a record type's table schema as Dagster shows it, every column with what it means."""
    meaning = describe_columns(record)
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name,
                str(dtype),
                description=meaning.get(name),
                constraints=dg.TableColumnConstraints(unique=record.key == (name,)),
            )
            for name, dtype in polars_schema(record).items()
        ]
    )


def describe(work: Callable[..., object], records: Sequence[type[Record]]) -> str:
    """Return an asset's description: its function's docstring, and which tables it writes."""
    # What comes from `Args:` on is for those who call it.
    lines = [re.split(r"\n\n(?:Args|Returns|Raises):\n", inspect.getdoc(work) or "")[0]]
    for record in records:
        words = (inspect.getdoc(record) or "").split("\n\n")[0].replace("\n", " ")
        said = words.partition(": ")[2].rstrip(".") or "its rows"
        lines.append(f"Table `{record.table}`: {said}; key {', '.join(f'`{name}`' for name in record.key)}.")
    return "\n\n".join(lines)


def definition_metadata(records: Sequence[type[Record]]) -> dict[str, Any]:
    """Return what is known of an asset's tables before it was ever materialized."""
    if not records:
        return {}
    return {
        "dagster/column_schema": column_schema(records[0]),
        "dagster/table_name": records[0].table,
        "dagster/storage_kind": "parquet",
        **{f"columns of {record.table}": column_schema(record) for record in records[1:]},
    }


def page_metadata(
    name: str,
    result: StageResult,
    spending: Spending,
    *,
    records: Sequence[type[Record]],
    store: Store,
    partition: str,
) -> dict[str, Any]:
    """Return what a materialization shows: plots and tables first, then figures, then where it lies.

    Figures keep their names from one materialization to the next, so Dagster draws them over time; wall time
    and money are on every asset, and a stage that knows them better gives its own.
    """
    lineage = column_lineage(name, list(records[0].model_fields)) if records else None
    taken = {*result.pages, *result.figures}
    return {
        **_pages(result),
        **{
            one_line(f"{title} (table)" if title in taken else title): small_table(rows)
            for title, rows in result.tables.items()
            if rows
        },
        "seconds": round(spending.quantities.get(("wall", "s"), 0.0), 3),
        "cost_usd": round(spending.cost_usd, 6),
        **_shown(result.figures),
        "dagster/row_count": result.rows,
        **({"dagster/partition_row_count": result.rows} if partition else {}),
        **({"dagster/column_lineage": lineage, "columns come from": in_words(lineage)} if lineage else {}),
        **({"table": dg.MetadataValue.path(str(_lies_at(store, records[0], partition)))} if records else {}),
    }


def show_on(context: dg.AssetExecutionContext, asset: str, partition: str, result: StageResult) -> None:
    """Show a result's plots and tables on the page of another asset too: of the one that it judges.

    It is an observation, which makes nothing due again.
    """
    metadata: dict[str, Any] = {
        **_pages(result),
        **{one_line(title): small_table(rows) for title, rows in result.tables.items() if rows},
    }
    if metadata:
        context.log_event(dg.AssetObservation(asset, partition=partition, metadata=metadata))


def markdown(page: str) -> dg.MarkdownMetadataValue:
    """Return a page for Dagster to show; see `in_markdown` for what of it is markup."""
    return dg.MetadataValue.md(in_markdown(page))


def _pages(result: StageResult) -> dict[str, dg.MarkdownMetadataValue]:
    return {one_line(title): markdown(page) for title, page in result.pages.items()}


def _shown(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures with words that can be shown anywhere."""
    return {
        one_line(name): plain(value) if isinstance(value, str) else value for name, value in figures.items()
    }


def small_table(rows: Sequence[TableRow]) -> dg.TableMetadataValue:
    """Return rows as Dagster shows them in place: it wants every column in every row.

    >>> shown = small_table([{"check": "floor", "n": 64}, {"check": "idle", "share": 0.5}])
    >>> [(column.name, column.type) for column in shown.schema.columns]
    [('check', 'string'), ('n', 'int'), ('share', 'float')]
    >>> shown.records[1].data
    {'check': 'idle', 'n': None, 'share': 0.5}
    """
    types: dict[str, str] = {}
    for row in rows:
        for title, value in row.items():
            types.setdefault(one_line(title), type(value).__name__)
    columns = [dg.TableColumn(title, "string" if kind == "str" else kind) for title, kind in types.items()]
    return dg.MetadataValue.table(
        [dg.TableRecord({**dict.fromkeys(types), **_shown(row)}) for row in rows],
        schema=dg.TableSchema(columns=columns),
    )


def in_words(lineage: dg.TableColumnLineage) -> dg.MarkdownMetadataValue:
    """Return a lineage as a table: the open-source pages keep column lineage and do not draw it."""
    lines = ["| column | made from |", "|---|---|"]
    for column, sources in lineage.deps_by_column.items():
        named = ", ".join(f"`{one.asset_key.to_user_string()}.{one.column_name}`" for one in sources)
        lines.append(f"| `{column}` | {named} |")
    return markdown("\n".join(lines))


def _lies_at(store: Store, record: type[Record], partition: str) -> Path:
    file = store.path(record, partition or WHOLE)
    return file if file.is_file() else file.parent


# From which columns each column comes: declared once, shown by Dagster column by column.


Sources = tuple[str, ...]
"""Columns as `asset.column`."""

_JUDGED: Sources = ("labels.label", "triage.outcome", "triage.fault")
_OVER_TASKS: Sources = (*_JUDGED, "triage.task_id")
_READ: Sources = ("trajectories.trajectory_id", "trajectories.success")
_TAUGHT: Sources = ("capability_spec.detector", "capability_spec.detector_args", "target_contract.contract")
_AUDITED: Sources = ("environment.source", "target_contract.contract", "base_model.base_id")
_TRAINED: Sources = ("environment.source", "base_model.base_id")
_DECIDED: Sources = (
    "contrast.gap",
    "contrast.coverage",
    "contrast.q_value",
    "contrast.alpha",
    "contrast.n_failed_relevant",
    "contrast.n_passed_relevant",
    *_JUDGED,
)
_ROUTED: Sources = (
    "tasks.instruction",
    "labels.label",
    "triage.outcome",
    "adapter.name",
    "adapter.validation_before",
    "adapter.validation_after_low",
    "adapter_validation.verdict",
    "base_model.base_id",
)
_PLAYED: Sources = ("routing.choice", "adapter.adapter_id", "mixed_adapter.adapter_id", "base_model.base_id")

COLUMN_SOURCES: Mapping[str, Mapping[str, Sources]] = {
    "triage": {
        "trajectory_id": ("trajectories.trajectory_id",),
        "target": ("trajectories.target",),
        "task_id": ("trajectories.task_id",),
        "outcome": ("trajectories.success",),
        "*": ("trajectories.success", "trajectories.fault", "trajectories.stop"),
    },
    "capability_dictionary": {
        "target": ("trajectories.target",),
        "*": (*_READ, "triage.outcome", "triage.fault"),
    },
    "labels": {
        "trajectory_id": ("trajectories.trajectory_id",),
        "capability_id": ("capability_dictionary.capability_id",),
        "labeller": ("capability_dictionary.analyst",),
        "*": (
            "trajectories.trajectory_id",
            "capability_dictionary.description",
            "capability_dictionary.detector",
            "capability_dictionary.detector_args",
        ),
    },
    "contrast": {
        "capability_id": ("labels.capability_id",),
        "target": ("triage.target",),
        "er_failed": _JUDGED,
        "er_passed": ("labels.label", "triage.outcome"),
        "gap": _JUDGED,
        "coverage": _JUDGED,
        "n_failed": ("triage.outcome", "triage.fault"),
        "n_passed": ("triage.outcome",),
        "n_passed_relevant": ("labels.label", "triage.outcome"),
        "n_passed_lacking": ("labels.label", "triage.outcome"),
        "alpha": ("labels.label", "labels.labelling_pass"),
        "*": _OVER_TASKS,
    },
    "selected_capabilities": {
        "capability_id": ("contrast.capability_id",),
        "target": ("contrast.target",),
        "name": ("capability_dictionary.name",),
        "marginal_coverage": _JUDGED,
        "*": _DECIDED,
    },
    "failure_causes": {
        "trajectory_id": ("triage.trajectory_id",),
        "target": ("triage.target",),
        "task_id": ("triage.task_id",),
        "party": ("triage.fault",),
        "capability": ("labels.label", "labels.capability_id", "contrast.gap", "selected_capabilities.rank"),
        "*": ("triage.detail", "triage.rule", "labels.label", "selected_capabilities.kept"),
    },
    "capability_spec": {
        "capability_id": ("selected_capabilities.capability_id", "selected_capabilities.kept"),
        "target": ("capability_dictionary.target",),
        "name": ("capability_dictionary.name",),
        "description": ("capability_dictionary.description",),
        "detector": ("capability_dictionary.detector",),
        "detector_args": ("capability_dictionary.detector_args",),
    },
    "target_contract": {
        "target": ("trajectories.target",),
        "n_trajectories": ("trajectories.trajectory_id",),
        "*": _READ,
    },
    "decision_patterns": {
        "capability_id": ("labels.capability_id",),
        "trajectory_id": ("trajectories.trajectory_id",),
        "label": ("labels.label",),
        "*": _READ,
    },
    "environment": {
        "capability_id": ("capability_spec.capability_id",),
        "target": ("capability_spec.target",),
        "*": _TAUGHT,
    },
    "environment_audit": {
        "environment_id": ("environment.environment_id",),
        "capability_id": ("environment.capability_id",),
        "*": _AUDITED,
    },
    "adapter": {
        "name": ("environment.capability_id",),
        "capability_id": ("environment.capability_id",),
        "environment_id": ("environment.environment_id",),
        "base_id": ("base_model.base_id",),
        "*": _TRAINED,
    },
    "pilot": {
        "capability_id": ("environment.capability_id",),
        "environment_id": ("environment.environment_id",),
        "*": (*_TRAINED, "capability_spec.detector", "capability_spec.detector_args"),
    },
    "learnability": {
        "capability_id": ("environment.capability_id",),
        "environment_id": ("environment.environment_id",),
        "adapter_id": ("adapter.adapter_id",),
        "*": ("environment_audit.environment_id", "adapter.adapter_id"),
    },
    "mixed_adapter": {"base_id": ("base_model.base_id",), "*": ("base_model.base_id",)},
    "joint_adapters": {"base_id": ("base_model.base_id",), "*": _TRAINED},
    "consolidated": {
        "base_id": ("base_model.base_id",),
        "*": (*_TRAINED, "adapter.adapter_id", "routing.choice"),
    },
    "interference": {
        "capability_id": ("environment.capability_id",),
        "other_id": ("environment.capability_id",),
        "*": ("environment.environment_id", "base_model.base_id"),
    },
    "composition_choice": {"*": ("adapter_validation.adapter", "routing.choice", "interference.verdict")},
    "adapter_validation": {
        "adapter": ("adapter.name",),
        "own_skills": ("tasks.tags", "labels.label", "triage.outcome"),
        "*": ("adapter.adapter_id", "base_model.base_id", "tasks.task_id", "tasks.tags"),
    },
    "routing": {"task_id": ("tasks.task_id",), "*": _ROUTED},
    "evaluation": {
        "task_id": ("routing.task_id",),
        "adapter": ("routing.choice", "adapter.name"),
        "*": _PLAYED,
    },
}
"""Asset to column to what it is made from; `*` stands for the columns that are not named."""


def column_lineage(asset: str, columns: list[str]) -> dg.TableColumnLineage | None:
    """Return the lineage of an asset's columns; None where none is declared."""
    declared = COLUMN_SOURCES.get(asset)
    if declared is None:
        return None
    others = declared.get("*", ())
    found = {column: declared.get(column, others) for column in columns}
    return dg.TableColumnLineage(
        deps_by_column={
            column: [_dependency(source) for source in sources]
            for column, sources in found.items()
            if sources
        }
    )


def _dependency(source: str) -> dg.TableColumnDep:
    asset, _, column = source.rpartition(".")
    return dg.TableColumnDep(asset_key=dg.AssetKey(asset.split("/")), column_name=column)
