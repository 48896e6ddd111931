"""A target small enough to see through, with faults on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.scripted_policies import ScriptedPolicy
from trace_assets.policies.protocol import Conversation
from trace_assets.records import Check, Message, Split, Task, ToolCall, ToolSpec, Verdict
from trace_assets.targets.protocol import Step

TOOLS = (ToolSpec(name="add"), ToolSpec(name="transfer"))


class Counting:
    """Asks for a number of calls to `add`, then for any word."""

    def __init__(self, target: CountingTarget, wanted: int, seed: int) -> None:
        self.target, self.wanted, self.seed = target, wanted, seed
        self.made = 0
        self.tools = TOOLS

    async def reset(self) -> Sequence[Message]:
        self.target.open += 1
        self.target.most = max(self.target.most, self.target.open)
        await asyncio.sleep(0)
        return (Message(role="user", content=f"add {self.wanted}"),)

    async def step(self, message: Message) -> Step:
        await asyncio.sleep(0)
        if self.target.fault is not None:
            raise self.target.fault
        if not message.tool_calls:
            return Step(done=True)
        self.made += sum(call.name == "add" for call in message.tool_calls)
        if any(call.name == "transfer" for call in message.tool_calls):
            return Step(done=True)
        return Step(messages=(Message(role="tool", content="ok", tool_call_id=message.tool_calls[0].id),))

    async def verdict(self) -> Verdict:
        right = self.made == self.wanted
        reward = self.target.reward if self.target.reward is not None else float(right)
        return Verdict(
            reward=reward, success=right, checks=(Check(name="count", kind="state", passed=right),)
        )

    async def close(self) -> None:
        self.target.closed += 1
        self.target.open -= 1


class CountingTarget:
    name, version, policy, tools = "counting", "1", "", TOOLS

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.reward: float | None = None
        self.open = self.most = self.closed = self.made = 0

    def tasks(self, split: Split) -> Sequence[Task]:
        return tuple(
            Task(task_id=f"counting/{n}", target="counting", task_batch="b", payload={"wanted": n % 4})
            for n in range(40)
        )

    def episode(self, task: Task, *, seed: int) -> Counting:
        self.made += 1
        return Counting(self, task.payload["wanted"], seed)


def obey(conversation: Conversation) -> Message:
    """Do what the first message asks."""
    done = sum(bool(message.tool_calls) for message in conversation.messages)
    wanted = int((conversation.messages[0].content or "").split()[1])
    if done < wanted:
        return Message(role="assistant", tool_calls=(ToolCall(id=f"call_{done}", name="add"),))
    return Message(role="assistant", content="done")


def obeying() -> ScriptedPolicy:
    return ScriptedPolicy(obey, name="obey", version="1")


def open_both() -> tuple[CountingTarget, ScriptedPolicy]:
    return CountingTarget(), obeying()


def open_broken() -> tuple[CountingTarget, ScriptedPolicy]:
    from trace_assets.errors import InputError

    raise InputError("there is no model here")


def open_and_die() -> tuple[CountingTarget, ScriptedPolicy]:
    import os

    os._exit(9)
