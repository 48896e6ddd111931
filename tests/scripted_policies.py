"""Policies without a model: they replay what is written down, or say one thing and stop."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from trace_assets.errors import InputError
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.records import Message

Script = Callable[[Conversation], Message]


class ScriptedPolicy:
    """Answers by a function of the conversation.

    Args:
        script: Returns the next assistant message; called once a turn.
        name: What the policy does, such as `replay_oracle`.
        version: Changes whenever the script's replies may.
    """

    def __init__(self, script: Script, *, name: str, version: str) -> None:
        self._script, self._name, self._version = script, name, version

    @property
    def name(self) -> str:
        """What the policy does."""
        return self._name

    @property
    def version(self) -> str:
        """The version given."""
        return self._version

    async def act(self, conversation: Conversation) -> Reply:
        """Answer by the script."""
        return Reply(self._script(conversation), cost_usd=0.0)

    async def forget(self, conversation: Conversation) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is held."""


def replay(
    script_for: Callable[[Conversation], Sequence[Message]], *, name: str = "replay"
) -> ScriptedPolicy:
    """Return a policy that says the n-th written message at its n-th turn.

    Args:
        script_for: The messages for a conversation, found by what has been said in it (its user's words).
        name: What is replayed, such as `replay_oracle`.

    Raises:
        InputError: At a turn for which nothing is written.
    """

    def say(conversation: Conversation) -> Message:
        messages = script_for(conversation)
        turn = sum(message.role == "assistant" for message in conversation.messages)
        if turn >= len(messages):
            raise InputError(
                f"the script of policy '{name}' has {len(messages)} messages and the episode wants one more; "
                "it was written for another version of the target."
            )
        return messages[turn]

    return ScriptedPolicy(say, name=name, version="1")


def always_say(text: str, *, name: str = "null_agent") -> ScriptedPolicy:
    """Return a policy that calls nothing and says the same words at every turn: the do-nothing floor."""
    message = Message(role="assistant", content=text)
    version = hashlib.sha256(text.encode()).hexdigest()[:16]
    return ScriptedPolicy(lambda _: message, name=name, version=version)
