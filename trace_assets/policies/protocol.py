"""Who acts: a policy reads a conversation and writes the next assistant message.

One may be told something besides its task, in every conversation; nobody else sees the words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from trace_assets.policies.chat_template import ChatTemplate
from trace_assets.records import Message, ToolSpec
from trace_assets.store.content import text_version

Place = Literal["system", "user"]


@dataclass
class TokenTrace:
    """The conversation as the model saw it, token by token: what training uses, never re-tokenised.

    Attributes:
        ids: Token ids so far, prompt and completions in order.
        mask: Same length; 1 where the policy itself sampled the token, 0 for everything it only read.
        logprobs: Same length; log-probability of each sampled token, 0.0 where mask is 0.
    """

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass
class Conversation:
    """One episode's dialogue as its policy sees it. The caller appends messages, the policy only reads.

    Attributes:
        conversation_id: Unique among the conversations a policy serves at once (it may key a cache by it).
        tools: The tools on offer.
        messages: The dialogue so far; the last one is not the assistant's when `act` is called.
        seed: Feeds sampling: the same conversation with the same seed and batch composition repeats.
        adapter: Name of the adapter to act with, None for the base model.
        tokens: Filled by policies that know their tokens.
    """

    conversation_id: str
    tools: Sequence[ToolSpec]
    messages: list[Message] = field(default_factory=list)
    seed: int = 0
    adapter: str | None = None
    tokens: TokenTrace | None = None


@dataclass(frozen=True)
class Reply:
    """One assistant message and what it cost.

    Attributes:
        message: Role `assistant`; tool calls parsed, arguments as objects.
        prompt_tokens: Tokens read, None when unknown.
        completion_tokens: Tokens written, None when unknown.
        cost_usd: Price, None when unknown.
        malformed: The text could not be parsed as the protocol wants (broken tool call JSON); `message`
            then carries the raw text as content. This is the agent's own fault, not an infrastructure one.
        overflow: The context was full or the reply hit its length limit: nothing more can be said.
    """

    message: Message
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    malformed: bool = False
    overflow: bool = False


@runtime_checkable
class Policy(Protocol):
    """Acts in any number of conversations at once.

    `act` is awaited by many tasks of one event loop at the same time: a batched engine answers the waiting
    ones together, a server client sends one request each. It raises `trace_assets.errors.Unavailable`
    when no answer can be had (server down, out of retries): a fault, never an empty reply.
    """

    @property
    def name(self) -> str:
        """Who acts, as stored in `Trajectory.policy`."""
        ...

    @property
    def version(self) -> str:
        """Content hash of what decides the replies: weights, adapter, sampling settings."""
        ...

    async def act(self, conversation: Conversation) -> Reply:
        """Write the next assistant message of a conversation."""
        ...

    async def forget(self, conversation: Conversation) -> None:
        """The conversation is over: drop whatever is kept for it."""
        ...

    async def close(self) -> None:
        """Release the engine or the connection."""
        ...


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
