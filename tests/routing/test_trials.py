"""Trials carry all that routers need of the diagnosis, and nothing that is not taught."""

from trace_assets.records import Label, Task, Triage
from trace_assets.routing.router import routing_examples
from trace_assets.routing.scores import examples_of_trials, routing_trials

TASKS = [
    Task(task_id=name, target="desk", task_batch="desk", instruction=f"please {name}", split=split)
    for name, split in (("a", "discovery"), ("b", "discovery"), ("held", "test"))
]
TRIAGE = [
    Triage(
        trajectory_id=f"{task}{trial}",
        target="desk",
        task_id=task,
        outcome="failed",
        fault="infrastructure" if (task, trial) == ("b", 1) else "agent",
        rule="",
    )
    for task in ("a", "b", "held")
    for trial in (0, 1)
]


def label(trajectory: str, capability: str, value: str, number: int = 0) -> Label:
    return Label(
        trajectory_id=trajectory,
        capability_id=capability,
        label=value,  # type: ignore[arg-type]
        labelling_pass=number,
        labeller="x",
    )


LABELS = [
    *(label("a0", "x", "LACKING", number) for number in (0, 1)),
    label("a0", "untaught", "LACKING"),
    *(label("a1", "x", value, number) for number, value in enumerate(("PRESENT", "LACKING"))),
    label("b0", "y", "LACKING"),
    label("b1", "y", "LACKING"),
    label("elsewhere", "x", "LACKING"),
]


def test_trials_hold_what_is_taught_on_usable_discovery_trials() -> None:
    rows = routing_trials(TASKS, LABELS, TRIAGE, {"x", "y"})
    assert [(row.trajectory_id, row.task_id, row.text, row.lacking) for row in rows] == [
        ("a0", "a", "please a", {"0": ["x"], "1": ["x"]}),
        ("a1", "a", "please a", {"0": [], "1": ["x"]}),
        ("b0", "b", "please b", {"0": ["y"]}),
    ]


def test_examples_are_those_of_the_labels_themselves() -> None:
    rows = routing_trials(TASKS, LABELS, TRIAGE, {"x", "y"})
    for choices in (["x", "y"], ["y"], []):
        assert examples_of_trials(rows, choices) == routing_examples(TASKS, LABELS, TRIAGE, choices)
