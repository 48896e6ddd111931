"""Any OpenAI-compatible server as a policy: one request a turn."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from trace_assets.errors import InputError, TraceError
from trace_assets.policies.hermes import OPEN, parse_reply, strict_json
from trace_assets.policies.openai_answers import ChatAnswer, Said, TextAnswer, read_usage
from trace_assets.policies.openai_connection import Connection, Retries
from trace_assets.policies.openai_faults import PASSING, ServerFault, is_same_model, shown
from trace_assets.policies.protocol import Conversation, Reply, TokenTrace
from trace_assets.policies.token_policy import turn_seed
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


# Several servers of the same models: the load is spread, a dead one is left alone and tried again later.


Answer = TypeVar("Answer", ChatAnswer, TextAnswer)
REST_SECONDS = 30.0
"""For how long a server that could not be reached is left alone."""


@dataclass
class _Server:
    connection: Connection
    in_flight: int = 0
    rests_until: float = 0.0
    fault: ServerFault | None = None


@dataclass
class Servers:
    """Speaks for all servers as `Connection` does for one.

    A conversation stays with the server that holds its prefix in the cache, while that one is well; a new one
    goes to the server with the fewest requests in flight. A server that fails after all its attempts rests,
    its conversations move, and after a while it is asked again. Only when none is left, after as many rounds
    as one server would have been given attempts, does a request fail.

    Args:
        base_urls: At least one address.
        timeout_seconds: Longest wait for one attempt.
        retries: How long trouble of one server is sat out.
        rest_seconds: How long a failed server is left alone.
        check_model: Whether an answer under another model's name is a fault: its author is not the policy.
    """

    base_urls: Sequence[str]
    timeout_seconds: float = 60.0
    retries: Retries = field(default_factory=Retries)
    rest_seconds: float = REST_SECONDS
    check_model: bool = True

    def __post_init__(self) -> None:
        """Make the connections.

        Raises:
            InputError: An address is no http or https URL, or stands twice.
        """
        if len(set(self.base_urls)) < len(self.base_urls):
            raise InputError("the same model server is named twice; name every address once.")
        # Where others are well, trouble is not sat out in front of one that is not.
        several = len(self.base_urls) > 1
        each = replace(self.retries, more=min(self.retries.more, 1)) if several else self.retries
        self._rounds = self.retries.more + 1 if several else 1
        self._servers = [
            _Server(Connection(url, timeout_seconds=self.timeout_seconds, retries=each))
            for url in self.base_urls
        ]
        self._homes: dict[str, _Server] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, body: Mapping[str, Any], conversation: str) -> ChatAnswer:
        """Return a completion with at least one choice.

        Raises:
            ServerFault: No server could answer, or the request itself is at fault.
        """
        return await self._spread(lambda one: one.complete(body), body, conversation)

    async def continue_prompt(self, body: Mapping[str, Any], conversation: str) -> TextAnswer:
        """Return what follows a prompt of token ids; otherwise as `complete`."""
        return await self._spread(lambda one: one.continue_prompt(body), body, conversation)

    async def _spread(
        self, send: Callable[[Connection], Awaitable[Answer]], body: Mapping[str, Any], conversation: str
    ) -> Answer:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # clocks of loops differ
            self._loop = loop
            for server in self._servers:
                server.rests_until, server.in_flight = 0.0, 0
        tried: list[_Server] = []
        rounds = 1
        while True:
            server = self._choose(conversation, tried, loop.time())
            tried.append(server)
            server.in_flight += 1
            try:
                answer = await send(server.connection)
                told = "" if answer.model is None else str(answer.model)[:300]
                if self.check_model and not is_same_model(body["model"], told):
                    raise ServerFault("other_model", shown(told, ""))
            except ServerFault as fault:
                if fault.kind not in PASSING:
                    raise
                server.rests_until, server.fault = loop.time() + self.rest_seconds, fault
                self._homes.pop(conversation, None)
                if len(tried) == len(self._servers):
                    if rounds == self._rounds:
                        raise
                    await asyncio.sleep(min(self.retries.first_pause * 2**rounds, self.retries.longest_pause))
                    tried, rounds = [], rounds + 1
            else:
                server.rests_until, server.fault = 0.0, None
                self._homes[conversation] = server
                return answer
            finally:
                server.in_flight -= 1

    def _choose(self, conversation: str, tried: Sequence[_Server], now: float) -> _Server:
        home = self._homes.get(conversation)
        if home is not None and home not in tried and home.rests_until <= now:
            return home
        left = [server for server in self._servers if server not in tried]
        well = [server for server in left if server.rests_until <= now]
        return min(well or left, key=lambda server: (server.rests_until > now, server.in_flight))

    @property
    def resting(self) -> tuple[str, ...]:
        """Addresses of the servers that failed and were not heard of since."""
        return tuple(one.connection.address for one in self._servers if one.fault is not None)

    def forget(self, conversation: str) -> None:
        """The conversation is over."""
        self._homes.pop(conversation, None)

    def explain(self, fault: ServerFault, *, model: str, setting: str, attempts: str = "") -> TraceError:
        """Return what a person is told; see `Connection.explain`."""
        last = next((one for one in self._servers if one.fault is fault), self._servers[0])
        return last.connection.explain(fault, model=model, setting=setting, attempts=attempts)

    async def close(self) -> None:
        """Close all connections."""
        for server in self._servers:
            await server.connection.close()
