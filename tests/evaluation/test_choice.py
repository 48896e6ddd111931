"""What is released is decided on validation tasks, with intervals, and never against a refusal."""

from __future__ import annotations

from trace_assets.evaluation.arms import compose_rows
from trace_assets.evaluation.choice import choose, chosen_arm, clear, sentence
from trace_assets.records import Evaluation


def rows(arm: str, passed: list[bool | None]) -> list[Evaluation]:
    return [
        Evaluation(task_id=f"t{n}", trial=0, arm=arm, adapter=None, success=one, reward=None)
        for n, one in enumerate(passed)
    ]


def test_the_best_on_validation_is_chosen_and_says_by_how_much() -> None:
    played = [
        *rows("base", [False] * 40),
        *rows("routed", [True] * 10 + [False] * 30),
        *rows("composed", [True] * 30 + [False] * 10),
        *rows("mixed_grpo", [True] * 40),
    ]
    found = choose(played, {})
    assert [row.arm for row in found] == ["base", "routed", "composed"]  # no rival is a candidate
    assert chosen_arm(found) == "composed" and clear(found) is True
    routed = found[1]
    assert routed.runner_up and routed.behind == 0.5 and routed.n_tasks == 40
    assert routed.behind_low is not None and 0.3 < routed.behind_low < 0.5
    assert "'composed': 75.0 %" in sentence(found) and "+50.0 [" in sentence(found)


def test_among_equals_the_simplest_is_chosen() -> None:
    same = [True, False] * 10
    found = choose([*rows("composed", same), *rows("joint", same), *rows("routed", same)], {})
    assert chosen_arm(found) == "routed" and clear(found) is False


def test_what_is_refused_is_shown_and_never_chosen() -> None:
    played = [*rows("routed", [True, False] * 5), *rows("sum", [True] * 10)]
    found = choose(played, {"sum": "they pull apart", "composed": "they pull apart"})
    assert chosen_arm(found) == "routed"
    refused = {row.arm: row for row in found if row.refused}
    assert set(refused) == {"sum", "composed"} and refused["sum"].pass_rate == 1.0
    assert refused["composed"].pass_rate is None and refused["composed"].n_tasks == 0
    assert "'composed' is refused: they pull apart" in sentence(found)


def test_faults_count_for_nothing_and_nothing_gives_routing() -> None:
    found = choose([*rows("base", [None, None]), *rows("routed", [None, True])], {})
    assert [row.n_tasks for row in found] == [0, 1] and chosen_arm(found) == "routed"
    assert chosen_arm(choose([], {})) == "routed" and "nothing is chosen" in sentence([])


def test_an_arm_is_read_off_the_variants_rows() -> None:
    played = [*rows("base", [False] * 4), *rows("adapter:a", [True, True]), *rows("sum:a+b", [True])]
    found = compose_rows("composed", {"t0": "a+b", "t1": "none", "t2": "a"}, played)
    assert [(row.task_id, row.success, row.arm) for row in found] == [
        ("t1", False, "composed"),
        ("t0", True, "composed"),
    ]
