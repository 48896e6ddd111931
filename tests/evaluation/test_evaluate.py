"""All arms read off one set of episodes: what is played, how often, and what is refused before that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.evaluation import arms
from trace_assets.evaluation.arms import Composed, evaluate, evaluate_sums, oracle_choice, skill_of
from trace_assets.evaluation.variants import Limits
from trace_assets.records import Route, Task, Trajectory
from trace_assets.settings import EvaluationSection

SECTION = EvaluationSection(trials=2, temperature=0.25, seed=11, dtype="float32")


def task(number: int, split: str = "test") -> Task:
    return Task(task_id=f"t{number}", target="desk", split=split, task_batch="b", tags=(f"s{number}", "x"))  # type: ignore[arg-type]


class Desk:
    name = "desk"

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    def tasks(self, split: str) -> list[Task]:
        return [task(number, split) for number in self.numbers]


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Every variant solves the tasks that its name says, at the first trial only."""
    asked: list[tuple[Any, ...]] = []

    def play(target: Any, tasks: Any, variants: Any, *rest: Any) -> dict[str, list[Trajectory]]:
        asked.append((target, tasks, variants, *rest))
        return {
            name: [
                Trajectory(
                    trajectory_id=f"{name}/{one.task_id}/{trial}",
                    task_id=one.task_id,
                    target="desk",
                    split=one.split,
                    task_batch="b",
                    trial=trial,
                    policy=name,
                    success=one.task_id in name and trial == 0,
                    reward=float(one.task_id in name and trial == 0),
                )
                for one in tasks
                for trial in range(SECTION.trials)
            ]
            for name in variants
        }

    monkeypatch.setattr(arms, "play_variants", play)
    return asked


ADAPTERS = {"to-t1": Path("a"), "mixed": Path("m"), "merged:ties": Path("t")}


def rates(rows: Any) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        arm = found.setdefault(row.arm, {})
        arm[row.task_id] = arm.get(row.task_id, 0) + (row.reward or 0)
    return found


def routes(**choices: str) -> list[Route]:
    return [
        Route(task_id=name, choice=choice, router="r", probabilities={choice: 1.0})
        for name, choice in choices.items()
    ]


def run(*, target: Any = None, **changes: Any) -> tuple[Any, Any]:
    given: dict[str, Any] = {"routes": None, "oracle_choice": None, **changes}
    routed, oracle = given.pop("routes"), given.pop("oracle_choice")
    return evaluate(
        target or Desk(0, 1), Path("base"), ADAPTERS, routed, oracle, SECTION, Path("journal"), **given
    )


def test_every_variant_is_an_arm_and_is_played_once(plays: list[tuple[Any, ...]]) -> None:
    rows, trajectories = run()
    assert set(rates(rows)) == {"base", "adapter:to-t1", "mixed_grpo", "merged:ties"}
    assert rates(rows)["adapter:to-t1"] == {"t0": 0.0, "t1": 1.0} and rates(rows)["base"] == {
        "t0": 0,
        "t1": 0,
    }
    assert len(rows) == 4 * 2 * 2 and {row.skill for row in rows} == {"s0", "s1"}
    assert {row.adapter for row in rows if row.arm == "base"} == {None}
    assert {row.split for row in rows} == {"test"}
    ((target, tasks, variants, _, section, journal, processes, limits),) = plays
    assert target.name == "desk" and [one.task_id for one in tasks] == ["t0", "t1"]
    assert variants == ["none", "merged:ties", "mixed", "to-t1"]
    assert (section, journal, processes, limits) == (SECTION, Path("journal"), arms.PROCESSES, Limits())
    assert len(trajectories) == 4 * 2 * 2


def test_routed_arms_cost_no_episodes(plays: list[tuple[Any, ...]]) -> None:
    rows, trajectories = run(
        routes=routes(t0="to-t1", t1="none"), oracle_choice={"t0": "none", "t1": "to-t1"}
    )
    assert rates(rows)["routed"] == {"t0": 0, "t1": 0}
    assert rates(rows)["oracle_routed"] == {"t0": 0, "t1": 1}
    assert len(rows) == 6 * 2 * 2 and len(trajectories) == 4 * 2 * 2 and len(plays) == 1


@pytest.mark.parametrize("arm", ["routed", "oracle_routed"])
@pytest.mark.parametrize("choice", ["mixed", "merged:ties", "unheard-of"])
def test_a_choice_that_is_none_is_refused_before_anything_is_played(
    plays: list[tuple[Any, ...]], arm: str, choice: str
) -> None:
    given: dict[str, Any] = (
        {"routes": routes(t0=choice, t1="none")}
        if arm == "routed"
        else {"oracle_choice": {"t0": choice, "t1": "none"}}
    )
    with pytest.raises(InputError, match=rf"'{arm}' sends task 't0' to '{choice}'.*\(none, to-t1\)"):
        run(**given)
    assert plays == []


def test_no_tasks_are_nothing_to_evaluate(plays: list[tuple[Any, ...]]) -> None:
    with pytest.raises(InputError, match="'desk' has no tasks in split 'validation'"):
        run(target=Desk(), split="validation")
    assert plays == []


def test_the_split_limits_and_processes_that_are_given_are_used(plays: list[tuple[Any, ...]]) -> None:
    limits = Limits(max_turns=3, max_new_tokens=7)
    rows, _ = run(split="validation", limits=limits, processes=5)
    assert {row.split for row in rows} == {"validation"}
    ((*_, maker, _, _, processes, used),) = plays
    assert used is limits and processes == 5
    assert maker.func is arms.transformers_policy
    assert maker.args == (Path("base"), ADAPTERS, SECTION, limits) and not maker.keywords


def test_whoever_makes_policies_is_asked(plays: list[tuple[Any, ...]]) -> None:
    def maker(*_: Any) -> Any:
        raise AssertionError

    run(make_policy=maker)
    assert plays[0][3] is maker


def test_a_task_without_a_tag_has_no_skill() -> None:
    assert skill_of(task(3)) == "s3"
    assert skill_of(task(3).model_copy(update={"tags": ()})) == ""


SUMS = {"to-t1+x": Path("s"), "to-t0+x": Path("u")}


def test_a_sum_is_played_only_where_some_arm_sends_a_task_to_it(
    plays: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    only: list[Any] = []
    played = arms.play_variants

    def play(*rest: Any, **more: Any) -> Any:
        only.append(more["only"])
        found = played(*rest)
        return {
            name: [row for row in rows if name not in more["only"] or row.task_id in more["only"][name]]
            for name, rows in found.items()
        }

    monkeypatch.setattr(arms, "play_variants", play)
    chosen = {
        "composed": {"t0": "to-t1", "t1": "to-t1+x"},
        "oracle_composed": {"t0": "none", "t1": "to-t1+x"},
    }
    rows, trajectories = run(composed=Composed(SUMS, chosen))
    assert only == [{"to-t1+x": {"t1"}}]
    assert plays[0][2] == ["none", "merged:ties", "mixed", "to-t1", "to-t1+x"]  # the other sum acts nowhere
    assert rates(rows)["composed"] == {"t0": 0, "t1": 1} and rates(rows)["oracle_composed"]["t1"] == 1
    assert {row.adapter for row in rows if row.arm == "composed"} == {"to-t1", "to-t1+x"}
    assert len(trajectories) == 4 * 2 * 2 + 2 and None not in {row.success for row in rows}
    assert not {row.arm for row in rows} & {"sum:to-t1+x", "sum:to-t0+x"}


@pytest.mark.parametrize("choice", ["mixed", "to-t1+unmade", "merged:ties"])
def test_a_set_that_was_not_made_is_refused_before_anything_is_played(
    plays: list[tuple[Any, ...]], choice: str
) -> None:
    with pytest.raises(InputError, match=r"'composed' sends task 't0' to"):
        run(composed=Composed(SUMS, {"composed": {"t0": choice, "t1": "none"}}))
    assert plays == []


def test_validation_plays_each_sum_once_a_task(plays: list[tuple[Any, ...]]) -> None:
    rows, _ = evaluate_sums(Desk(0, 1), Path("base"), SUMS, SECTION, Path("journal"))  # type: ignore[arg-type]
    assert plays[0][2] == ["to-t0+x", "to-t1+x"] and plays[0][4].trials == 1
    maker = plays[0][3]
    once = SECTION.model_copy(update={"trials": 1})
    assert (maker.func, maker.args) == (arms.transformers_policy, (Path("base"), SUMS, once, Limits()))
    assert {row.arm for row in rows} == {"sum:to-t0+x", "sum:to-t1+x"} and len(rows) == 2 * 2
    assert oracle_choice(rows, [task(0), task(1)]) == {"t0": "to-t0+x", "t1": "to-t1+x"}


def test_the_oracle_takes_the_smaller_set_of_two_that_do_as_well(plays: list[tuple[Any, ...]]) -> None:
    single, _ = run(split="validation")
    together, _ = evaluate_sums(Desk(0, 1), Path("base"), SUMS, SECTION, Path("journal"))  # type: ignore[arg-type]
    halves = [row.model_copy(update={"success": True}) for row in single if row.arm == "adapter:to-t1"]
    assert oracle_choice([*halves, *together], [task(1)]) == {"t1": "to-t1"}
