from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.errors import Unavailable
from trace_assets.policies.protocol import Conversation, Reply, TokenTrace
from trace_assets.records import Message, Split, Task, ToolSpec, Trajectory, Verdict
from trace_assets.targets.protocol import Step
from trace_assets.training.episodes import Player, episode_seed, is_broken, to_row
from trace_assets.training.validation import validate


class Counting:
    """A target whose episodes end after one reply; `breaks` is asked before the verdict."""

    name, version, policy = "counting", "1", ""
    tools: Sequence[ToolSpec] = ()

    def __init__(self, breaks: Callable[[Task, int], bool]) -> None:
        self.breaks, self.seeds = breaks, list[int]()

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(task_id=f"counting/{index}", target="counting", task_batch="b") for index in range(30)]

    def episode(self, task: Task, *, seed: int) -> OneReply:
        self.seeds.append(seed)
        return OneReply(task, self.breaks(task, seed))


class OneReply:
    tools: Sequence[ToolSpec] = ()

    def __init__(self, task: Task, broken: bool) -> None:
        self.task, self.broken = task, broken

    async def reset(self) -> Sequence[Message]:
        return [Message(role="user", content="hello")]

    async def step(self, message: Message) -> Step:
        if self.broken:
            raise Unavailable("the worker died.")
        return Step(done=True)

    async def verdict(self) -> Verdict:
        even = int(self.task.task_id.rpartition("/")[2]) % 2 == 0
        return Verdict(reward=float(even), success=even)

    async def close(self) -> None:
        pass


class Silent:
    name, version = "silent", "1"

    async def act(self, conversation: Conversation) -> Reply:
        return Reply(Message(role="assistant", content=""))

    async def forget(self, conversation: Conversation) -> None:
        pass

    async def close(self) -> None:
        pass


def player(target: Counting) -> Player:
    return Player(target, Silent(), seed=1, max_turns=2, concurrency=8)


def test_a_broken_episode_is_drawn_again_with_another_seed() -> None:
    first: set[str] = set()

    def breaks(task: Task, seed: int) -> bool:
        again = task.task_id in first
        first.add(task.task_id)
        return not again

    target = Counting(breaks)
    with player(target) as playing:
        rollouts = playing.play(target.tasks("discovery"), "batch")
    assert len(target.seeds) == len(set(target.seeds)) == 60
    assert not any(is_broken(rollout.trajectory) for rollout in rollouts)
    assert [r.trajectory.task_id for r in rollouts] == [t.task_id for t in target.tasks("discovery")]


def test_every_episode_is_a_trial_of_its_own_also_of_one_task() -> None:
    target = Counting(lambda task, seed: False)
    first, second = target.tasks("discovery")[:2]
    with player(target) as playing:
        rollouts = playing.play([first, first, second], "batch")
    made = [(one.trajectory.task_id, one.trajectory.trial) for one in rollouts]
    assert made == [("counting/0", 0), ("counting/0", 1), ("counting/1", 2)]
    assert len({one.trajectory.trajectory_id for one in rollouts}) == 3


def test_the_batch_decides_the_seeds() -> None:
    targets = [Counting(lambda task, seed: False) for _ in range(3)]
    for target, batch in zip(targets, ("a", "a", "b"), strict=True):
        with player(target) as playing:
            playing.play(target.tasks("discovery"), batch)
    assert sorted(targets[0].seeds) == sorted(targets[1].seeds)
    assert not set(targets[0].seeds) & set(targets[2].seeds)


def test_a_rate_counts_judged_episodes_alone() -> None:
    target = Counting(lambda task, seed: task.task_id in ("counting/0", "counting/1", "counting/2"))
    with player(target) as playing:
        rate = validate(playing, target.tasks("validation"), "batch")
    assert (rate.successes, rate.n) == (13, 27)
    assert rate.interval[0] < rate.rate == 13 / 27 < rate.interval[1]


def test_too_many_broken_episodes_are_an_error_with_the_reason() -> None:
    target = Counting(lambda task, seed: int(task.task_id[9:]) < 16)
    with (
        player(target) as playing,
        pytest.raises(Unavailable, match=r"16 of 30 .* in batch \(the worker died\)"),
    ):
        playing.play(target.tasks("discovery"), "batch")


@pytest.mark.parametrize(
    ("verdict", "broken", "said"),
    [
        ("the box.", None, "(the box)"),
        ("it ended...", None, "(it ended)"),
        (None, Verdict(reward=None, success=None), "(no reason given)"),
    ],
)
def test_the_reason_is_told_without_its_full_stop(
    verdict: str | None, broken: Verdict | None, said: str
) -> None:
    class Ends(OneReply):
        async def step(self, message: Message) -> Step:
            if verdict is not None:
                raise Unavailable(verdict)
            return Step(done=True)

        async def verdict(self) -> Verdict:
            assert broken is not None
            return broken

    class Ending(Counting):
        def episode(self, task: Task, *, seed: int) -> OneReply:
            return Ends(task, False)

    target = Ending(lambda task, seed: True)
    with player(target) as playing, pytest.raises(Unavailable) as caught:
        playing.play(target.tasks("discovery"), "batch")
    assert said in str(caught.value)


def test_half_of_the_episodes_may_be_broken() -> None:
    target = Counting(lambda task, seed: int(task.task_id[9:]) < 15)
    with player(target) as playing:
        rollouts = playing.play(target.tasks("discovery"), "batch")
    assert [is_broken(one.trajectory) for one in rollouts] == [True] * 15 + [False] * 15


@pytest.mark.parametrize(("reward", "success"), [(None, True), (1.0, None)])
def test_without_a_reward_or_a_verdict_an_episode_is_broken(
    reward: float | None, success: bool | None
) -> None:
    one = trajectory(1.0).model_copy(update={"reward": reward, "success": success})
    assert is_broken(one)
    row = to_row(one, TokenTrace([1, 2], [0, 1], [0.0, -1.0]), 0)
    assert (row.reward, row.success, row.own) == (None, None, [0])


def test_seeds_lie_below_two_to_the_31_and_hang_on_all_three() -> None:
    made = [episode_seed(*one) for one in ((0, "a", 0), (1, "a", 0), (0, "b", 0), (0, "a", 1))]
    assert len(set(made)) == 4
    many = [episode_seed(0, "a", row) for row in range(200)]
    assert (1 << 30) < max(many) < (1 << 31) and len(set(many)) == 200


def test_tokens_before_the_first_own_one_are_the_prompt_and_a_filler_stands_for_none() -> None:
    row = to_row(trajectory(1.0), TokenTrace([7, 8], [1, 0], [-1.0, 0.0]), 3)
    assert (row.prompt_ids, row.completion_ids, row.own) == ([3], [7], [1])
    for tokens in (None, TokenTrace([7, 8], [0, 0], [0.0, 0.0])):
        row = to_row(trajectory(0.5), tokens, 3)
        assert (row.prompt_ids, row.completion_ids, row.own, row.logprobs) == ([3], [3], [0], [0.0])
        assert (row.reward, row.success) == (0.5, False)


def trajectory(reward: float | None) -> Trajectory:
    return Trajectory(
        trajectory_id="t",
        task_id="t",
        target="t",
        task_batch="b",
        policy="p",
        reward=reward,
        success=None if reward is None else reward > 0.5,
    )


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.sampled_from([0.0, 1.0, None]))
def test_a_row_holds_every_own_token_and_nothing_behind_the_last(
    own: list[bool], reward: float | None
) -> None:
    ids = list(range(100, 100 + len(own)))
    trace = TokenTrace(ids, [int(mine) for mine in own], [-1.0 * mine for mine in own])
    row = to_row(trajectory(reward), trace, 0)
    assert len(row.completion_ids) == len(row.logprobs) == len(row.own) >= 1
    assert row.prompt_ids
    written = [token for token, mine in zip(ids, own, strict=True) if mine]
    kept = [token for token, mine in zip(row.completion_ids, row.own, strict=True) if mine]
    assert kept == ([] if reward is None else written)
    if written:
        assert row.completion_ids[0] == written[0] and row.completion_ids[-1] == written[-1]


def test_a_broken_episode_has_neither_reward_nor_own_tokens() -> None:
    row = to_row(trajectory(None), TokenTrace([1, 2, 3], [0, 1, 1], [0.0, -1.0, -1.0]), 0)
    assert (row.reward, row.success, sum(row.own)) == (None, None, 0)
    assert to_row(trajectory(None), None, 7).completion_ids == [7]
