from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.errors import InputError
from trace_assets.records import Task
from trace_assets.settings import Training
from trace_assets.training.plan import make_plan


def tasks(n: int) -> list[Task]:
    return [Task(task_id=f"t/{index}", target="t", task_batch="b") for index in range(n)]


@given(n=st.integers(1, 40), iterations=st.integers(1, 6), groups=st.integers(1, 9), seed=st.integers(0, 5))
def test_every_task_is_used_about_equally_often(n: int, iterations: int, groups: int, seed: int) -> None:
    section = Training(iterations=iterations, tasks_per_iteration=groups, seed=seed)
    plan = make_plan(tasks(n), section)
    used = Counter(task.task_id for task in plan.schedule)
    assert len(plan.schedule) == iterations * groups
    assert plan.rollouts == iterations * groups * section.group_size
    assert max(used.values()) - min((used[task.task_id] for task in tasks(n)), default=0) <= 1


def test_the_seed_decides_the_order() -> None:
    one, two, other = (make_plan(tasks(30), Training(seed=seed)).schedule for seed in (1, 1, 2))
    assert one == two != other


@given(iterations=st.integers(1, 200))
def test_a_budget_is_spent_exactly(iterations: int) -> None:
    plan = make_plan(tasks(50), Training(), rollout_budget=iterations * 128)
    assert (plan.iterations, plan.rollouts) == (iterations, iterations * 128)


@pytest.mark.parametrize("budget", [0, 127, 129])
def test_a_budget_that_does_not_fit_is_refused(budget: int) -> None:
    with pytest.raises(InputError, match="whole number of iterations"):
        make_plan(tasks(5), Training(), rollout_budget=budget)


def test_no_tasks_and_a_bad_micro_batch_are_refused() -> None:
    with pytest.raises(InputError, match="no discovery tasks"):
        make_plan([], Training())
    with pytest.raises(InputError, match="micro_batch = 48 does not divide the 128"):
        make_plan(tasks(5), Training(micro_batch=48))
