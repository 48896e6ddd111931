"""A Hugging Face folder as a policy: all waiting conversations are answered by one batched decode."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from trace_assets.errors import InputError
from trace_assets.policies.chat_template import ChatTemplate
from trace_assets.policies.lora import Weights, digest, load_model, merge_folder, merge_live
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.policies.token_policy import Spoken, accelerator, choose, context_limit, end_ids, uniforms
from trace_assets.records import Message

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

    from trace_assets.policies.lora import Weights


_CALM = 4
"""Times the event loop is given to answer before a pass: episodes that act together decode together."""


class TransformersPolicy:
    """Continuous batching over a model folder, on the GPU where there is one and else on the CPU.

    Conversations that call `act` while others are being answered join the running decode at the next token,
    and what a conversation has read stays in the cache until `forget`. Each adapter is merged into the
    weights once; conversations are batched by adapter. Sampling depends on a conversation's seed alone, not
    on the batch (up to the last bits of the logits, which vary with the batch's shape).

    Must be used from one event loop at a time; a new loop (a later `asyncio.run`) starts with empty hands.

    Args:
        model_dir: Model folder with tokenizer and chat template.
        adapters: PEFT folders by the name that `Conversation.adapter` asks for.
        temperature: 0 takes the likeliest token.
        max_new_tokens: Longest reply; one that reaches it without its end is an overflow.
        seed: Mixed into every conversation's seed.
        dtype: `float32`, `bfloat16`; `auto` is float32 on a CPU and the model's own on a GPU.

    Raises:
        InputError: The folder, its tokenizer, an adapter or the precision is not usable.
        Unavailable: torch, transformers or (for adapters) peft is not installed.
    """

    def __init__(
        self,
        model_dir: Path | str,
        *,
        adapters: Mapping[str, Path] | None = None,
        temperature: float = 1.0,
        max_new_tokens: int = 64,
        seed: int = 0,
        dtype: str = "auto",
    ) -> None:
        from trace_assets.policies.qwen3_decoder import is_dense_qwen3

        folder = Path(model_dir)
        self.temperature, self.max_new_tokens, self._seed = temperature, max_new_tokens, seed
        model = load_model(folder, dtype, accelerator())
        self._model: PreTrainedModel | None = model
        self._config, self._dtype = model.config, model.dtype
        self._rotary = model.model.rotary_emb if is_dense_qwen3(model.config) else None
        self.template = ChatTemplate(folder)
        self._ends = end_ids(self.template, model.generation_config, model.config)
        self.max_context = context_limit(model.config, None)
        self._name = folder.resolve().name
        self._base_digest = ""
        self._digests: dict[str | None, str] = {}
        self._decoders: dict[str | None, Decoder] = {}
        self._rows: dict[str, _Row] = {}
        self._waiting: list[_Row] = []
        self._speaking: list[_Row] = []
        self._pump: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._decoders[None] = self._decoder(None)
        for adapter, path in (adapters or {}).items():
            weights = merge_folder(model, Path(path))
            self._digests[adapter] = weights.digest()
            self._decoders[adapter] = self._decoder(weights)

    @property
    def name(self) -> str:
        """Who acts: the folder's name."""
        return self._name

    @property
    def version(self) -> str:
        """Content hash of weights, adapters, template, sampling settings."""
        parts = [
            self._base_version(),
            sorted((adapter or "", value) for adapter, value in self._digests.items()),
            self.template.tokenizer.chat_template,
            (self.temperature, self.max_new_tokens, self.max_context, self._seed),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names that a conversation may ask for."""
        return tuple(adapter for adapter in self._decoders if adapter is not None)

    def load_weights(self, model: Any, adapter: str | None = None) -> None:
        """Take the weights of a model in training, its LoRA merged in; the model is only read.

        Args:
            model: A PEFT model or a plain one, of this policy's architecture.
            adapter: The name they act under; None replaces what acts when no adapter is asked for.

        Raises:
            InputError: Conversations that read with the earlier weights are still open.
        """
        if any(row.conversation.adapter == adapter for row in self._rows.values()):
            raise InputError(
                f"cannot change the weights of adapter {adapter} of '{self._name}' in the middle of its "
                "conversations; end them first."
            )
        self._base_version()  # while its weights are still here
        weights = merge_live(model)
        self._digests[adapter] = weights.digest()
        self._decoders.pop(adapter, None)  # the earlier ones make room first
        if adapter is None and self._rotary is not None:
            self._model = None  # nothing acts with the base model's own weights from now on
        self._decoders[adapter] = self._decoder(weights, in_place=adapter is None)

    async def act(self, conversation: Conversation) -> Reply:
        """Write the next assistant message.

        Raises:
            InputError: The conversation asks for an adapter that is not here.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._start_over(loop)
        row = self._rows.get(conversation.conversation_id)
        if row is None:
            row = self._rows[conversation.conversation_id] = self._open(conversation)
        fresh = row.unread(self.template)
        if len(row.trace.ids) + len(fresh) + 1 > self.max_context:
            return Reply(Message(role="assistant", content=""), len(fresh), 0, overflow=True)
        row.hear(fresh, loop.create_future())
        self._waiting.append(row)
        if self._pump is None or self._pump.done():
            self._pump = loop.create_task(self._answer_all())
        assert row.answer is not None
        return await row.answer

    async def forget(self, conversation: Conversation) -> None:
        """Free the conversation's place in the cache."""
        row = self._rows.pop(conversation.conversation_id, None)
        if row is not None:
            self._waiting = [other for other in self._waiting if other is not row]
            self._speaking = [other for other in self._speaking if other is not row]
            self._decoders[row.conversation.adapter].release(row.slot)

    async def close(self) -> None:
        """Drop all conversations."""
        if self._pump is not None and self._loop is asyncio.get_running_loop():
            self._pump.cancel()
        self._start_over(None)

    def _base_version(self) -> str:
        if not self._base_digest and self._model is not None:
            self._base_digest = digest(self._model.state_dict())
        return self._base_digest

    def _decoder(self, weights: Weights | None, in_place: bool = False) -> Decoder:
        from trace_assets.policies.qwen3_decoder import Qwen3Decoder

        if self._rotary is not None:
            if weights is None and self._model is not None:
                weights = self._model.state_dict()
            assert weights is not None
            return Qwen3Decoder(self._config, self._rotary, weights, self._dtype)
        assert self._model is not None
        return GenericDecoder(self._model, weights, in_place=in_place)

    def _open(self, conversation: Conversation) -> _Row:
        decoder = self._decoders.get(conversation.adapter)
        if decoder is None:
            raise InputError(
                f"policy '{self._name}' has no adapter '{conversation.adapter}' (it has: "
                f"{', '.join(self.adapters) or 'none'}); give its folder in `adapters`."
            )
        text = f"{self._seed}:{conversation.seed}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return _Row(conversation, slot=decoder.open(), seed=seed)

    async def _answer_all(self) -> None:
        """Decode until nobody waits for an answer."""
        try:
            while True:
                for _ in range(_CALM):
                    before = len(self._waiting)
                    await asyncio.sleep(0)
                    if len(self._waiting) == before and before:
                        break
                if not self._waiting and not self._speaking:
                    return
                joining, self._waiting = self._waiting, []
                self._advance(joining)
                self._speaking += [row for row in joining if row.answer is not None]
                going = self._speaking
                self._advance(going)
                self._speaking = [row for row in going if row.answer is not None]
        except Exception as error:
            broken = [*self._waiting, *self._speaking, *(r for r in self._rows.values() if r.answer)]
            self._waiting, self._speaking = [], []
            for row in broken:
                row.finish(error)

    def _advance(self, rows: list[_Row]) -> None:
        """Sample one token for each row, adapter by adapter."""
        groups: dict[str | None, list[_Row]] = {}
        for row in rows:
            if row.answer is not None and not row.answer.done():
                groups.setdefault(row.conversation.adapter, []).append(row)
            else:
                row.answer = None
        for adapter, group in groups.items():
            group.sort(key=lambda row: row.slot)
            logits = self._decoders[adapter].feed([row.slot for row in group], [row.unfed for row in group])
            drawn = uniforms(
                np.array([row.seed for row in group], np.uint64),
                np.array([len(row.trace.ids) for row in group], np.uint64),
            )
            tokens, logprobs = choose(logits, self.temperature, drawn)
            for row, token, logprob in zip(group, tokens, logprobs, strict=True):
                row.say(token, logprob)
                if token in self._ends:
                    row.finish(row.reply(self.template, ended=True))
                elif row.said >= self.max_new_tokens or len(row.trace.ids) >= self.max_context:
                    row.finish(row.reply(self.template, ended=False))

    def _start_over(self, loop: asyncio.AbstractEventLoop | None) -> None:
        for row in self._rows.values():
            self._decoders[row.conversation.adapter].release(row.slot)
        self._rows, self._waiting, self._speaking = {}, [], []
        self._pump, self._loop = None, loop


@dataclass
class _Row(Spoken):
    """A conversation in the engine."""

    slot: int = -1
    seed: int = 0
    unfed: list[int] = field(default_factory=list)
    answer: asyncio.Future[Reply] | None = None

    def hear(self, fresh: list[int], answer: asyncio.Future[Reply]) -> None:
        """Take in what is to be read before the next reply."""
        self.listen(fresh)
        self.unfed = self.unfed + fresh
        self.answer = answer

    def say(self, token: int, logprob: float) -> None:
        """Take in a sampled token."""
        self.write(token, logprob)
        self.unfed = [token]

    def finish(self, outcome: Reply | Exception) -> None:
        """Answer the caller, once."""
        if self.answer is not None and not self.answer.done():
            if isinstance(outcome, Reply):
                self.answer.set_result(outcome)
            else:
                self.answer.set_exception(outcome)
        self.answer = None


# What a decoder is, and the one that works for every architecture.


class Decoder(Protocol):
    """A model with the memory of many conversations, each in a slot of its own."""

    def open(self) -> int:
        """Return an empty slot."""
        ...

    def release(self, slot: int) -> None:
        """Forget what a slot holds."""
        ...

    def feed(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Read new tokens, at least one a slot.

        Args:
            slots: Distinct open slots.
            tokens: What each reads behind what it has already read.

        Returns:
            Logits behind the last token of each, shape [len(slots), vocabulary].
        """
        ...


class GenericDecoder:
    """Any causal model of Hugging Face, by its own forward and cache, one conversation at a time.

    Nothing is batched: a batch of ragged caches needs knowledge of the architecture. Right for every model,
    and slow; serve larger ones with vLLM.

    Args:
        model: Computes, with its own weights unless others are given.
        weights: What its weights shall be; those that are not among them stay.
        in_place: Put them into the model itself, instead of into a copy of it.
    """

    def __init__(
        self, model: PreTrainedModel, weights: Weights | None = None, *, in_place: bool = False
    ) -> None:
        import copy

        import torch

        if weights is not None:
            model = model if in_place else copy.deepcopy(model)
            with torch.no_grad():  # one weight after the other: merged ones are not all there at once
                for name, value in model.state_dict().items():
                    if (new := weights.get(name)) is not None:
                        value.copy_(new)
        self._model = model
        self._caches: dict[int, Any] = {}

    def open(self) -> int:
        """Return an empty slot."""
        slot = next(number for number in range(len(self._caches) + 1) if number not in self._caches)
        self._caches[slot] = None
        return slot

    def release(self, slot: int) -> None:
        """Forget what a slot holds."""
        self._caches.pop(slot, None)

    def feed(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Read new tokens, slot by slot; see `Decoder.feed`."""
        import torch

        rows: list[torch.Tensor] = []
        with torch.inference_mode():
            for slot, new in zip(slots, tokens, strict=True):
                output = self._model(
                    input_ids=torch.tensor([list(new)], device=self._model.device),
                    past_key_values=self._caches[slot],
                    use_cache=True,
                )
                self._caches[slot] = output.past_key_values
                rows.append(output.logits[0, -1])
        return torch.stack(rows)
