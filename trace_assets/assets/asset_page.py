"""What an asset's page shows: what its tables mean, where they lie, its figures, tables and plots."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from trace_assets.assets.column_lineage import column_lineage
from trace_assets.records import Record
from trace_assets.records.columns import describe_columns
from trace_assets.records.table import polars_schema
from trace_assets.stages.result import StageResult, TableRow
from trace_assets.store.ledger import Spending
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
    lines = [inspect.getdoc(work) or ""]
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
    """Return rows as Dagster shows them in place.

    >>> small_table([{"check": "floor", "n": 64}]).schema.columns[1].type
    'int'
    """
    first: Mapping[str, object] = rows[0]
    columns = [dg.TableColumn(title, type(value).__name__) for title, value in first.items()]
    return dg.MetadataValue.table(
        [dg.TableRecord(_shown(row)) for row in rows], schema=dg.TableSchema(columns=columns)
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
