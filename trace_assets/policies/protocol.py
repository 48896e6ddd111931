"""Who acts: a policy reads a conversation and writes the next assistant message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from trace_assets.records import Message, ToolSpec


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
