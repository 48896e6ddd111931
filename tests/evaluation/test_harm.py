from __future__ import annotations

import pytest

from trace_assets.evaluation.non_inferiority import acceptance, excluded, no_harm, own_skills
from trace_assets.records import Adapter, Evaluation, NoHarm, Task
from trace_assets.routing.router import RoutingExample


def adapter(before: float, after: float, low: float) -> Adapter:
    return Adapter(
        adapter_id="h",
        name="cancel",
        kind="capability",
        capability_id="cancel",
        environment_id="e",
        base_id="b",
        path="p",
        iterations=1,
        best_iteration=1,
        rollouts=1,
        validation_before=before,
        validation_before_low=before - 0.1,
        validation_before_high=before + 0.1,
        validation_after=after,
        validation_after_low=low,
        validation_after_high=1.0,
        validation_n=64,
    )


def rows(arm: str, skill: str, rate: float, n: int = 60) -> list[Evaluation]:
    """`n` tasks with four trials each, of which a share passes, spread evenly over tasks and trials."""
    return [
        Evaluation(
            task_id=f"{skill}{index // 4}",
            trial=index % 4,
            arm=arm,
            adapter=None,
            success=int((index + 1) * rate) > int(index * rate),
            reward=None,
            skill=skill,
        )
        for index in range(4 * n)
    ]


def judged(other: float, n: int = 60) -> NoHarm:
    validation = [
        *rows("base", "cancel", 0.4),
        *rows("adapter:x", "cancel", 0.9),
        *rows("base", "status", 0.9, n),
        *rows("adapter:x", "status", other, n),
    ]
    return no_harm(validation, {"x": {"cancel"}}, ["x"], resamples=400)[0]


@pytest.mark.parametrize(
    ("before", "after", "low", "accepted"),
    [(0.4, 0.9, 0.8, True), (0.4, 0.5, 0.4, False), (0.9, 0.5, 0.4, False)],
)
def test_an_adapter_is_accepted_when_its_interval_clears_the_base(
    before: float, after: float, low: float, accepted: bool
) -> None:
    found = acceptance(adapter(before, after, low))
    assert found.accepted is accepted and "64 held-out episodes" in found.reason


def test_own_and_other_skills_are_told_apart() -> None:
    row = judged(0.9)
    assert (row.own_n, row.other_n, row.own_skills) == (60, 60, ("cancel",))
    assert row.own_base == pytest.approx(0.4, abs=0.01) and row.own_adapter == pytest.approx(0.9, abs=0.01)
    assert row.own_delta_low is not None and row.own_delta_low > 0.3


def test_no_loss_is_harmless() -> None:
    row = judged(0.9)
    assert row.verdict == "harmless" and row.other_delta == pytest.approx(0)


def test_a_broken_skill_is_flagged() -> None:
    row = judged(0.02)
    assert row.verdict == "harmful" and "router" in row.reason
    assert row.other_delta_high is not None and row.other_delta_high < -0.7


def test_a_few_tasks_show_neither() -> None:
    row = judged(0.8, n=5)
    assert row.verdict == "unclear" and "5 validation tasks" in row.reason


def test_nothing_to_compare_is_unclear() -> None:
    row = no_harm(rows("base", "cancel", 0.4), {"x": {"cancel"}}, ["x"], resamples=200)[0]
    assert (row.verdict, row.own_n, row.other_n, row.other_delta) == ("unclear", 0, 0, None)


def test_a_tag_belongs_to_what_its_tasks_call_for_on_the_whole() -> None:
    tags = {"a": "refund", "b": "refund", "c": "refund", "d": "status", "e": "status", "f": None}
    tasks = [
        Task(task_id=name, target="t", task_batch="b", tags=(tag,) if tag else ())
        for name, tag in tags.items()
    ]
    lacking = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.05, "e": 0.0, "f": 1.0}
    examples = [
        RoutingExample(name, "text", "none", {"x": share, "none": 1 - share})
        for name, share in lacking.items()
    ]
    assert own_skills(examples, tasks) == {"x": frozenset({"refund"})}


def test_router_may_not_choose_what_harms_others_and_does_not_help_its_own() -> None:
    harmful = judged(0.5)
    assert harmful.verdict == "harmful" and harmful.own_delta_low is not None and harmful.own_delta_low > 0
    useless = harmful.model_copy(update={"adapter": "useless", "own_delta_low": -0.01})
    unknown = harmful.model_copy(update={"adapter": "unknown", "own_delta_low": None})
    harmless = useless.model_copy(update={"adapter": "harmless", "verdict": "harmless"})
    assert excluded([harmful, useless, unknown, harmless]) == ["unknown", "useless"]
