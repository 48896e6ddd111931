"""A policy that is told something besides its task, in every conversation; nobody else sees the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from trace_assets.policies.chat_template import ChatTemplate
from trace_assets.policies.protocol import Conversation, Policy, Reply
from trace_assets.records import Message
from trace_assets.store.content import text_version

Place = Literal["system", "user"]


def reads_system(base: Path) -> bool:
    """Whether a model's chat template shows it what a system message says."""
    template, asked = ChatTemplate(base), [Message(role="user", content="x")]
    told = [Message(role="system", content="Look first."), *asked]
    return template.opening(told, ()) != template.opening(asked, ())


class AdvisedPolicy:
    """Acts on conversations with some words more than they hold; nobody else sees these.

    Args:
        inner: Who acts.
        text: The words.
        place: In a system message, or at the end of the user's first message.
    """

    def __init__(self, inner: Policy, text: str, place: Place) -> None:
        self._inner, self._text, self._place = inner, text, place
        self._told: dict[str, Conversation] = {}

    @property
    def name(self) -> str:
        """Of who acts."""
        return self._inner.name

    @property
    def version(self) -> str:
        """Of who acts, and of the words."""
        return text_version(self._inner.version, self._place, self._text)

    async def act(self, conversation: Conversation) -> Reply:
        """Hand on the conversation with the words in it."""
        told = self._told.get(conversation.conversation_id)
        if told is None:
            told = replace(conversation, messages=[])
            self._told[conversation.conversation_id] = told
        told.messages = with_words(conversation.messages, self._text, self._place)
        reply = await self._inner.act(told)
        conversation.tokens = told.tokens
        return reply

    async def forget(self, conversation: Conversation) -> None:
        """Drop what is kept for a conversation."""
        told = self._told.pop(conversation.conversation_id, None)
        await self._inner.forget(told or conversation)

    async def close(self) -> None:
        """Close who acts."""
        await self._inner.close()


def with_words(messages: Sequence[Message], text: str, place: Place) -> list[Message]:
    r"""Put words into a conversation.

    >>> said = [Message(role="system", content="Rules."), Message(role="user", content="Hello.")]
    >>> [one.content for one in with_words(said, "Look first.", "user")]
    ['Rules.', 'Hello. Look first.']
    >>> [one.content for one in with_words(said, "Look first.", "system")]
    ['Rules.\n\nLook first.', 'Hello.']
    >>> [one.role for one in with_words(said[1:], "Look first.", "system")]
    ['system', 'user']
    """
    found = list(messages)
    between: Mapping[Place, str] = {"system": "\n\n", "user": " "}
    for n, one in enumerate(found):
        if one.role == place:
            words = f"{one.content or ''}{between[place]}{text}"
            found[n] = one.model_copy(update={"content": words})
            return found
    return [Message(role="system", content=text), *found]
