"""Which sum of adapters, or which one for all, stands for a round, and when rounds end."""

from __future__ import annotations

import pytest

from trace_assets.evaluation.choice import choose_agent, why_last
from trace_assets.records import Evaluation

TASKS = 40


def rows(arm: str, passes: dict[str, float]) -> list[Evaluation]:
    """Return one trial of every task of each skill, of which a share passes."""
    return [
        Evaluation(
            task_id=f"{skill}-{index}",
            trial=0,
            arm=arm,
            adapter=None,
            success=index < share * TASKS,
            reward=0.0,
            skill=skill,
            split="validation",
        )
        for skill, share in passes.items()
        for index in range(TASKS)
    ]


BASE = rows("base", {"old": 1.0, "new": 0.0})


def test_the_best_candidate_is_chosen_and_its_gain_is_said_with_n() -> None:
    played = [
        *BASE,
        *rows("adapter:a", {"old": 1.0, "new": 0.5}),
        *rows("adapter:b", {"old": 1.0, "new": 0.25}),
        *rows("sum:a+b", {"old": 1.0, "new": 0.75}),
    ]
    chosen = choose_agent(played, ["a", "b"])
    assert chosen.members == ("a", "b") and chosen.n_candidates == 3
    assert chosen.compared is not None and chosen.compared.n_tasks == 2 * TASKS
    assert chosen.compared.delta.value == pytest.approx(0.375)
    assert "80 validation tasks" in chosen.detail


def test_what_forgets_a_skill_is_not_chosen_though_it_gains_more() -> None:
    played = [
        *BASE,
        *rows("adapter:a", {"old": 0.6, "new": 1.0}),
        *rows("adapter:b", {"old": 1.0, "new": 0.3}),
    ]
    chosen = choose_agent(played, ["a", "b"])
    assert chosen.members == ("b",) and chosen.harmful == ("a",)
    assert "shown to lose on a skill: a" in chosen.detail


def test_a_sum_with_a_barred_member_is_no_candidate() -> None:
    played = [*BASE, *rows("adapter:b", {"new": 0.2}), *rows("sum:a+b", {"old": 1.0, "new": 1.0})]
    assert choose_agent(played, ["b"]).members == ("b",)


def test_a_smaller_sum_wins_a_tie() -> None:
    same = {"old": 1.0, "new": 0.5}
    played = [*BASE, *rows("sum:a+b", same), *rows("adapter:b", same)]
    assert choose_agent(played, ["a", "b"]).members == ("b",)


def test_where_nothing_gains_nothing_is_chosen() -> None:
    played = [*BASE, *rows("adapter:a", {"old": 1.0, "new": 0.0})]
    chosen = choose_agent(played, ["a"])
    assert chosen.members == () and chosen.compared is None
    assert choose_agent(BASE, []).detail == "no adapter may be chosen"


def test_trials_that_broke_count_for_nothing() -> None:
    broken = [one.model_copy(update={"success": None}) for one in rows("adapter:a", {"old": 1, "new": 1})]
    assert choose_agent([*BASE, *broken], ["a"]).members == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((0.2, 1, 3, 0.01, 100, 0), ""),
        ((0.005, 1, 3, 0.01, 100, 0), "below rounds.min_gain"),
        ((0.2, 3, 3, 0.01, 100, 0), "rounds.most = 3"),
        ((0.2, 1, 3, 0.01, 100, 100), "100 training rollouts were spent"),
        ((None, 1, 3, 0.01, 100, 0), "nothing was kept"),
    ],
)
def test_rounds_end_for_a_reason(given: tuple[float | None, int, int, float, int, int], words: str) -> None:
    said = why_last(*given)
    assert (words in said) if words else said == ""


def test_the_one_adapter_for_all_stands_for_a_round_where_it_passes_most() -> None:
    played = [
        *BASE,
        *rows("sum:a+b", {"old": 1.0, "new": 0.5}),
        *rows("together", {"old": 1.0, "new": 0.9}),
        *rows("mixed_grpo", {"old": 1.0, "new": 1.0}),
    ]
    assert choose_agent(played, ["a", "b", "together"]).members == ("together",)
    assert choose_agent(played, ["a", "b"]).members == ("a", "b"), "it rests on another base model"


def test_the_one_adapter_for_all_is_barred_where_it_forgets() -> None:
    played = [
        *BASE,
        *rows("sum:a+b", {"old": 1.0, "new": 0.5}),
        *rows("joint", {"old": 0.5, "new": 1.0}),
    ]
    assert choose_agent(played, ["a", "b", "joint"]).members == ("a", "b")
