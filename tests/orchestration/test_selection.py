"""A selection brings in what it is written from, where that was never made, and nothing else."""

from __future__ import annotations

import dagster as dg
import pytest

from trace_assets.cli.pipeline import _tell_end
from trace_assets.cli.progress import _Lines
from trace_assets.orchestration.materialization import Outcome
from trace_assets.orchestration.planner import Item, Step, plan
from trace_assets.orchestration.sync_run import Synced

CAPABILITY = dg.DynamicPartitionsDefinition(name="capability")
READS = {
    "labels": (),
    "capability_spec": ("labels",),
    "target_contract": (),
    "decision_patterns": ("capability_spec", "labels"),
    "environment": ("capability_spec", "decision_patterns", "target_contract"),
    "adapter": ("environment",),
}
WHOLE = {"labels", "target_contract"}


def graph() -> dg.Definitions:
    """Return a graph whose assets do nothing."""

    def made(name: str) -> dg.AssetsDefinition:
        @dg.asset(
            name=name,
            deps=list(READS[name]),
            partitions_def=None if name in WHOLE else CAPABILITY,
            code_version="1",
        )
        def asset() -> None:
            """Do nothing."""

        return asset

    return dg.Definitions([made(name) for name in READS])


@pytest.fixture
def instance() -> dg.DagsterInstance:
    found = dg.DagsterInstance.ephemeral()
    found.add_dynamic_partitions("capability", ["a", "b"])
    return found


def due(instance: dg.DagsterInstance, *selection: str) -> list[str]:
    return [str(step.item) for step in plan(graph(), instance, selection=selection)]


def test_environments_bring_what_they_are_written_from(instance: dg.DagsterInstance) -> None:
    found = due(instance, "environment")
    each = [f"{name}[{key}]" for name in ("capability_spec", "decision_patterns") for key in "ab"]
    assert set(found) == {*each, "target_contract", "environment[a]", "environment[b]"}
    assert found.index("target_contract") < found.index("environment[a]")


def test_of_one_capability_only_its_own(instance: dg.DagsterInstance) -> None:
    assert set(due(instance, "environment[b]")) == {
        *("capability_spec[b]", "decision_patterns[b]", "target_contract", "environment[b]")
    }


def test_what_was_made_and_other_selections_bring_nothing(instance: dg.DagsterInstance) -> None:
    assert due(instance, "adapter") == ["adapter[a]", "adapter[b]"]
    assert due(instance, "labels") == ["labels"]
    for name, key in (("capability_spec", "a"), ("decision_patterns", "a"), ("target_contract", None)):
        instance.report_runless_asset_event(dg.AssetMaterialization(name, partition=key))
    assert due(instance, "environment[a]") == ["environment[a]"]


def test_what_has_no_row_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True)
    step = Step(Item("environment", "a"), "never materialized", ())
    empty = Outcome(step.item, True, 0.1, 0, warnings=("environment_written: no recipe fits.",))
    full = Outcome(Item("environment", "b"), True, 0.1, 1)
    lines = _Lines(console, quiet=False)
    for one in (empty, full):
        lines("end", one.item, one)
    _tell_end(console, Synced([empty, full]), 2)
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("○ environment[a]") and "no recipe fits" in told[1]
    assert told[2].startswith("✓ environment[b]")
    assert told[3] == "2 made. Without a row (○): environment[a]."
    assert not Outcome(step.item, False, 0.1, 0).is_empty
