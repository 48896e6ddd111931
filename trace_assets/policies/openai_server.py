"""Any OpenAI-compatible server as a policy: one request a turn."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import msgspec

from trace_assets.errors import InputError
from trace_assets.policies.hermes import OPEN, parse_reply, strict_json
from trace_assets.policies.openai_answers import ChatAnswer, Said, read_usage
from trace_assets.policies.openai_connection import Retries
from trace_assets.policies.openai_faults import ServerFault
from trace_assets.policies.openai_servers import Servers
from trace_assets.policies.protocol import Conversation, Reply, TokenTrace
from trace_assets.policies.sampling import turn_seed
from trace_assets.records import Message, ToolCall

_MOST_TOKENS = 1 << 24
"""Of one request; a server that counts more is not believed."""


class OpenAIPolicy:
    """Sends each turn to `<base_url>/chat/completions`.

    Rate limits, server errors, time-outs and lost connections are tried again with growing pauses (the
    server's Retry-After is kept to); what still fails then is a fault of the infrastructure. The key is read
    from OPENAI_API_KEY and appears nowhere; a server that wants none needs none.

    Args:
        base_url: Such as http://127.0.0.1:8000/v1; several, separated by commas, share the load.
        model: Name of the base model; an adapter is asked for by its own name, as vLLM serves it.
        temperature: Sampling temperature.
        max_new_tokens: Longest reply.
        retries: Further attempts after the first.
        timeout_seconds: Longest wait for one attempt.
        seed: Mixed into every conversation's seed; servers treat it as best effort.
        check_model: Whether an answer under another model's name is a fault.
        return_token_ids: Ask for token ids (a vLLM extension), so that the conversation's tokens are known.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 1024,
        retries: int = 4,
        timeout_seconds: float = 60.0,
        seed: int = 0,
        check_model: bool = True,
        return_token_ids: bool = False,
    ) -> None:
        if not base_url or not model:
            raise InputError(
                "a model server needs an address and a model: set rollouts.base_url and rollouts.model."
            )
        self._base_url, self._model = base_url, model
        self._temperature, self._max_new_tokens = temperature, max_new_tokens
        self._retries = retries
        self._seed, self._return_token_ids = seed, return_token_ids
        urls = [url.strip() for url in base_url.split(",") if url.strip()]
        self._servers = Servers(
            urls, timeout_seconds, Retries(more=retries, waits=retries), check_model=check_model
        )

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model

    @property
    def version(self) -> str:
        """Hash of server, model and sampling settings; the weights behind the name are not known."""
        parts = (self._base_url, self._model, self._temperature, self._max_new_tokens, self._seed)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    async def act(self, conversation: Conversation) -> Reply:
        """Write the next assistant message.

        Raises:
            Unavailable: No usable answer after all attempts.
            InputError: The server refuses the key or does not know the model.
        """
        model = conversation.adapter or self._model
        try:
            completion = await self._servers.complete(
                self._body(conversation, model), conversation.conversation_id
            )
        except ServerFault as fault:
            if fault.kind == "full":
                return Reply(Message(role="assistant", content=""), overflow=True)
            times = f"{self._retries + 1} times "
            raise self._servers.explain(
                fault, model=model, setting="rollouts.base_url", attempts=times
            ) from fault
        return self._reply(conversation, completion)

    async def forget(self, conversation: Conversation) -> None:
        """Forget which server the conversation is with; its cache is its own."""
        self._servers.forget(conversation.conversation_id)

    async def close(self) -> None:
        """Close the connections."""
        await self._servers.close()

    def _body(self, conversation: Conversation, model: str) -> dict[str, Any]:
        turn = sum(message.role == "assistant" for message in conversation.messages)
        body: dict[str, Any] = {
            "model": model,
            "messages": [_openai(message) for message in conversation.messages],
            "temperature": self._temperature,
            "seed": turn_seed(self._seed, conversation.seed, turn),
            "max_tokens": self._max_new_tokens,
        }
        if conversation.tools:
            body["tools"] = [tool.openai() for tool in conversation.tools]
        if self._return_token_ids:
            body |= {"logprobs": True, "extra_body": {"return_token_ids": True}}
        return body

    def _reply(self, conversation: Conversation, completion: ChatAnswer) -> Reply:
        choice = completion.choices[0]
        first = sum(len(message.tool_calls) for message in conversation.messages)
        message, malformed = _message(choice.message, first)
        usage = read_usage(completion.usage, _MOST_TOKENS, _MOST_TOKENS)
        if self._return_token_ids:
            opening = all(item.role != "assistant" for item in conversation.messages)
            conversation.tokens = _trace(TokenTrace() if opening else conversation.tokens, completion)
        return Reply(
            message,
            usage.prompt if usage.said else None,
            usage.completion if usage.said else None,
            malformed=malformed,
            overflow=choice.finish_reason == "length",
        )


def _message(said: Said, first_call: int) -> tuple[Message, bool]:
    """Read the server's message: its parsed calls, or Hermes calls that it left in the text."""
    content = said.text
    if not said.tool_calls:
        if OPEN in content:
            return parse_reply(content, first_call)
        return Message(role="assistant", content=content), False
    calls: list[ToolCall] = []
    for call in said.tool_calls:
        function = call.function
        given = (function.arguments if function is not None else None) or "{}"
        arguments = strict_json(given if isinstance(given, str) else json.dumps(given))
        if function is None or not function.name or not isinstance(arguments, dict):
            raw = msgspec.json.encode(said.tool_calls).decode()
            return Message(role="assistant", content=f"{content}{raw}"), True
        calls.append(ToolCall(id=f"call_{first_call + len(calls)}", name=function.name, arguments=arguments))
    return Message(role="assistant", content=content or None, tool_calls=tuple(calls)), False


def _trace(before: TokenTrace | None, completion: ChatAnswer) -> TokenTrace | None:
    """Join a turn's tokens to those before it; None, from then on, when the server gives none or others."""
    choice = completion.choices[0]
    prompt, written = completion.prompt_token_ids, choice.token_ids
    told = [item.logprob for item in (choice.logprobs.content or [])] if choice.logprobs else []
    logprobs = [one for one in told if one is not None and math.isfinite(one)]
    if before is None or not prompt or not written or len(logprobs) != len(written):
        return None
    if prompt[: len(before.ids)] != before.ids:
        return None
    heard = prompt[len(before.ids) :]
    return TokenTrace(
        [*before.ids, *heard, *written],
        [*before.mask, *[0] * len(heard), *[1] * len(written)],
        [*before.logprobs, *[0.0] * len(heard), *logprobs],
    )


def _openai(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        row["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for call in message.tool_calls
        ]
    elif row["content"] is None:
        row["content"] = ""
    if message.role == "tool":
        row |= {"tool_call_id": message.tool_call_id or "", "content": message.content or ""}
    return row
