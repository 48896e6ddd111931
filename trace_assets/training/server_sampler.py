"""Training episodes played by vLLM servers that are given the adapter before every batch."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import httpx

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.policies.openai_answers import TextAnswer
from trace_assets.policies.openai_connection import Retries
from trace_assets.policies.openai_faults import ServerFault, public_url
from trace_assets.policies.openai_server import Servers
from trace_assets.policies.protocol import Conversation, Reply
from trace_assets.policies.token_policy import Sampled, TokenPolicy
from trace_assets.training.adapter_sync import Uploads
from trace_assets.training.checkpoints import lora_tensors, write_adapter
from trace_assets.training.distributed import ALONE, ProcessGroup

TIMEOUT_SECONDS = 600.0
"""For one reply: with many in flight it waits for its turn first."""
_RETRIES = Retries(more=2)
_UNSHAPED: dict[str, Any] = {"top_p": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
_UNSHAPED_BY_VLLM: dict[str, Any] = {"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Without them a server cuts off what the model's folder says, and the trainer would not know of it."""
_VISIBLE = 1e-4
"""Nats; more than rounding moves one token."""
_speaker: ContextVar[str] = ContextVar("speaker", default="")


class ServerSampler(TokenPolicy):
    """Continues conversations by `/v1/completions`, token ids in and token ids out.

    The adapter is handed over as what it is, a PEFT folder, under a name by its content: the server computes
    base and adapter apart, as the trainer does, and no server can answer with an earlier one. A server that
    was started again and lacks the adapter is given it anew.

    Args:
        model_dir: The base model's folder (or hub name): tokenizer, chat template, configuration.
        urls: Base addresses of servers of this base model that can read `folder`.
        folder: Where adapters are written; made if need be.
        temperature: Sampling temperature.
        max_new_tokens: Longest reply.
        process_group: The processes that train together: the first one hands over for all.
        why_gone: Says why the servers answer no more, where whoever opened this knows; otherwise empty.

    Raises:
        InputError: A server is none of vLLM's, or does not report what training needs.
        Unavailable: No server can be reached.
    """

    def __init__(
        self,
        model_dir: Path | str,
        urls: Sequence[str],
        folder: Path,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 64,
        process_group: ProcessGroup = ALONE,
        why_gone: Callable[[], str] = lambda: "",
    ) -> None:
        self._uploads = Uploads(urls)
        base = self._uploads.base()
        super().__init__(
            model_dir,
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            max_context=base.max_context,
        )
        self._folder, self._process_group, self._why_gone = folder.resolve(), process_group, why_gone
        # Trainings that share a server may well begin with the same adapter.
        self._prefix = "training-" + hashlib.sha256(str(self._folder).encode()).hexdigest()[:8]
        self._base, self._acting = base.name, base.name
        self._servers = Servers(urls, TIMEOUT_SECONDS, _RETRIES)
        for url in urls:
            self._probe(url)

    def load_weights(self, model: Any) -> None:
        """Have the servers act with the present LoRA of a PEFT model from now on.

        Every process of a training calls this; equal weights are handed over once.

        Raises:
            InputError: Conversations are open, or a server does not take the adapter.
            Unavailable: No server can be reached.
        """
        if self.is_open(None):
            raise InputError(
                f"cannot change the weights of '{self.name}' in the middle of its conversations; end them "
                "first."
            )
        tensors = lora_tensors(model)
        self._acting = self._process_group.once(lambda: self._hand_over(model, tensors))

    def _hand_over(self, model: Any, tensors: dict[str, Any]) -> str:
        try:
            return self._load(model, tensors)
        except TraceError as error:
            if dead := self._why_gone():
                raise Unavailable(dead) from error
            raise

    def _load(self, model: Any, tensors: dict[str, Any]) -> str:
        fresh = self._folder / "adapter"
        if self._acting == self._base:
            self._try_out(model, tensors)
        identity = write_adapter(model, fresh, "base", tensors)
        name = f"{self._prefix}@{identity}"
        if name != self._acting:
            kept = self._folder / identity
            shutil.rmtree(kept, ignore_errors=True)
            fresh.rename(kept)
            self._uploads.load(name, kept)
            if self._acting != self._base:
                self._uploads.unload(self._acting)
            for folder in self._folder.glob("*/adapter_config.json"):
                if folder.parent != kept:
                    shutil.rmtree(folder.parent, ignore_errors=True)
        return name

    async def act(self, conversation: Conversation) -> Reply:
        """Write the next assistant message.

        Raises:
            InputError: The servers do not know the adapter, or refuse the key.
            Unavailable: No usable answer after all attempts.
        """
        _speaker.set(conversation.conversation_id)  # its prefix is in one server's cache
        return await super().act(conversation)

    async def forget(self, conversation: Conversation) -> None:
        """The conversation is over."""
        self._servers.forget(conversation.conversation_id)
        await super().forget(conversation)

    async def close(self) -> None:
        """Close the connections."""
        await super().close()
        await self._servers.close()

    def release(self) -> None:
        """Take the adapter back from the servers: the training is over."""
        if self._process_group.first and self._acting != self._base:
            self._uploads.unload(self._acting)

    async def _sample(
        self, ids: Sequence[int], *, seed: int, adapter: str | None, max_tokens: int
    ) -> Sampled:
        body = self._body(adapter or self._acting, list(ids), max_tokens, seed)
        try:
            answer = await self._ask(body)
            heard = answer.choices[0].prompt_token_ids
            if heard is not None and heard != list(ids):
                raise ServerFault("garbage", "it continues another prompt than the one that was sent")
            return _read(answer)
        except ServerFault as fault:
            dead = self._why_gone()
            if dead:
                raise Unavailable(dead) from fault
            raise self._servers.explain(
                fault,
                model=body["model"],
                setting="training.sampler_url",
                attempts=f"{_RETRIES.more + 1} times ",
            ) from fault

    async def _ask(self, body: dict[str, Any]) -> TextAnswer:
        try:
            return await self._servers.continue_prompt(body, _speaker.get())
        except ServerFault as fault:
            if fault.kind != "model" or body["model"] != self._acting or self._acting == self._base:
                raise
        folder = self._folder / self._acting.rpartition("@")[2]
        await asyncio.to_thread(self._uploads.mend, self._acting, folder)
        return await self._servers.continue_prompt(body, _speaker.get())

    def _body(self, model: str, ids: list[int], max_tokens: int, seed: int) -> dict[str, Any]:
        return {
            "model": model,
            "prompt": "",  # the ids are below: the client walks through every item of what is here
            "max_tokens": max_tokens,
            "temperature": self.temperature,
            "seed": seed,
            "logprobs": 0,  # of the sampled token alone
            **_UNSHAPED,
            "extra_body": {
                **_UNSHAPED_BY_VLLM,
                "prompt": ids,
                "return_token_ids": True,
                "stop_token_ids": sorted(self.ends),
            },
        }

    def _identity(self) -> Any:
        return [self._base, self._acting]

    def _probe(self, url: str) -> None:
        """Ask for one token, to find out before the first batch what a server does not report.

        The likeliest token's log-probability before and after temperature differs, unless one is certain.
        """
        told = [self._likeliest(url, temperature, self._base) for temperature in {self.temperature, 1.0}]
        if len(told) == 2 and told[0] == told[1] and told[0] < -1e-6:
            raise InputError(
                f"the server at {public_url(url)} reports log-probabilities before temperature, and "
                f"training.temperature is {self.temperature:g}: start it with --logprobs-mode "
                "processed_logprobs."
            )

    def _try_out(self, model: Any, tensors: dict[str, Any]) -> None:
        """Hand over an adapter that changes every layer, and see that it does.

        A LoRA begins as no change at all: a server that leaves adapters out would be noticed late.
        """
        import torch

        generator = torch.Generator().manual_seed(0)
        loud = {
            name: torch.randn(value.shape, generator=generator).to(value) / 10 if "lora_B" in name else value
            for name, value in tensors.items()
        }
        fresh = self._folder / "adapter"
        identity = write_adapter(model, fresh, "base", loud)
        folder, name = self._folder / f"trial-{identity}", f"{self._prefix}@trial-{identity}"
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
        try:
            self._uploads.load(name, folder)
            for url in self._uploads.urls:
                base, adapted = (self._likeliest(url, 1.0, asked) for asked in (self._base, name))
                if abs(base - adapted) < _VISIBLE and base < 0.0:
                    raise InputError(
                        f"the server at {public_url(url)} took an adapter that changes every layer and goes "
                        "on as without it: look at its log; a training would learn from the base model's "
                        "episodes."
                    )
        finally:
            self._uploads.unload(name)

    def _likeliest(self, url: str, temperature: float, model: str) -> float:
        """Return the log-probability of the likeliest first token, 0 where the server is not there."""
        body = self._body(model, [min(self.ends)], 1, seed=0)
        more = body.pop("extra_body")
        asked = {**body, **more, "temperature": temperature, "logprobs": 1}
        try:
            answer = self._uploads.post(url, "/completions", asked)
            self._uploads.refuse_trouble(url, answer)
            choice = answer.raise_for_status().json()["choices"][0]
            if len(choice["token_ids"]) == len(choice["logprobs"]["token_logprobs"]) == 1:
                return float(max(choice["logprobs"]["top_logprobs"][0].values()))
        except httpx.TransportError:
            return 0.0  # another server is there
        except (httpx.HTTPStatusError, ValueError, LookupError, TypeError) as error:
            raise InputError(self._unfit(url)) from error
        raise InputError(self._unfit(url))

    def _unfit(self, url: str) -> str:
        return (
            f"the server at {public_url(url)} does not continue token ids, or reports no token ids and "
            "log-probabilities of what it writes: training.sampler_url wants vLLM 0.22 or later."
        )


def _read(completion: TextAnswer) -> Sampled:
    """Return the sampled ids and their log-probabilities; empty where a server reports none."""
    choice = completion.choices[0]
    logprobs = (choice.logprobs.token_logprobs if choice.logprobs else None) or []
    return Sampled(
        list(choice.token_ids or []),
        [float("nan") if logprob is None else float(logprob) for logprob in logprobs],
    )
