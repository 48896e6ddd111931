from __future__ import annotations

import asyncio

import pytest

from tests.scripted_policies import always_say, replay
from trace_assets.errors import InputError
from trace_assets.policies.protocol import Conversation, Policy
from trace_assets.records import Message


def test_a_replay_follows_the_conversation() -> None:
    scripts = {"a": ("1", "2"), "b": ("3",)}
    policy = replay(
        lambda talk: [Message(role="assistant", content=w) for w in scripts[talk.messages[0].content or ""]],
        name="replay_oracle",
    )
    talks = [Conversation(name, (), [Message(role="user", content=name)]) for name in scripts]

    async def turn(talk: Conversation) -> str | None:
        reply = await policy.act(talk)
        talk.messages.extend([reply.message, Message(role="user", content="go on")])
        return reply.message.content

    async def play() -> list[str | None]:
        return [await turn(talks[0]), await turn(talks[1]), await turn(talks[0])]

    assert asyncio.run(play()) == ["1", "3", "2"]
    with pytest.raises(InputError, match="replay_oracle"):
        asyncio.run(turn(talks[1]))
    assert isinstance(policy, Policy)


def test_the_null_agent_never_calls() -> None:
    policy = always_say("I am done.")
    reply = asyncio.run(policy.act(Conversation("c", (), [Message(role="user", content="x")])))
    assert reply.message == Message(role="assistant", content="I am done.")
    assert policy.version != always_say("Bye.").version
