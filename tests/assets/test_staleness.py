"""The plan names exactly what is due, why, and what comes first."""

from functools import cache

import dagster as dg
import pytest

from tests.assets.scripted_loop import held, hold
from trace_assets.orchestration.materialization import QUIET
from trace_assets.orchestration.planner import Item, Planner, Standing, plan

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


def begin(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """Make the partitions of the graph known."""
    instance.add_dynamic_partitions("capability", ["a", "b"])
    instance.add_dynamic_partitions("task_batch", ["one"])
    return instance


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return begin(dg.DagsterInstance.ephemeral())


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
            run_config=QUIET,
        )
        ran.append(str(step.item))
        assert len(ran) < 30
    return ran


@cache
def _finished() -> dict[str, bytes]:
    with dg.DagsterInstance.ephemeral() as instance:
        begin(instance)
        run(graph("0.2", {}), instance)
        return held(instance)


def finish(instance: dg.DagsterInstance) -> dg.Definitions:
    """Have the graph up to date in an instance, as after its first run, and return it."""
    hold(instance, _finished())
    return graph("0.2", {})


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
    finish(instance)
    assert run(graph("0.3", {}), instance) == ["config/selection", "selected"]


@pytest.mark.ci
def test_firewall_keeps_equal_specs_from_training(instance: dg.DagsterInstance) -> None:
    finish(instance)
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
    finish(instance)
    instance.add_dynamic_partitions("task_batch", ["two"])
    assert run(graph("0.2", {}), instance) == ["trajectories[two]", "selected"]


def test_reasons_selection_and_force(instance: dg.DagsterInstance) -> None:
    definitions = graph("0.2", {})
    first = plan(definitions, instance)
    assert {step.reason for step in first} == {"never materialized"}
    assert [step.item for step in plan(definitions, instance, ["trajectories"])] == [
        Item("trajectories", "one")
    ]
    finish(instance)
    changed = plan(graph("0.3", {}), instance)
    assert [(str(step.item), step.reason) for step in changed] == [
        ("config/selection", "its settings changed"),
        ("selected", "config/selection changed"),  # settings are known before they are recorded
    ]
    forced = plan(definitions, instance, force={Item("trajectories", "one"): "new files"})
    assert [(str(step.item), step.reason) for step in forced] == [("trajectories[one]", "new files")]
    run(graph("0.2", {"trajectories-one": "x"}), instance)


def test_change_of_content_is_named_as_the_reason(instance: dg.DagsterInstance) -> None:
    finish(instance)
    other = graph("0.2", {"trajectories-one": "x"})
    dg.materialize(
        list(other.assets or []),  # type: ignore[arg-type]
        selection=["trajectories"],
        partition_key="one",
        instance=instance,
    )
    due = plan(other, instance)
    assert [(str(step.item), step.reason) for step in due] == [("selected", "trajectories[one] changed")]


def report(instance: dg.DagsterInstance, partition: str, version: str, **tags: str) -> None:
    """Let a batch of trajectories be made, without a run."""
    noted = {"dagster/code_version": "1", "dagster/data_version": version}
    more = {f"trace/{name}": value for name, value in tags.items()}
    event = dg.AssetMaterialization("trajectories", partition=partition, tags={**noted, **more})
    instance.report_runless_asset_event(event)


def test_a_partition_that_is_gone_is_seen_downstream(instance: dg.DagsterInstance) -> None:
    definitions = graph("0.2", {})
    instance.add_dynamic_partitions("task_batch", ["two"])
    run(definitions, instance)
    instance.delete_dynamic_partition("task_batch", "two")
    due = plan(definitions, instance)
    assert [(str(step.item), step.reason) for step in due] == [
        ("selected", "a partition of trajectories is gone")
    ]
    instance.add_dynamic_partitions("task_batch", ["two"])
    assert plan(definitions, instance) == []


@pytest.mark.ci
def test_a_fan_in_over_a_hundred_partitions_still_sees_one_of_them_change(
    instance: dg.DagsterInstance,
) -> None:
    definitions = graph("0.2", {})
    names = [f"batch{number:03d}" for number in range(120)]
    instance.add_dynamic_partitions("task_batch", names)
    for name in names:
        report(instance, name, "same")
    run(definitions, instance)
    report(instance, "batch007", "other")
    due = plan(definitions, instance)
    assert [(str(step.item), step.reason) for step in due] == [("selected", "trajectories[batch007] changed")]
    assert run(definitions, instance) == ["selected"]


def test_there_and_back_again_is_no_reason(instance: dg.DagsterInstance) -> None:
    definitions = finish(instance)
    report(instance, "one", "other")
    assert plan(definitions, instance) != []
    report(instance, "one", "same")
    assert plan(definitions, instance) == []


def test_a_failed_blocking_check_holds_back_what_lies_behind_it(instance: dg.DagsterInstance) -> None:
    finish(instance)
    report(instance, "one", "partial", blocked_by="labels_complete")
    (held,) = plan(graph("0.2", {}), instance)
    assert held.item == Item("selected") and held.held_by == (Item("trajectories", "one"),)
    report(instance, "one", "partial", blocked_by="labels_complete", unfinished="true")
    unfinished, held = plan(graph("0.2", {}), instance)
    assert unfinished.item == Item("trajectories", "one") and held.waits_for == (unfinished.item,)
    assert unfinished.reason == "its check labels_complete failed"
    report(instance, "one", "same")
    assert plan(graph("0.2", {}), instance) == []


def test_single_partitions_can_be_looked_at(instance: dg.DagsterInstance) -> None:
    definitions = graph("0.2", {})
    due = plan(definitions, instance, ["spec[a]", "routing"])
    assert [str(step.item) for step in due] == ["spec[a]", "routing"]


def test_a_selection_takes_along_the_settings_that_it_reads(instance: dg.DagsterInstance) -> None:
    definitions = graph("0.2", {})
    due = plan(definitions, instance, ["selected"])
    assert [str(step.item) for step in due] == ["config/selection", "selected"]
    assert due[1].waits_for == (due[0].item,)
    finish(instance)
    assert [str(step.item) for step in plan(graph("0.3", {}), instance, ["selected"])] == [
        "config/selection",
        "selected",
    ]
    assert plan(graph("0.3", {}), instance, ["routing"]) == []


def test_what_may_follow_is_what_lies_behind(instance: dg.DagsterInstance) -> None:
    finish(instance)
    planner = Planner(graph("0.3", {}), instance)
    steps = planner.look()
    assert [str(step.item) for step in steps] == ["config/selection", "selected"]
    assert {str(item) for item in planner.items_after(steps)} == {
        "spec[a]", "spec[b]", "adapter[a]", "adapter[b]", "routing",
    }  # fmt: skip


def test_why_an_item_is_due_has_a_kind(instance: dg.DagsterInstance) -> None:
    finish(instance)
    planner = Planner(graph("0.3", {}), instance)
    assert [dict(step.causes) for step in planner.look()] == [
        {"its settings changed": "settings"},
        {"config/selection changed": "settings"},
    ]
    report(instance, "one", "other")
    recoded = Planner(graph("0.2", {}), instance).look()
    assert [dict(step.causes) for step in recoded] == [{"trajectories[one] changed": "input"}]
    forced = planner.look(force={Item("trajectories", "one"): "asked for"})
    assert [dict(step.causes) for step in forced if step.item.asset == "trajectories"] == [{}]


def test_items_are_left_out_or_settled(instance: dg.DagsterInstance) -> None:
    finish(instance)
    other = graph("0.3", {})

    def plan_with(**standings: Standing) -> list[str]:
        planner = Planner(other, instance, standing=lambda item: standings.get(item.asset, "planned"))
        return [str(step.item) for step in planner.look()]

    assert plan_with() == ["config/selection", "selected"]
    assert plan_with(selected="settled") == plan_with(selected="left out") == ["config/selection"]
    instance.add_dynamic_partitions("task_batch", ["two"])
    assert "trajectories[two]" in plan_with(trajectories="settled"), "what is missing is made"
    assert "trajectories[two]" not in plan_with(trajectories="left out")


def test_what_is_spared_keeps_nothing_waiting(instance: dg.DagsterInstance) -> None:
    finish(instance)
    report(instance, "one", "other")
    planner = Planner(graph("0.3", {}), instance)
    planner.spared = lambda item, causes: item.asset == "selected"
    assert [str(step.item) for step in planner.look()] == ["config/selection"]


def test_what_is_supposed_to_be_made_is_up_to_date_and_changes_what_reads_it(
    instance: dg.DagsterInstance,
) -> None:
    finish(instance)
    planner = Planner(graph("0.3", {}), instance)
    planner.look()
    planner.suppose(Item("config/selection"), "0.3")
    planner.suppose(Item("selected"), "same")
    assert planner.look(touched=()) == []
    planner.suppose(Item("selected"), "another")
    assert [str(step.item) for step in planner.look(touched=())] == ["spec[a]", "spec[b]", "routing"]
    planner.supposed_keys["capability"] = ["a", "new"]
    due = {str(step.item): step.reason for step in planner.look(touched=())}
    assert due["spec[new]"] == due["adapter[new]"] == "never materialized" and "spec[b]" not in due
    assert plan(graph("0.2", {}), instance) == [], "nothing was recorded"
