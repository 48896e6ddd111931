"""What a materialization shows: plots, tables, figures with stable names, lineage, where the table lies."""

from pathlib import Path

import dagster as dg
import pytest

from trace_assets.assets.asset import StageResult
from trace_assets.orchestration.configuration import section_rows
from trace_assets.orchestration.pages import column_schema, describe, page_metadata, show_on, small_table
from trace_assets.records import Contrast, RouterScore, Triage
from trace_assets.settings import Settings
from trace_assets.store import Store
from trace_assets.store.history import Spending


def shown(result: StageResult, tmp_path: Path, partition: str = "") -> dict[str, object]:
    spending = Spending()
    spending.add("wall", 1.23456, "s")
    spending.cost_usd = 0.5
    store = Store(tmp_path / "tables")
    return page_metadata("triage", result, spending, records=(Triage,), store=store, partition=partition)


def test_plots_come_first_and_figures_keep_their_names(tmp_path: Path) -> None:
    result = StageResult(
        "v", 7, {"pass_rate": 0.5, "n": 7}, pages={"plot": "![x](data:)"}, tables={"rules": [{"rule": "a"}]}
    )
    metadata = shown(result, tmp_path, "batch")
    assert list(metadata)[:2] == ["plot", "rules"]
    assert metadata["seconds"] == 1.235 and metadata["cost_usd"] == 0.5 and metadata["pass_rate"] == 0.5
    assert metadata["dagster/row_count"] == metadata["dagster/partition_row_count"] == 7
    lineage = metadata["dagster/column_lineage"]
    assert isinstance(lineage, dg.TableColumnLineage)
    assert [dep.column_name for dep in lineage.deps_by_column["task_id"]] == ["task_id"]
    words = metadata["columns come from"]
    assert isinstance(words, dg.MarkdownMetadataValue)
    assert "| `task_id` | `trajectories.task_id` |" in (words.md_str or "")
    assert metadata["table"] == dg.MetadataValue.path(str(tmp_path / "tables" / "triage"))
    Store(tmp_path / "tables").write([], Triage, "batch")
    there = shown(result, tmp_path, "batch")["table"]
    assert there == dg.MetadataValue.path(str(tmp_path / "tables" / "triage" / "batch.parquet"))


def test_a_stage_that_knows_its_cost_better_says_so(tmp_path: Path) -> None:
    assert shown(StageResult("v", 1, {"cost_usd": 2.0}), tmp_path)["cost_usd"] == 2.0
    assert "dagster/partition_row_count" not in shown(StageResult("v", 1), tmp_path)
    assert "rules" not in shown(StageResult("v", 0, tables={"rules": []}), tmp_path)


def test_a_table_and_a_figure_of_one_name_are_both_shown(tmp_path: Path) -> None:
    metadata = shown(StageResult("v", 1, {"candidates": 3}, tables={"candidates": [{"name": "a"}]}), tmp_path)
    assert metadata["candidates"] == 3
    assert isinstance(metadata["candidates (table)"], dg.TableMetadataValue)


def test_columns_say_what_they_mean() -> None:
    columns = {column.name: column for column in column_schema(Contrast).columns}
    assert columns["er_failed"].description == "ER-: LACKING / (LACKING + PRESENT) over failed trajectories."
    assert columns["gap_low"].description == "Lower end of the 95 % interval of `gap`."
    assert columns["capability_id"].constraints.unique and not columns["target"].constraints.unique


def test_description_names_the_tables_and_their_keys() -> None:
    def routing() -> None:
        """Where tasks go.

        Args:
            study: The study.
        """

    text = describe(routing, (RouterScore,))
    assert text.startswith("Where tasks go.\n\nTable `router_scores`: how good a router is")
    assert text.endswith("key `router`, `split`.")


def test_small_tables_take_numbers_and_gaps() -> None:
    table = small_table([{"check": "a", "value": None, "n": 3}, {"check": "b", "value": 0.5, "n": 4}])
    assert [record.data["n"] for record in table.records] == [3, 4]
    assert [column.name for column in table.schema.columns] == ["check", "value", "n"]


def test_an_observation_shows_the_audit_on_the_environment() -> None:
    @dg.asset
    def audit(context: dg.AssetExecutionContext) -> None:
        show_on(context, "environment", "x", StageResult("v", 1, tables={"audit": [{"check": "a"}]}))
        show_on(context, "environment", "y", StageResult("v", 1))

    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([audit], instance=instance)
        seen = instance.fetch_observations(dg.AssetKey("environment"), limit=5).records
    assert [one.partition_key for one in seen] == ["x"]
    observation = seen[0].asset_observation
    assert observation is not None and list(observation.metadata) == ["audit"]


@pytest.mark.parametrize("name", list(Settings.model_fields))
def test_settings_are_shown_with_their_values(name: str) -> None:
    section = Settings().section(name)
    rows = section_rows(section)
    assert [row["setting"] for row in rows] == list(type(section).model_fields)
    assert all(set(row) == {"setting", "value", "meaning"} for row in rows)
