from __future__ import annotations

import pytest

from trace_assets.evaluation.arms import best_single_choice, choice_of, oracle_choice, rates_by_skill
from trace_assets.records import Evaluation, Task


def rows(arm: str, skill: str, passes: list[list[bool | None]]) -> list[Evaluation]:
    return [
        Evaluation(
            task_id=f"{skill}{n}",
            trial=trial,
            arm=arm,
            adapter=None,
            success=success,
            reward=None,
            skill=skill,
        )
        for n, trials in enumerate(passes)
        for trial, success in enumerate(trials)
    ]


def task(skill: str | None) -> Task:
    return Task(
        task_id=f"test/{skill}", target="t", split="test", task_batch="b", tags=(skill,) if skill else ()
    )


VALIDATION = [
    *rows("base", "cancel", [[True, False], [False, False]]),
    *rows("adapter:x", "cancel", [[True, True], [True, True]]),
    *rows("mixed_grpo", "cancel", [[True, True], [True, True]]),
    *rows("base", "status", [[True, True]] * 3),
    *rows("adapter:x", "status", [[False, False]] * 3),
    *rows("adapter:y", "status", [[True, True]] * 3),
]


def test_each_skill_gets_its_best_variant() -> None:
    found = oracle_choice(VALIDATION, [task("cancel"), task("status")])
    assert found == {"test/cancel": "x", "test/status": "none"}


def test_the_mixed_arm_is_never_a_choice() -> None:
    assert set(rates_by_skill(VALIDATION)["cancel"]) == {"none", "x"}


@pytest.mark.parametrize(
    "arm", ["mixed_grpo", "merged:ties", "round:2", "joint", "routed", "adapter:", "sum"]
)
def test_what_no_router_may_choose_is_no_choice(arm: str) -> None:
    assert choice_of(arm) is None


def test_a_skill_that_validation_lacks_goes_to_none() -> None:
    assert oracle_choice(VALIDATION, [task("new"), task(None)]) == {"test/new": "none", "test/None": "none"}


def test_the_best_single_choice_looks_at_all_tasks() -> None:
    only = [row for row in VALIDATION if row.arm != "adapter:y"]
    assert best_single_choice(only) == "none"
    assert best_single_choice([row for row in only if row.skill == "cancel"]) == "x"
    assert best_single_choice([]) == "none"


def test_every_task_weighs_the_same_and_faults_do_not_count() -> None:
    evaluations = rows("base", "s", [[True, None, None], [False, False, False]])
    assert rates_by_skill(evaluations) == {"s": {"none": 0.5}}
    uneven = rows("base", "s", [[True, False, True, False], [True]])
    assert rates_by_skill(uneven) == {"s": {"none": 0.75}}
