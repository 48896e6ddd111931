"""One trial of one case at the order desk."""

from __future__ import annotations

import json
from collections.abc import Sequence

from trace_assets.records import Message, ToolCall, ToolSpec, Verdict
from trace_assets.targets.embedded.case import Case
from trace_assets.targets.embedded.desk import Desk
from trace_assets.targets.embedded.judge import judge
from trace_assets.targets.embedded.tools import TOOLS
from trace_assets.targets.protocol import Step

MAX_TURNS = 7


def answer(desk: Desk, call: ToolCall) -> Message:
    """Carry out one call and return the message that tells its result."""
    result, refused = desk.call(call)
    return Message(
        role="tool",
        content=json.dumps(result),
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=refused,
    )


class DeskEpisode:
    """A conversation at the order desk: the customer speaks once, a text without a call ends it."""

    def __init__(self, case: Case, instruction: str, policy: str) -> None:
        self._case, self._instruction, self._policy = case, instruction, policy
        self._desk = case.desk()
        self._turns = 0
        self._reply = ""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The six tools of the desk."""
        return TOOLS

    async def reset(self) -> Sequence[Message]:
        """Begin again from the case's orders."""
        self._desk, self._turns, self._reply = self._case.desk(), 0, ""
        return (
            Message(role="system", content=self._policy),
            Message(role="user", content=self._instruction),
        )

    async def step(self, message: Message) -> Step:
        """Carry out the calls of one assistant message, or take its text as the reply."""
        self._turns += 1
        if not message.tool_calls:
            self._reply = message.content or ""
            # A call that nobody could parse reaches us as text.
            self._desk.bad_calls += "<tool_call>" in self._reply
            return Step(done=True)
        answers = tuple(answer(self._desk, call) for call in message.tool_calls)
        return Step(messages=answers, truncated=self._turns >= MAX_TURNS)

    async def verdict(self) -> Verdict:
        """Judge the episode as it stands."""
        return judge(self._case, self._desk, self._reply)

    async def close(self) -> None:
        """Nothing is held."""
