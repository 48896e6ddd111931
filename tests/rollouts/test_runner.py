from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from counting_target import CountingTarget, obey, obeying

from tests.scripted_policies import ScriptedPolicy, always_say, replay
from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.records import Message, ToolCall, Trajectory
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import Journal, roll_out, run_rollouts


def trials(target: CountingTarget, n: int = 40) -> list[Trial]:
    return [Trial(task) for task in target.tasks("discovery")[:n]]


class Failing(ScriptedPolicy):
    """Obeys, and breaks as told."""

    def __init__(self, error: Exception | None = None, after: int = 0, **flags: bool) -> None:
        super().__init__(obey, name="obey", version="1")
        self.error, self.after, self.flags = error, after, flags
        self.calls = 0
        self.forgotten = 0

    async def act(self, conversation: Conversation) -> Reply:
        self.calls += 1
        await asyncio.sleep(0)
        if self.error is not None and self.calls > self.after:
            raise self.error
        return Reply(obey(conversation), 3, 2, 0.5, **self.flags)

    async def forget(self, conversation: Conversation) -> None:
        self.forgotten += 1


def outcome(trajectories: Sequence[Trajectory]) -> set[tuple[object, ...]]:
    return {(t.success, t.reward, t.stop, t.fault) for t in trajectories}


def test_every_trial_is_played_and_judged() -> None:
    target = CountingTarget()
    played = run_rollouts(target, trials(target), obeying(), max_turns=5, concurrency=7)
    assert len(played) == 40
    assert outcome(played) == {(True, 1.0, "completed", None)}
    assert [t.trajectory_id for t in played] == sorted(t.trajectory_id for t in played)
    assert (target.open, target.closed) == (0, 40)
    assert 1 < target.most <= 7
    longest = max(played, key=lambda t: t.n_messages)
    assert [m.role for m in longest.messages] == ["user", *["assistant", "tool"] * 3, "assistant"]
    assert longest.n_messages == 8


def test_a_running_loop_is_no_obstacle() -> None:
    target = CountingTarget()

    async def notebook() -> list[Trajectory]:
        return run_rollouts(target, trials(target, 4), obeying(), max_turns=5)

    assert len(asyncio.run(notebook())) == 4


def test_rollouts_come_in_the_order_of_their_trials() -> None:
    target = CountingTarget()
    asked = trials(target)
    played = asyncio.run(roll_out(target, asked, obeying(), max_turns=5, concurrency=9))
    assert [r.trajectory.task_id for r in played] == [t.task.task_id for t in asked]


def test_identities_differ_where_outcomes_may() -> None:
    target = CountingTarget()
    task = target.tasks("discovery")[0]
    asked = [Trial(task), Trial(task, 1), Trial(task, 0, 1), Trial(task, 0, 0, "a")]
    first = run_rollouts(target, asked, obeying(), max_turns=5)
    again = run_rollouts(target, asked[::-1], obeying(), max_turns=5)
    assert len({t.trajectory_id for t in first}) == 4
    assert [t.trajectory_id for t in first] == [t.trajectory_id for t in again]
    others = run_rollouts(target, asked, obeying(), max_turns=6)
    others += run_rollouts(target, asked, ScriptedPolicy(obey, name="obey", version="2"), max_turns=5)
    target.version = "2"
    others += run_rollouts(target, asked, obeying(), max_turns=5)
    assert len({t.trajectory_id for t in [*first, *others]}) == 16


def test_conversations_sample_apart_but_alike_under_every_adapter() -> None:
    seeds: dict[tuple[object, ...], int] = {}
    target = CountingTarget()
    asked = [
        Trial(t, k, s, a)
        for t in target.tasks("test")[:3]
        for k in (0, 1)
        for s in (0, 1)
        for a in (None, "a")
    ]

    class Noting(ScriptedPolicy):
        async def act(self, conversation: Conversation) -> Reply:
            seeds[(conversation.conversation_id, conversation.adapter)] = conversation.seed
            return await super().act(conversation)

    run_rollouts(target, asked, Noting(obey, name="n", version="1"), max_turns=5)
    assert len(set(seeds.values())) == 12
    assert len(seeds) == 24


def test_alike_trials_are_refused() -> None:
    target = CountingTarget()
    with pytest.raises(InputError, match="asked for twice"):
        run_rollouts(target, trials(target, 3) + trials(target, 1), obeying(), max_turns=5)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (RuntimeError("boom"), "environment"),
        (TraceError("died"), "environment"),
        (Unavailable("gone"), "infrastructure"),
    ],
)
def test_a_broken_target_earns_no_reward(error: Exception, fault: str) -> None:
    target = CountingTarget()
    target.fault = error
    played = run_rollouts(target, trials(target, 8), obeying(), max_turns=5)
    assert outcome(played) == {(None, None, f"{fault}_error", fault)}
    assert all(str(error) in (t.error or "") for t in played)
    assert all(t.n_messages == 2 and t.checks == () for t in played)
    assert (target.open, target.closed) == (0, 8)


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_a_fault(reward: float) -> None:
    target = CountingTarget()
    target.reward = reward
    played = run_rollouts(target, trials(target, 2), obeying(), max_turns=5)
    assert outcome(played) == {(None, None, "environment_error", "environment")}


@pytest.mark.parametrize("error", [Unavailable("server down"), RuntimeError("bug")])
def test_a_silent_policy_is_a_fault_of_the_infrastructure(error: Exception) -> None:
    target = CountingTarget()
    policy = Failing(error)
    played = run_rollouts(target, trials(target, 8), policy, max_turns=5)
    assert outcome(played) == {(None, None, "infrastructure_error", "infrastructure")}
    assert policy.forgotten == 8


def test_what_the_policy_cannot_do_at_all_ends_the_run() -> None:
    target = CountingTarget()
    with pytest.raises(InputError, match="no adapter"):
        run_rollouts(
            target, trials(target), Failing(InputError("no adapter 'x'")), max_turns=5, concurrency=4
        )
    assert target.made <= 4
    assert target.open == 0


@pytest.mark.parametrize(("flag", "stop"), [("malformed", "agent_error"), ("overflow", "context_overflow")])
@pytest.mark.parametrize("reward", [1.0, -2.0])
def test_unusable_replies_forfeit_also_what_was_right(flag: str, stop: str, reward: float) -> None:
    target = CountingTarget()
    target.reward = reward
    policy = Failing(**{flag: True})
    (played,) = run_rollouts(target, trials(target, 1), policy, max_turns=5)  # the task wants no call
    assert (played.success, played.reward, played.stop, played.fault) == (False, min(reward, 0.0), stop, None)
    assert [(check.name, check.passed) for check in played.checks] == [
        ("count", True),
        ("usable_reply", False),
    ]


def test_turns_are_limited_and_the_state_is_judged() -> None:
    target = CountingTarget()
    played = run_rollouts(target, trials(target, 4), obeying(), max_turns=2)
    assert {t.task_id: (t.success, t.stop) for t in played} == {
        "counting/0": (True, "completed"),
        "counting/1": (True, "completed"),
        "counting/2": (True, "max_turns"),
        "counting/3": (False, "max_turns"),
    }


def test_costs_are_summed_and_unknown_ones_stay_unknown() -> None:
    target = CountingTarget()
    task = target.tasks("discovery")[3]
    (known,) = run_rollouts(target, [Trial(task)], Failing(), max_turns=9)
    assert (known.prompt_tokens, known.completion_tokens, known.cost_usd) == (12, 8, 2.0)
    (unknown,) = run_rollouts(target, [Trial(task)], obeying(), max_turns=9)
    assert (unknown.prompt_tokens, unknown.completion_tokens) == (None, None)


def test_a_hand_over_is_told_from_a_farewell() -> None:
    target = CountingTarget()
    script = replay(
        lambda _: [Message(role="assistant", tool_calls=(ToolCall(id="call_0", name="transfer"),))]
    )
    (played,) = run_rollouts(target, trials(target, 1), script, max_turns=3)
    assert played.stop == "transferred"
    (played,) = run_rollouts(target, trials(target, 1), always_say("bye"), max_turns=3)
    assert played.stop == "completed"


def test_a_script_that_is_too_short_says_so() -> None:
    target = CountingTarget()
    call = Message(role="assistant", tool_calls=(ToolCall(id="call_0", name="add"),))
    with pytest.raises(InputError, match="has 1 messages"):
        run_rollouts(target, trials(target, 1), replay(lambda _: [call]), max_turns=3)


class Interrupted(ScriptedPolicy):
    """Obeys until someone presses Ctrl-C."""

    def __init__(self, after: int) -> None:
        super().__init__(obey, name="obey", version="1")
        self.left = after

    async def act(self, conversation: Conversation) -> Reply:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)
        return await super().act(conversation)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    target = CountingTarget()
    journal = Journal(tmp_path / "journal")
    with pytest.raises(KeyboardInterrupt):
        run_rollouts(target, trials(target), Interrupted(30), max_turns=5, concurrency=4, journal=journal)
    kept = len(journal.load())
    assert 0 < kept < 40
    assert target.open == 0
    again = CountingTarget()
    resumed = run_rollouts(again, trials(again), obeying(), max_turns=5, journal=journal)
    assert again.made == 40 - kept
    fresh = run_rollouts(CountingTarget(), trials(target), obeying(), max_turns=5)
    assert [t.model_copy(update={"seconds": None}) for t in resumed] == [
        t.model_copy(update={"seconds": None}) for t in fresh
    ]
    third = CountingTarget()
    run_rollouts(third, trials(third), obeying(), max_turns=5, journal=journal)
    assert third.made == 0


def test_faulted_trials_are_played_again(tmp_path: Path) -> None:
    target = CountingTarget()
    journal = Journal(tmp_path)
    target.fault = TraceError("died")
    run_rollouts(target, trials(target, 10), obeying(), max_turns=5, journal=journal)
    target.fault = None
    played = run_rollouts(target, trials(target, 10), obeying(), max_turns=5, journal=journal)
    assert outcome(played) == {(True, 1.0, "completed", None)}
    assert target.made == 20


def test_a_server_that_is_down_ends_the_run_early(tmp_path: Path) -> None:
    target = CountingTarget()
    journal = Journal(tmp_path)
    policy = Failing(Unavailable("the server cannot be reached"), after=10)
    with pytest.raises(
        Unavailable, match=r"stopped after .* of .* trials broke.*cannot be reached.*run again"
    ) as info:
        run_rollouts(target, trials(target), policy, max_turns=5, concurrency=2, journal=journal)
    assert 20 <= target.made <= 24
    finished = sum(t.fault is None for t in journal.load().values())
    assert f"{finished} of 40 trials are finished" in str(info.value)


def test_few_faults_do_not_end_the_run() -> None:
    target = CountingTarget()

    class Sometimes(Failing):
        async def act(self, conversation: Conversation) -> Reply:
            if (conversation.messages[0].content or "").endswith("3"):
                raise Unavailable("hiccup")
            return await super().act(conversation)

    played = run_rollouts(target, trials(target), Sometimes(), max_turns=5)
    assert sum(t.fault == "infrastructure" for t in played) == 10
    assert sum(bool(t.success) for t in played) == 30


def test_nothing_to_do_is_done() -> None:
    assert run_rollouts(CountingTarget(), [], obeying(), max_turns=5) == []
