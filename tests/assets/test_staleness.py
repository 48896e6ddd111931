"""The plan names exactly what is due, why, and what comes first."""

from pathlib import Path

import dagster as dg
import pytest

from trace_assets.assets.staleness import Item, plan

CAPABILITY = dg.DynamicPartitionsDefinition(name="capability")
BATCH = dg.DynamicPartitionsDefinition(name="task_batch")


def graph(threshold: str, content: dict[str, str]) -> dg.Definitions:
    """A small graph of the pipeline's shape: config -> batch -> fan-in -> capability -> fan-in."""

    def made(name: str) -> dg.MaterializeResult:
        return dg.MaterializeResult(data_version=dg.DataVersion(content.get(name, "same")))

    @dg.asset(key=["config", "selection"], code_version=threshold)
    def selection_section() -> dg.MaterializeResult:
        return dg.MaterializeResult(data_version=dg.DataVersion(threshold))

    @dg.asset(partitions_def=BATCH, code_version="1")
    def trajectories(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        return made(f"trajectories-{context.partition_key}")

    @dg.asset(deps=[trajectories, selection_section], code_version="1")
    def selected() -> dg.MaterializeResult:
        return made("selected")

    @dg.asset(deps=[selected], partitions_def=CAPABILITY, code_version="1")
    def spec(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        return made(f"spec-{context.partition_key}")

    @dg.asset(deps=[spec], partitions_def=CAPABILITY, code_version="1")
    def adapter() -> dg.MaterializeResult:
        return made("adapter")

    @dg.asset(deps=[adapter, selected], code_version="1")
    def routing() -> dg.MaterializeResult:
        return made("routing")

    return dg.Definitions([selection_section, trajectories, selected, spec, adapter, routing])


@pytest.fixture
def instance(tmp_path: Path) -> dg.DagsterInstance:
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions("capability", ["a", "b"])
    instance.add_dynamic_partitions("task_batch", ["one"])
    return instance


def run(definitions: dg.Definitions, instance: dg.DagsterInstance) -> list[str]:
    """Do what the plan says, one ready step at a time; return what ran."""
    ran: list[str] = []
    while steps := plan(definitions, instance):
        step = next(step for step in steps if not step.waits_for)
        dg.materialize(
            list(definitions.assets or []),  # type: ignore[arg-type]
            selection=[dg.AssetKey(step.item.asset.split("/"))],
            partition_key=step.item.partition or None,
            instance=instance,
        )
        ran.append(str(step.item))
        assert len(ran) < 30
    return ran


def test_first_run_makes_everything_once_in_order(instance: dg.DagsterInstance) -> None:
    ran = run(graph("0.2", {}), instance)
    assert sorted(ran) == sorted(
        [
            "config/selection",
            "trajectories[one]",
            "selected",
            "spec[a]",
            "spec[b]",
            "adapter[a]",
            "adapter[b]",
            "routing",
        ]
    )
    assert ran.index("selected") < ran.index("spec[a]") < ran.index("adapter[a]") < ran.index("routing")
    assert run(graph("0.2", {}), instance) == []


def test_threshold_without_effect_stops_at_the_selection(instance: dg.DagsterInstance) -> None:
    run(graph("0.2", {}), instance)
    assert run(graph("0.3", {}), instance) == ["config/selection", "selected"]


def test_firewall_keeps_equal_specs_from_training(instance: dg.DagsterInstance) -> None:
    run(graph("0.2", {}), instance)
    instance.add_dynamic_partitions("capability", ["c"])
    ran = run(graph("0.3", {"selected": "other"}), instance)
    assert set(ran) == {
        "config/selection", "selected", "spec[a]", "spec[b]", "spec[c]", "adapter[c]", "routing",
    }  # fmt: skip
    instance.delete_dynamic_partition("capability", "c")
    assert set(run(graph("0.2", {}), instance)) == {
        "config/selection",
        "selected",
        "spec[a]",
        "spec[b]",
        "routing",
    }


def test_new_batch_leaves_the_old_one_alone(instance: dg.DagsterInstance) -> None:
    run(graph("0.2", {}), instance)
    instance.add_dynamic_partitions("task_batch", ["two"])
    assert run(graph("0.2", {}), instance) == ["trajectories[two]", "selected"]


def test_reasons_selection_and_force(instance: dg.DagsterInstance) -> None:
    definitions = graph("0.2", {})
    first = plan(definitions, instance)
    assert {step.reason for step in first} == {"never materialized"}
    assert [step.item for step in plan(definitions, instance, ["trajectories"])] == [
        Item("trajectories", "one")
    ]
    run(definitions, instance)
    changed = plan(graph("0.3", {}), instance)
    assert [(str(step.item), step.reason) for step in changed] == [
        ("config/selection", "its settings changed")
    ]
    forced = plan(definitions, instance, force={Item("trajectories", "one"): "new files"})
    assert [(str(step.item), step.reason) for step in forced] == [("trajectories[one]", "new files")]
    run(graph("0.2", {"trajectories-one": "x"}), instance)


def test_change_of_content_is_named_as_the_reason(instance: dg.DagsterInstance) -> None:
    definitions = graph("0.2", {})
    run(definitions, instance)
    other = graph("0.2", {"trajectories-one": "x"})
    dg.materialize(
        list(other.assets or []),  # type: ignore[arg-type]
        selection=["trajectories"],
        partition_key="one",
        instance=instance,
    )
    due = plan(other, instance)
    assert [(str(step.item), step.reason) for step in due] == [("selected", "trajectories[one] changed")]
