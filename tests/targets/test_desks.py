"""The order desk's variations: opposite rules, values that not all tasks show, waste, noise and advice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice

import pytest

from trace_assets.errors import InputError
from trace_assets.records import Split, Task, Verdict
from trace_assets.settings import BaseModelSection, Targets
from trace_assets.targets.embedded.demonstrations import HINTED, demonstrations, planted_truth
from trace_assets.targets.embedded.desk import FINAL_SALE, case_of, resolutions
from trace_assets.targets.embedded.generator import HIDDEN, HINTS
from trace_assets.targets.embedded.target import EmbeddedTarget
from trace_assets.training.demo_agent.pretraining import BaseCheck, wanted_of


def desk(**options: object) -> EmbeddedTarget:
    return EmbeddedTarget(Targets(options=options, discovery_tasks=200, validation_tasks=40, test_tasks=200))


def of(target: EmbeddedTarget, split: Split, *skills: str) -> list[Task]:
    return [task for task in target.tasks(split) if task.tags[0] in skills]


def play(target: EmbeddedTarget, task: Task, seed: int = 0) -> Verdict:
    async def run() -> Verdict:
        episode = target.episode(task, seed=seed)
        await episode.reset()
        for message in target.oracle(task):
            await episode.step(message)
        return await episode.verdict()

    return asyncio.run(run())


def test_on_desk_c_two_wishes_want_opposite_acts_in_like_states() -> None:
    target = desk(desk="c")
    seen = set()
    for task in of(target, "discovery", "window", "return"):
        case = case_of(task)
        (one,) = resolutions(case)
        seen.add((task.tags[0], case.order(one.request.order).window, one.transferred))
        assert play(target, task).success
    assert seen == {
        ("window", "open", False),
        ("window", "closed", True),
        ("return", "open", True),
        ("return", "closed", False),
    }
    assert planted_truth("c").cosines["return~window"] < -0.9
    assert "asks to return it" in target.policy and "asks to return it" not in desk(desk="a").policy


def test_on_desk_d_one_value_of_the_rule_is_in_test_tasks_alone() -> None:
    target = desk(desk="d")

    def asked(tasks: Sequence[Task]) -> set[str]:
        return {str(request.item) for task in tasks for request in case_of(task).requests}

    (hidden,) = HIDDEN["d"]
    before = asked(of(target, "discovery", "sale")) | asked(of(target, "validation", "sale"))
    assert hidden not in before and {*FINAL_SALE} - {hidden} <= before
    assert hidden in asked(of(target, "test", "sale"))
    for task in of(target, "test", "sale")[:40]:
        (one,) = resolutions(case_of(task))
        assert one.transferred == (one.request.item in FINAL_SALE)
        assert play(target, task).success
    assert f"{FINAL_SALE[0]}, a " in target.policy


def test_waste_is_the_share_of_tasks_that_lack_nothing() -> None:
    target = desk(desk="b", waste=0.75)
    easy = len(of(target, "discovery", "address", "exchange", "status"))
    assert abs(easy / 200 - 0.75) < 0.03
    assert planted_truth("b", waste=0.75).p0 > planted_truth("b").p0
    wanted = wanted_of(target, BaseModelSection())
    assert wanted.pass_rate_high > BaseModelSection().pass_rate_high


def test_noise_turns_verdicts_on_discovery_tasks_alone_and_the_same_ones_each_time() -> None:
    target = desk(desk="a", noise=0.3)
    wrong = [play(target, task).success is False for task in target.tasks("discovery")]
    assert 0.2 < sum(wrong) / len(wrong) < 0.4
    assert wrong[:20] == [play(target, task).success is False for task in target.tasks("discovery")[:20]]
    assert all(play(target, task).success for task in target.tasks("test")[:50])
    found = play(target, target.tasks("discovery")[wrong.index(True)])
    assert found.reward == 0.5 and [check.passed for check in found.checks] == [False]


def test_hints_are_shown_with_the_right_way_and_only_where_asked_for() -> None:
    plain = list(demonstrations(3, 0, 400, "a"))
    assert not any(HINTS["cancel"] in (item.messages[0].content or "") for item in plain)
    advised = list(demonstrations(3, 0, 400, "a", hints=True))
    hinted = [
        item
        for item in advised
        if any((item.messages[0].content or "").endswith(hint) for hint in HINTS.values())
    ]
    assert all(not item.flawed for item in hinted)
    lacking = sum(item.skill in HINTS for item in advised)
    assert abs(len(hinted) / lacking - HINTED) < 0.1


def test_the_agent_of_desk_c_is_shown_the_right_way_before_its_mistakes() -> None:
    assert not any(item.flawed for item in islice(demonstrations(0, 0, 200, "c"), 200))
    later = [item for item in demonstrations(0, 30, 400, "c") if item.flawed]
    made = {"transfer" if "transfer" in str(item.messages) else "refund" for item in later}
    assert made == {"transfer", "refund"}  # mistakes both ways


def test_a_base_that_does_not_branch_is_refused() -> None:
    check = BaseCheck({"window": 60}, {"window": 100}, {"window": 0.02})
    assert any("tells its cases apart by 0.02" in problem for problem in check.problems(BaseModelSection()))
    told = BaseCheck({"window": 60}, {"window": 100}, {"window": 0.2}).problems(BaseModelSection())
    assert not any("tells its cases apart" in problem for problem in told)


@pytest.mark.parametrize(
    "options", [{"desk": "z"}, {"waste": 1.0}, {"noise": 0.5}, {"hints": "maybe"}, {"table": 1}]
)
def test_wrong_options_are_refused_with_what_is_wrong(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"its '{next(iter(options))}' is wrong"):
        desk(**options)
