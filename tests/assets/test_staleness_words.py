"""What the plan says of a graph that changed, and what may follow from what is due."""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg
import pytest

from tests.assets.test_staleness import BATCH, CAPABILITY, begin, finish, graph, report, run
from trace_assets.orchestration.planner import Item, Planner, Step, nodes_of, plan


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return begin(dg.DagsterInstance.ephemeral())


def made_of(parents: Mapping[str, list[str]], *, code: str = "1") -> dg.Definitions:
    """A graph of assets without partitions, each with its parents."""

    def make(name: str) -> dg.AssetsDefinition:
        @dg.asset(name=name, deps=parents[name], code_version=code)
        def _asset() -> dg.MaterializeResult:
            return dg.MaterializeResult(data_version=dg.DataVersion("same"))

        return _asset

    return dg.Definitions([make(name) for name in parents])


def reasons(definitions: dg.Definitions, instance: dg.DagsterInstance) -> dict[str, str]:
    return {str(step.item): step.reason for step in plan(definitions, instance)}


def test_a_new_parent_and_one_that_is_read_no_longer_are_named(instance: dg.DagsterInstance) -> None:
    parents = {"a": [], "b": [], "c": [], "d": [], "e": ["a", "b"]}
    run(made_of(parents), instance)
    assert reasons(made_of(parents), instance) == {}
    assert reasons(made_of({**parents, "e": ["a", "b", "c"]}), instance) == {"e": "it reads c now"}
    assert reasons(made_of({**parents, "e": ["a"]}), instance) == {"e": "it reads b no longer"}
    assert reasons(made_of({**parents, "e": ["c", "d"]}), instance) == {
        "e": "it reads c, d now; it reads a, b no longer"
    }


def test_more_than_three_are_counted(instance: dg.DagsterInstance) -> None:
    names = [f"p{number}" for number in range(4)]
    parents: dict[str, list[str]] = {name: [] for name in names}
    run(made_of({**parents, "e": []}), instance)
    assert reasons(made_of({**parents, "e": names[:3]}), instance) == {"e": "it reads p0, p1, p2 now"}
    assert reasons(made_of({**parents, "e": names}), instance) == {"e": "it reads p0, p1 and 2 more now"}


def test_changed_code_is_a_reason_of_its_own(instance: dg.DagsterInstance) -> None:
    run(made_of({"a": [], "b": ["a"]}), instance)
    assert reasons(made_of({"a": [], "b": ["a"]}, code="2"), instance) == dict.fromkeys(
        "ab", "its code changed"
    )


def test_a_parent_that_was_made_anew_with_other_content_is_named(instance: dg.DagsterInstance) -> None:
    finish(instance)
    other = dg.AssetMaterialization(
        "selected", tags={"dagster/code_version": "1", "dagster/data_version": "other"}
    )
    instance.report_runless_asset_event(other)
    due = {str(step.item): step.reason for step in plan(graph("0.2", {}), instance)}
    assert due["spec[a]"] == due["spec[b]"] == due["routing"] == "selected changed"


def test_several_reasons_stand_beside_each_other(instance: dg.DagsterInstance) -> None:
    finish(instance)
    report(instance, "one", "other", blocked_by="c", unfinished="true")
    due = {str(step.item): step.reason for step in plan(graph("0.2", {}), instance)}
    assert due == {"trajectories[one]": "its check c failed", "selected": "trajectories[one] changed"}


def names(items: list[Item]) -> set[str]:
    return {str(item) for item in items}


def after(planner: Planner, *items: Item) -> set[str]:
    return names(planner.items_after([Step(item, "because", ()) for item in items]))


def test_what_may_follow_stays_within_its_capability(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("task_batch", ["two"])
    run(graph("0.2", {}), instance)
    planner = Planner(graph("0.2", {}), instance)
    planner.look()
    assert after(planner, Item("spec", "a")) == {"adapter[a]", "routing"}
    assert after(planner, Item("spec", "a"), Item("spec", "b")) == {"adapter[a]", "adapter[b]", "routing"}
    assert after(planner, Item("adapter", "a")) == {"routing"}
    assert after(planner, Item("routing")) == set()
    assert after(planner, Item("spec", "a"), Item("routing")) == {"adapter[a]"}
    rest = {"selected", "spec[a]", "spec[b]", "adapter[a]", "adapter[b]", "routing"}
    assert after(planner, Item("trajectories", "one")) == rest
    assert after(planner, Item("config/selection"), Item("spec", "b")) == rest - {"spec[b]"}


def test_what_may_follow_is_what_is_looked_at(instance: dg.DagsterInstance) -> None:
    finish(instance)
    planner = Planner(graph("0.2", {}), instance, ["spec", "adapter[b]"])
    planner.look()
    assert after(planner, Item("selected")) == {"spec[a]", "spec[b]", "adapter[b]"}


def test_batches_that_are_not_looked_at_are_left_alone(instance: dg.DagsterInstance) -> None:
    instance.add_dynamic_partitions("task_batch", ["two"])
    definitions = graph("0.2", {})
    due = plan(definitions, instance, partitions=["two"])
    assert {str(step.item) for step in due if step.item.asset == "trajectories"} == {"trajectories[two]"}
    assert {"spec[a]", "adapter[b]", "routing"} <= {str(step.item) for step in due}


def test_a_step_waits_for_its_own_partition_and_for_all_of_another_kind(instance: dg.DagsterInstance) -> None:
    waits = {str(step.item): names(list(step.waits_for)) for step in plan(graph("0.2", {}), instance)}
    assert waits["config/selection"] == waits["trajectories[one]"] == set()
    assert waits["selected"] == {"config/selection", "trajectories[one]"}
    assert waits["adapter[a]"] == waits["selected"] | {"selected", "spec[a]"}
    assert waits["routing"] == {one for one in waits if one != "routing"}


def test_a_second_look_reads_only_what_was_touched(instance: dg.DagsterInstance) -> None:
    definitions = finish(instance)
    planner = Planner(definitions, instance)
    assert planner.look() == []
    report(instance, "one", "other")
    assert planner.look(touched=[]) == []
    assert planner.look(touched=["selected", "unheard of"]) == []
    assert [str(step.item) for step in planner.look(touched=["trajectories"])] == ["selected"]


def test_a_new_partition_is_seen_at_the_next_look(instance: dg.DagsterInstance) -> None:
    definitions = finish(instance)
    planner = Planner(definitions, instance)
    planner.look()
    instance.add_dynamic_partitions("capability", ["c"])
    due = planner.look(touched=[])
    assert [(str(step.item), step.reason) for step in due] == [
        ("spec[c]", "never materialized"),
        ("adapter[c]", "never materialized"),
    ]


def test_a_reason_that_is_given_counts_only_where_there_is_no_better_one(
    instance: dg.DagsterInstance,
) -> None:
    definitions = graph("0.2", {})
    forced = {Item("trajectories", "one"): "asked for", Item("routing"): "asked for"}
    first = {str(step.item): step.reason for step in plan(definitions, instance, force=forced)}
    assert first["trajectories[one]"] == "never materialized"
    finish(instance)
    due = {str(step.item): step.reason for step in plan(definitions, instance, force=forced)}
    assert due == {"trajectories[one]": "asked for", "routing": "asked for"}
    assert [str(step.item) for step in plan(definitions, instance, ["routing"], force=forced)] == ["routing"]


def many(instance: dg.DagsterInstance, count: int) -> list[str]:
    """So many batches, all made, and everything behind them."""
    batches = [f"batch{number:03d}" for number in range(count)]
    instance.delete_dynamic_partition("task_batch", "one")
    instance.add_dynamic_partitions("task_batch", batches)
    for name in batches:
        report(instance, name, "same")
    run(graph("0.2", {}), instance)
    return batches


@pytest.mark.ci
@pytest.mark.parametrize("count", [99, 100, 101])
def test_about_a_hundred_partitions(instance: dg.DagsterInstance, count: int) -> None:
    batches = many(instance, count)
    report(instance, batches[3], "same")
    again = {str(step.item) for step in plan(graph("0.2", {}), instance)}
    assert again == (set() if count < 100 else {"selected"}), "from a hundred on any new one counts"
    report(instance, batches[3], "other")
    due = plan(graph("0.2", {}), instance)
    assert [(str(step.item), step.reason) for step in due] == [
        ("selected", f"trajectories[{batches[3]}] changed")
    ]


def test_what_could_not_be_made_is_no_part_of_the_graph() -> None:
    outside = dg.AssetSpec("outside")

    @dg.asset(deps=["outside"], partitions_def=CAPABILITY, tags={"a": "b"}, code_version="7")
    def inside() -> None: ...

    @dg.asset(deps=["inside"], partitions_def=BATCH)
    def behind() -> None: ...

    nodes = nodes_of(dg.Definitions([outside, inside, behind]))
    assert list(nodes) == ["inside", "behind"]
    assert nodes["inside"].parents == () and nodes["inside"].dimension == "capability"
    assert nodes["inside"].code == "7" and dict(nodes["inside"].tags) == {"a": "b"}
    assert (nodes["behind"].parents, nodes["behind"].upstream) == (("inside",), frozenset({"inside"}))
