"""Conversations as token ids: what a model has read or written is kept, never rendered or tokenised again."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.chat_template import ChatTemplate
from trace_assets.policies.protocol import Conversation, Reply, TokenTrace
from trace_assets.records import Message

if TYPE_CHECKING:
    import torch


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def turn_seed(seed: int, conversation: int, turn: int) -> int:
    """Return the seed, below 2^31, of one reply of a conversation, for samplers that take one a request.

    Args:
        seed: The policy's.
        conversation: The conversation's.
        turn: Replies before this one.

    >>> turn_seed(0, 1, 0) == turn_seed(0, 1, 0) != turn_seed(0, 1, 1)
    True
    """
    text = f"{seed}:{conversation}:{turn}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def uniforms(seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return one number in [0, 1) for each (seed, position), by two rounds of SplitMix64.

    Args:
        seeds: Shape [n].
        positions: Shape [n].

    Returns:
        Shape [n], float64 with 53 random bits.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

    >>> a, b = uniforms(np.array([7, 7], np.uint64), np.array([0, 1], np.uint64))
    >>> bool(0 <= a < 1), bool(a != b)
    (True, True)
    """
    with np.errstate(over="ignore"):
        state = _splitmix(seeds) + (positions + np.uint64(1)) * _GOLDEN
        bits: npt.NDArray[np.uint64] = _splitmix(state) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _splitmix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX1
    state = (state ^ (state >> np.uint64(27))) * _MIX2
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def choose(
    logits: torch.Tensor, temperature: float, drawn: npt.NDArray[np.float64]
) -> tuple[list[int], list[float]]:
    """Choose one token a row.

    Args:
        logits: Shape [n, vocabulary].
        temperature: 0 takes the likeliest token.
        drawn: Uniform numbers, shape [n]; not used at temperature 0.

    Returns:
        Token ids, and their log-probabilities at this temperature (at 1 for temperature 0).
    """
    import torch

    logits = logits.float()
    if temperature <= 0:
        chosen = logits.argmax(dim=-1, keepdim=True)
        logprobs = torch.log_softmax(logits, dim=-1)
        return chosen[:, 0].tolist(), logprobs.gather(1, chosen)[:, 0].tolist()
    probabilities = torch.softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)
    below = probabilities.cumsum(dim=-1)
    total = below[:, -1:]
    # In fp32 a number just below 1 is 1: kept under the total, it cannot fall behind the last possible token.
    point = torch.from_numpy(drawn).to(below)[:, None] * total
    point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))
    chosen = torch.searchsorted(below, point, right=True).clamp_(max=logits.shape[-1] - 1)
    picked = probabilities.gather(1, chosen)
    return chosen[:, 0].tolist(), picked.log()[:, 0].tolist()


def accelerator() -> str:
    """Return the present GPU's name for torch where there is one, else that of the CPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def give_back() -> None:
    """Hand the memory of models that are gone back to the GPU, for whatever comes next in any process.

    A trainer refers to itself, and so holds its model until somebody looks; torch keeps what is free.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


LONGEST = 1 << 20
"""Tokens of a conversation with a model that names no limit of its own."""
_ABOVE_ZERO = 1e-3
"""Nats; no rounding moves the log-probability of a certain token so far."""


@dataclass(frozen=True)
class Sampled:
    """What a sampler wrote behind the ids it was given.

    Attributes:
        ids: Sampled ids in order; the end id is the last where one came.
        logprobs: Same length; log-probability of each id under the distribution it was drawn from, that is
            after temperature (at temperature 0: under that of temperature 1).
    """

    ids: list[int]
    logprobs: list[float]


@dataclass
class Spoken:
    """One conversation as its model saw it, and how far it has been read.

    Attributes:
        conversation: Whose tokens these are; it is given them as `conversation.tokens`.
        trace: Every id read and written so far.
        read: Messages of the conversation that are in the trace.
        heard: Tokens read before the last reply.
        start: Where the last reply begins in the trace.
        calls: Tool calls made so far, so that their ids stay unique.
        replies: Replies begun so far.
    """

    conversation: Conversation
    trace: TokenTrace = field(default_factory=TokenTrace)
    read: int = 0
    heard: int = 0
    start: int = 0
    calls: int = 0
    replies: int = 0

    def __post_init__(self) -> None:
        """Give the conversation its trace."""
        self.conversation.tokens = self.trace

    def unread(self, template: ChatTemplate) -> list[int]:
        """Return the ids of the messages that have not been read."""
        messages, tools = self.conversation.messages, self.conversation.tools
        if self.read == 0:
            return template.opening(messages, tools)
        # The reply itself is among the messages, and was sampled.
        return template.continuation(messages, len(messages) - self.read - 1, tools)

    def listen(self, fresh: Sequence[int]) -> None:
        """Take in the ids of all messages so far; the reply comes next."""
        self.trace.ids += fresh
        self.trace.mask += [0] * len(fresh)
        self.trace.logprobs += [0.0] * len(fresh)
        self.heard, self.start, self.read = len(fresh), len(self.trace.ids), len(self.conversation.messages)
        self.replies += 1

    def write(self, token: int, logprob: float) -> None:
        """Take in a sampled token."""
        self.trace.ids.append(token)
        self.trace.mask.append(1)
        self.trace.logprobs.append(logprob)

    @property
    def said(self) -> int:
        """Tokens of the last reply so far."""
        return len(self.trace.ids) - self.start

    def reply(self, template: ChatTemplate, *, ended: bool) -> Reply:
        """Return the last reply.

        Args:
            template: Decodes it.
            ended: Whether its last token ends a turn; one without its end is an overflow.
        """
        ids, end = self.trace.ids[self.start :], ""
        if ended:
            end = template.decode(ids[-1:])
            ids = ids[:-1]
        message, malformed = template.read_reply(
            template.decode(ids), self.calls, self.conversation.tools, end
        )
        self.calls += len(message.tool_calls)
        return Reply(message, self.heard, self.said, malformed=malformed, overflow=not ended)


class TokenPolicy(ABC):
    """A policy over anything that continues token ids: an engine in this process, or a server's completions.

    A subclass gives `_sample` and `_identity`. Everything here is one conversation's affair: any number of
    them may wait for `_sample` at once, which is where batching happens. Nothing of a turn is kept when its
    sampling fails or is cancelled.

    Args:
        model_dir: Model folder (or hub name) with tokenizer, chat template and configuration; no weights are
            read.
        temperature: 0 takes the likeliest token.
        max_new_tokens: Longest reply; one that reaches it without its end is an overflow.
        max_context: Longest conversation in tokens; None takes the model's own limit.
        seed: Mixed into every conversation's seed.
        name: How the policy is called in trajectories; None takes the folder's name.

    Raises:
        InputError: The folder, its tokenizer or its configuration is not usable, or tool calls as its chat
            template writes them cannot be read back.

    Attributes:
        template: Turns messages into ids.
        ends: Ids that end a reply; a sampler should stop at them.
        max_context: Longest conversation in tokens.
        is_mixture: Whether the model is a mixture of experts.
    """

    def __init__(
        self,
        model_dir: Path | str,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 64,
        max_context: int | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        folder = Path(model_dir)
        self.temperature, self.max_new_tokens, self._seed = temperature, max_new_tokens, seed
        self.template = ChatTemplate(folder)
        configs = _read_configs(folder)
        self.ends = end_ids(self.template, *configs)
        self.max_context = context_limit(configs[-1], max_context)
        self.is_mixture = is_mixture(configs[-1])
        self._vocabulary = vocabulary(self.template, configs[-1])
        self._name = name or folder.resolve().name
        self._open: dict[str, Spoken] = {}

    @abstractmethod
    async def _sample(
        self, ids: Sequence[int], *, seed: int, adapter: str | None, max_tokens: int
    ) -> Sampled:
        """Continue `ids` until an end id or `max_tokens`, at `self.temperature`.

        Args:
            ids: The conversation so far, at least one.
            seed: Of this reply, below 2^31: the same seed behind the same ids should write the same reply.
            adapter: The adapter that the conversation asks for, None for none.
            max_tokens: At least 1.

        Raises:
            InputError: There is no such adapter.
            Unavailable: The sampler gave no whole answer.
        """

    @abstractmethod
    def _identity(self) -> Any:
        """Return, as plain JSON values, what identifies the weights behind every adapter name."""

    @property
    def name(self) -> str:
        """Who acts: the folder's name, or the one given."""
        return self._name

    @property
    def version(self) -> str:
        """Content hash of weights, adapters, template, sampling settings."""
        parts = [
            type(self).__name__,
            self._identity(),
            self.template.tokenizer.chat_template,
            (self.temperature, self.max_new_tokens, self.max_context, self._seed),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    async def act(self, conversation: Conversation) -> Reply:
        """Write the next assistant message.

        Raises:
            InputError: The conversation asks for an adapter that is not here.
            Unavailable: The sampler gave no answer, or one that is none.
        """
        spoken = self._open.get(conversation.conversation_id)
        if spoken is None:
            spoken = self._open[conversation.conversation_id] = Spoken(conversation)
        fresh = spoken.unread(self.template)
        ids = [*spoken.trace.ids, *fresh]
        room = self.max_context - len(ids)
        if room < 1:
            return Reply(Message(role="assistant", content=""), len(fresh), 0, overflow=True)
        most = min(self.max_new_tokens, room)
        sampled = await self._sample(
            ids,
            seed=turn_seed(self._seed, conversation.seed, spoken.replies),
            adapter=conversation.adapter,
            max_tokens=most,
        )
        written = self._checked(sampled, most)
        spoken.listen(fresh)
        for token, logprob in written:
            spoken.write(token, logprob)
        return spoken.reply(self.template, ended=written[-1][0] in self.ends)

    async def forget(self, conversation: Conversation) -> None:
        """The conversation is over."""
        self._open.pop(conversation.conversation_id, None)

    async def close(self) -> None:
        """Drop all conversations."""
        self._open.clear()

    def is_open(self, adapter: str | None) -> bool:
        """Say whether a conversation with this adapter has begun and not ended."""
        return any(spoken.conversation.adapter == adapter for spoken in self._open.values())

    def _checked(self, sampled: Sampled, most: int) -> list[tuple[int, float]]:
        """Return what was sampled up to its first end id; anything but a whole reply is a fault."""
        pairs = list(zip(sampled.ids, sampled.logprobs, strict=False))
        end = next((place for place, (token, _) in enumerate(pairs) if token in self.ends), None)
        written = pairs[:most] if end is None else pairs[: min(end + 1, most)]
        wrong = ""
        if len(sampled.ids) != len(sampled.logprobs):
            wrong = f"{len(sampled.ids)} token ids with {len(sampled.logprobs)} log-probabilities"
        elif not all(math.isfinite(logprob) for _, logprob in written):
            wrong = "log-probabilities that are no numbers"
        elif any(logprob > _ABOVE_ZERO for _, logprob in written):
            wrong = "log-probabilities above 0"
        elif any(not 0 <= token < self._vocabulary for token, _ in written):
            wrong = f"token ids beyond the {self._vocabulary:,} that the model has"
        elif len(written) < most and (not written or written[-1][0] not in self.ends):
            wrong = f"{len(written)} tokens without an end, where it could have written {most}"
        if wrong:
            raise Unavailable(f"the sampler of '{self._name}' gave {wrong}; look at its log and run again.")
        return written


def end_ids(template: ChatTemplate, *configs: Any) -> frozenset[int]:
    """Return every token that ends a reply: the template's, the tokenizer's, and the model's own."""
    ends = {template.end_id, template.tokenizer.eos_token_id}
    for config in configs:
        named = getattr(config, "eos_token_id", None)
        ends.update(named if isinstance(named, list | tuple) else [named])
    return frozenset(end for end in ends if isinstance(end, int))


def vocabulary(template: ChatTemplate, config: Any) -> int:
    """Return how many token ids there are: rows of a model's embedding may outnumber its tokenizer's ids."""
    text = config.get_text_config()
    return max(len(template.tokenizer), getattr(text, "vocab_size", None) or 0)


def is_mixture(config: Any) -> bool:
    """Say whether a model's configuration is that of a mixture of experts."""
    return bool(getattr(config, "num_experts", None))


def context_limit(config: Any, wanted: int | None) -> int:
    """Return the longest conversation in tokens that a model's configuration and the caller allow."""
    limit: int = getattr(config, "max_position_embeddings", None) or LONGEST
    return min(limit, wanted or limit)


def _read_configs(folder: Path) -> list[Any]:
    """Return the generation configuration, where there is one, and the model's."""
    from transformers import AutoConfig, GenerationConfig

    try:
        config = AutoConfig.from_pretrained(str(folder))
    except (OSError, ValueError) as error:
        raise InputError(f"no model configuration can be read from '{folder}': {error}.") from error
    try:
        return [GenerationConfig.from_pretrained(str(folder)), config]
    except (OSError, ValueError):  # not every folder has one
        return [config]
