"""A target in its own process is replayed like any other, once its module says that it can be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.scripted_policies import ScriptedPolicy
from trace_assets.diagnosis.repair.measure import measure, why_not
from trace_assets.policies.protocol import Conversation
from trace_assets.records import Capability, Label, Message, ToolCall
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import run_rollouts
from trace_assets.targets.process.target import ProcessTarget

Opened = Callable[..., ProcessTarget]
REFRAIN = Capability(
    capability_id="refrain",
    target="library",
    name="Refrain from renewing what others have reserved",
    description="",
    analyst="detectors",
    detector="write_against_state",
    detector_args={"tool": "renew_loan", "argument": "loan", "field": "reserved_by_others", "value": "true"},
)


def test_a_failed_run_in_another_process_passes_once_repaired(opened: Opened) -> None:
    target = opened()
    assert why_not(target) == ""
    task = next(one for one in target.tasks("discovery") if one.payload["reserved"] and one.payload["renew"])

    def renew(conversation: Conversation) -> Message:
        turn = sum(message.role == "assistant" for message in conversation.messages)
        if turn == 2:
            return Message(role="assistant", content="It is renewed.")
        made = ToolCall(
            id=f"c{turn}", name=("get_loan", "renew_loan")[turn], arguments={"loan": task.payload["loan"]}
        )
        return Message(role="assistant", tool_calls=(made,))

    policy = ScriptedPolicy(renew, name="careless", version="1")
    (run,) = run_rollouts(target, [Trial(task=task)], policy, max_turns=8)
    assert run.success is False
    lacking = Label(
        trajectory_id=run.trajectory_id,
        capability_id="refrain",
        labeller="detectors",
        label="LACKING",
        evidence=(3, 4),
    )
    found = asyncio.run(measure(target, {task.task_id: task}, [run], [REFRAIN], [lacking]))
    (row,) = found.rows
    assert (row.status, row.kind, row.reward_before, row.reward_after) == ("decisive", "remove", 0.0, 1.0)
    assert row.change == f"renew_loan(loan={task.payload['loan']}) taken out"
    assert row.placebo_passed is False and row.placebo_rewards == (0.0,)


def test_a_module_that_does_not_say_so_is_not_replayed(opened: Opened) -> None:
    target = opened(('"replayable": True', '"replayable": False'))
    assert why_not(target) == (
        "target 'library' does not say that equal calls give equal episodes at no price"
    )
