from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.errors import InputError
from trace_assets.records import Label, LabelValue, Task, Triage
from trace_assets.routing.router import called_for, routing_examples


def task(task_id: str, split: str = "discovery", text: str = "do it") -> Task:
    return Task(task_id=task_id, target="t", split=split, task_batch="b", instruction=text, tags=("secret",))


def row(trajectory_id: str, task_id: str, fault: str | None = "agent") -> Triage:
    outcome = "passed" if fault is None else "failed"
    return Triage(
        trajectory_id=trajectory_id, target="t", task_id=task_id, outcome=outcome, fault=fault, rule="r"
    )


def label(trajectory_id: str, capability: str, value: LabelValue, labelling_pass: int = 0) -> Label:
    return Label(
        trajectory_id=trajectory_id,
        capability_id=capability,
        labelling_pass=labelling_pass,
        labeller="x",
        label=value,
    )


def choices(labels: list[Label], triage: list[Triage], kept: list[str]) -> dict[str, str]:
    tasks = [task(name) for name in {item.task_id for item in triage}]
    return {item.task_id: item.choice for item in routing_examples(tasks, labels, triage, kept)}


def test_a_task_calls_for_what_its_trials_lack() -> None:
    labels = [label("a1", "cancel", "LACKING"), label("b1", "cancel", "PRESENT"), label("c1", "cancel", "NA")]
    triage = [row("a1", "a"), row("b1", "b", None), row("c1", "c", None)]
    assert choices(labels, triage, ["cancel"]) == {"a": "cancel", "b": "none", "c": "none"}


def test_a_broad_capability_does_not_draw_what_the_base_model_does_well() -> None:
    labels = [label(f"{name}1", "broad", "PRESENT") for name in "abcd"] + [label("e1", "broad", "LACKING")]
    found = choices(labels, [row(f"{name}1", name) for name in "abcde"], ["broad"])
    assert [found[name] for name in "abcde"] == ["none"] * 4 + ["broad"]


def test_the_capability_that_is_lacking_most_wins() -> None:
    labels = [
        label("a1", "broad", "PRESENT"),
        label("a2", "broad", "LACKING"),
        label("a1", "exact", "LACKING"),
        label("a2", "exact", "LACKING"),
    ]
    assert choices(labels, [row("a1", "a"), row("a2", "a")], ["broad", "exact"]) == {"a": "exact"}


def test_shares_are_over_trials_and_passes() -> None:
    labels = [
        label("a1", "x", "LACKING", 0),
        label("a1", "x", "PRESENT", 1),
        label("a2", "x", "NA", 0),
        label("a2", "x", "LACKING", 1),
    ]
    found = routing_examples([task("a")], labels, [row("a1", "a"), row("a2", "a")], ["x"])
    assert found[0].shares == {"x": 0.5, "none": 0.5}


def test_the_outcome_changes_nothing() -> None:
    labels = [label("a1", "x", "LACKING"), label("a2", "x", "PRESENT")]
    failed = routing_examples([task("a")], labels, [row("a1", "a"), row("a2", "a")], ["x"])
    passed = routing_examples([task("a")], labels, [row("a1", "a", None), row("a2", "a", None)], ["x"])
    assert failed == passed


@given(st.integers(0, 40), st.integers(0, 40), st.floats(0.01, 1))
def test_the_rule_is_the_one_of_least_expected_cost(needed: int, spared: int, cost: float) -> None:
    shares = {"x": needed / 40, "none": spared / 40}
    applied, left = cost * shares["none"], shares["x"]
    if abs(applied - left) > 1e-9:
        assert called_for(shares, cost) == ("x" if applied < left else "none")


def test_the_cost_of_an_unneeded_adapter_moves_the_choice() -> None:
    labels = [label(f"a{n}", "x", "LACKING" if n == 0 else "NA") for n in range(4)]
    triage = [row(f"a{n}", "a") for n in range(4)]
    chosen = [
        routing_examples([task("a")], labels, triage, ["x"], None, cost)[0].choice for cost in (0.2, 0.9)
    ]
    assert chosen == ["x", "none"]


def test_only_capabilities_with_an_adapter_are_choices() -> None:
    assert choices([label("a1", "x", "LACKING")], [row("a1", "a")], []) == {"a": "none"}


@pytest.mark.parametrize("fault", ["user_simulator", "environment", "infrastructure"])
def test_trajectories_that_broke_without_the_agent_give_no_example(fault: str) -> None:
    assert choices([label("a1", "x", "LACKING")], [row("a1", "a", fault)], ["x"]) == {}


@pytest.mark.parametrize("split", ["validation", "test"])
def test_other_splits_are_never_read(split: str) -> None:
    tasks = [task("a"), task("b", split)]
    labels = [label("a1", "x", "LACKING"), label("b1", "x", "LACKING")]
    found = routing_examples(tasks, labels, [row("a1", "a"), row("b1", "b")], ["x"])
    assert [item.task_id for item in found] == ["a"]


def test_the_first_message_replaces_a_missing_instruction() -> None:
    tasks, triage = [task("a", text="")], [row("a1", "a")]
    assert routing_examples(tasks, [], triage, [], {"a": "hello"})[0].text == "hello"
    with pytest.raises(InputError, match="'a' has no instruction"):
        routing_examples(tasks, [], triage, [])
