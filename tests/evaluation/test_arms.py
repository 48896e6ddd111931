from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.errors import InputError
from trace_assets.evaluation.arms import check_choices, compose
from trace_assets.records import Task, Trajectory

TASKS = [
    Task(task_id=f"t{n}", target="t", split="test", task_batch="b", tags=(f"skill{n % 2}",)) for n in range(4)
]


def played(
    variant: str, task_id: str, trial: int, success: bool | None, fault: str | None = None
) -> Trajectory:
    return Trajectory(
        trajectory_id=f"{variant}/{task_id}/{trial}",
        task_id=task_id,
        target="t",
        split="test",
        task_batch="b",
        trial=trial,
        policy="p",
        success=success,
        reward=None if success is None else float(success),
        fault=fault,
    )


def both(trials: int = 2) -> dict[str, list[Trajectory]]:
    return {
        "none": [
            played("none", task.task_id, trial, trial == 0) for task in TASKS for trial in range(trials)
        ],
        "x": [played("x", task.task_id, trial, True) for task in TASKS for trial in range(trials)],
    }


def test_an_arm_counts_the_episodes_of_the_chosen_variant() -> None:
    choices = {"t0": "x", "t1": "none", "t2": "x", "t3": "none"}
    rows = compose("routed", choices, TASKS, 2, both())
    assert [(row.task_id, row.trial, row.adapter, row.success) for row in rows] == [
        ("t0", 0, "x", True),
        ("t0", 1, "x", True),
        ("t1", 0, None, True),
        ("t1", 1, None, False),
        ("t2", 0, "x", True),
        ("t2", 1, "x", True),
        ("t3", 0, None, True),
        ("t3", 1, None, False),
    ]
    assert {row.arm for row in rows} == {"routed"} and rows[2].skill == "skill1"


@given(st.lists(st.sampled_from(["x", "none"]), min_size=4, max_size=4))
def test_arms_that_agree_on_a_task_agree_exactly(choices: list[str]) -> None:
    chosen = {task.task_id: choice for task, choice in zip(TASKS, choices, strict=True)}
    routed = compose("routed", chosen, TASKS, 2, both())
    for variant in ("x", "none"):
        constant = compose("c", {task.task_id: variant for task in TASKS}, TASKS, 2, both())
        for one, other in zip(routed, constant, strict=True):
            if chosen[one.task_id] == variant:
                assert one.model_copy(update={"arm": "c"}) == other


@pytest.mark.parametrize("fault", ["infrastructure", "environment", "user_simulator"])
def test_a_fault_is_a_row_without_success(fault: str) -> None:
    episodes = both()
    episodes["x"][0] = played("x", "t0", 0, False, fault)
    row = compose("adapter:x", {task.task_id: "x" for task in TASKS}, TASKS, 2, episodes)[0]
    assert (row.success, row.reward, row.fault) == (None, None, fault)


def test_the_agents_own_fault_is_a_failure() -> None:
    episodes = both()
    episodes["x"][0] = played("x", "t0", 0, False, "agent")
    row = compose("adapter:x", {task.task_id: "x" for task in TASKS}, TASKS, 2, episodes)[0]
    assert (row.success, row.reward) == (False, 0.0)


def test_a_missing_episode_is_a_fault_and_not_a_failure() -> None:
    row = compose("base", {task.task_id: "none" for task in TASKS}, TASKS, 3, both())[2]
    assert (row.trial, row.success, row.fault) == (2, None, "infrastructure")


def test_choices_must_cover_the_tasks_and_be_usable() -> None:
    full = {task.task_id: "x" for task in TASKS}
    check_choices("routed", full, TASKS, ["none", "x"])
    with pytest.raises(InputError, match="no choice for task 't3'"):
        check_choices("routed", {name: "x" for name in ("t0", "t1", "t2")}, TASKS, ["x"])
    with pytest.raises(InputError, match="'t0' to 'mixed'"):
        check_choices("routed", {**full, "t0": "mixed"}, TASKS, ["none", "x"])
