from __future__ import annotations

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Label, LabelValue, Task, Triage
from trace_assets.routing.examples import routing_examples


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


def test_a_needed_capability_is_the_choice_also_where_the_agent_passed() -> None:
    labels = [label("a1", "cancel", "PRESENT"), label("b1", "cancel", "NA")]
    assert choices(labels, [row("a1", "a", None), row("b1", "b", None)], ["cancel"]) == {
        "a": "cancel",
        "b": "none",
    }


def test_the_capability_that_is_lacking_most_wins() -> None:
    labels = [
        label("a1", "broad", "PRESENT"),
        label("a2", "broad", "LACKING"),
        label("a1", "exact", "LACKING"),
        label("a2", "exact", "LACKING"),
    ]
    assert choices(labels, [row("a1", "a"), row("a2", "a")], ["broad", "exact"]) == {"a": "exact"}


def test_a_tie_goes_to_the_one_lacking_most_elsewhere() -> None:
    labels = [label("a1", "x", "PRESENT"), label("a1", "y", "PRESENT"), label("b1", "y", "LACKING")]
    labels.append(label("b1", "x", "PRESENT"))
    assert choices(labels, [row("a1", "a", None), row("b1", "b")], ["x", "y"])["a"] == "y"


def test_a_capability_needed_in_a_minority_of_trials_does_not_count() -> None:
    labels = [label(f"a{n}", "x", "LACKING" if n == 0 else "NA") for n in range(3)]
    assert choices(labels, [row(f"a{n}", "a") for n in range(3)], ["x"]) == {"a": "none"}


def test_labels_of_several_passes_are_votes() -> None:
    values: list[LabelValue] = ["PRESENT", "LACKING", "NA"]
    labels = [label("a1", "x", value, number) for number, value in enumerate(values)]
    assert choices(labels, [row("a1", "a")], ["x"]) == {"a": "x"}


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
