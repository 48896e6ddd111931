"""A target of plain talk: as long as one likes, answered at once, judged by what amounts to a coin."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from trace_assets.records import Message, Split, Task, ToolSpec, Verdict
from trace_assets.targets.protocol import Step


@dataclass(frozen=True)
class Length:
    """How long its episodes are, in tokens (one a letter).

    Attributes:
        prompt: The first message.
        turns: Replies an episode.
        answer: What is said to each reply but the last.
    """

    prompt: int
    turns: int
    answer: int


class TalkEpisode:
    """One conversation. Its reward is a coin that the agent's words decide: every group has both."""

    tools: Sequence[ToolSpec] = ()

    def __init__(self, number: int, length: Length) -> None:
        self.number, self.length, self.said = number, length, list[str]()

    async def reset(self) -> Sequence[Message]:
        # Ragged, as real prompts are.
        letters = self.length.prompt - (self.number * 7) % (self.length.prompt // 4 + 1)
        return [Message(role="user", content=(f"{self.number}: " + "say more. " * letters)[:letters])]

    async def step(self, message: Message) -> Step:
        self.said.append(message.content or "")
        if len(self.said) >= self.length.turns:
            return Step(done=True)
        return Step(
            messages=(
                Message(role="user", content=("and then? " * self.length.answer)[: self.length.answer]),
            )
        )

    async def verdict(self) -> Verdict:
        coin = hashlib.sha256("\n".join(self.said).encode()).digest()[0] % 2
        return Verdict(reward=float(coin), success=bool(coin))

    async def close(self) -> None:
        pass


class TalkTarget:
    """See the module."""

    name = "talk"
    policy = ""
    tools: Sequence[ToolSpec] = ()

    def __init__(self, length: Length) -> None:
        self.length, self.version = length, str(length)

    def tasks(self, split: Split) -> Sequence[Task]:
        first = {"discovery": 0, "validation": 1000, "test": 2000}[split]
        return [
            Task(
                task_id=f"talk/{number}",
                target="talk",
                split=split,
                task_batch="all",
                payload={"number": number},
            )
            for number in range(first, first + 256)
        ]

    def episode(self, task: Task, *, seed: int) -> TalkEpisode:
        return TalkEpisode(int(task.payload["number"]), self.length)
