"""A connection to an OpenAI-compatible server that sits out passing trouble: for policies and analysts."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.policies.openai_answers import (
    LARGEST,
    ChatAnswer,
    TextAnswer,
    read_answer,
)
from trace_assets.policies.openai_faults import (
    PASSING,
    ServerFault,
    TooLongAnswer,
    conceal,
    public_url,
    read_fault,
    shown,
)
from trace_assets.policies.openai_stream import ENDED, joined_pieces
from trace_assets.system.machine import certificates, through_proxies

if TYPE_CHECKING:
    from openai import AsyncOpenAI

A = TypeVar("A", ChatAnswer, TextAnswer)

PAUSES = 20
"""Longest pauses that an answer in pieces may take in all."""
_END_BYTES = 64
"""More than the line that ends a stream has."""


@dataclass(frozen=True)
class Retries:
    """How long trouble is sat out.

    Attributes:
        more: Further attempts after the first, for everything but rate limits.
        waits: How often one request may be turned away by a rate limit.
        first_pause: Seconds before the second attempt; each further pause is twice as long.
        longest_pause: Seconds at most, unless the server asks for more.
        longest_wait: Seconds that a server's Retry-After may ask for; a longer one is a fault.
    """

    more: int = 4
    waits: int = 20
    first_pause: float = 0.5
    longest_pause: float = 8.0
    longest_wait: float = 300.0


class Meter(Protocol):
    """Counts what one request costs, attempt by attempt: those that were given up cost as well."""

    async def begin(self) -> None:
        """An attempt is to be made; raises where it may not."""
        ...

    def end(self, fault: ServerFault | None) -> None:
        """An attempt ended, in a fault or with an answer."""
        ...


class Connection:
    """Sends chat completions, and prompts of token ids to be continued.

    Rate limits, server errors, time-outs, lost connections, bodies that are no completion and answers
    without a choice are tried again with growing pauses; a Retry-After holds back all requests of this
    connection, not only the one that was told. The key is read from the environment when a client is made,
    and appears in no message, log or attribute. No request goes to another address than the one that was
    named: a server that sends it on is a fault. Answers are read up to a length, and none is unpacked. Each
    request has a connection of its own: nothing that is said beyond an answer is taken for the next one's.

    Args:
        base_url: Such as http://127.0.0.1:8000/v1.
        key_variable: Environment variable that holds the key; a server that wants none needs none.
        timeout_seconds: Longest wait for one attempt.
        retries: How long trouble is sat out.
        on_fault: Told of every failed attempt, those that a later one made good among them.

    Raises:
        InputError: The address is no http or https URL.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key_variable: str = "OPENAI_API_KEY",
        timeout_seconds: float = 60.0,
        retries: Retries | None = None,
        on_fault: Callable[[ServerFault], None] = lambda _: None,
    ) -> None:
        self.address = public_url(base_url)
        if not self.address:
            raise InputError(
                "the address of the model server is not usable; it must look like http://127.0.0.1:8000/v1."
            )
        self.key_variable = key_variable
        self._base_url, self._timeout = base_url, timeout_seconds
        self._retries, self._on_fault = retries or Retries(), on_fault
        self._length_field = "max_tokens"
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._not_before = 0.0

    async def complete(self, body: Mapping[str, Any], meter: Meter | None = None) -> ChatAnswer:
        """Return a completion with at least one choice.

        Args:
            body: The request; its `max_tokens` is renamed for servers that want `max_completion_tokens`.
            meter: Told of every attempt before and after it.

        Raises:
            ServerFault: The last fault, when it does not pass or did not in all attempts.
            Exception: What the meter raises.
        """
        return await self._send(lambda client: client.chat.completions, body, ChatAnswer, meter)

    async def continue_prompt(self, body: Mapping[str, Any]) -> TextAnswer:
        """Return what follows a prompt, with at least one choice; otherwise as `complete`."""
        return await self._send(lambda client: client.completions, body, TextAnswer, None)

    async def _send(
        self,
        endpoint: Callable[[AsyncOpenAI], Any],
        body: Mapping[str, Any],
        kind: type[A],
        meter: Meter | None,
    ) -> A:
        """Ask until there is an answer or a fault that does not pass."""
        attempts = waits = 0
        while True:
            await self._hold()
            try:
                return await self._metered(endpoint, body, kind, meter)
            except ServerFault as fault:
                self._on_fault(fault)
                if fault.kind == "request" and self._renames(fault):
                    continue
                limited = fault.kind == "rate_limit"
                attempts, waits = attempts + (not limited), waits + limited
                allowed = self._retries.waits if limited else self._retries.more
                wait = fault.retry_after or 0.0
                if (
                    fault.kind not in PASSING
                    or wait > self._retries.longest_wait
                    or (waits if limited else attempts) > allowed
                ):
                    raise
                number = max(1, waits if limited else attempts)
                pause = min(self._retries.first_pause * 2 ** (number - 1), self._retries.longest_pause)
                if fault.retry_after is not None:
                    until = asyncio.get_running_loop().time() + wait
                    self._not_before = max(self._not_before, until)
                    pause = max(wait, pause / 10 if limited else pause)
                await asyncio.sleep(pause * random.uniform(1.0, 1.1))

    async def _hold(self) -> None:
        """Wait until no Retry-After is running."""
        self._connected()  # before the clock is read: another loop has another clock
        while (left := self._not_before - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)

    async def _metered(
        self,
        endpoint: Callable[[AsyncOpenAI], Any],
        body: Mapping[str, Any],
        kind: type[A],
        meter: Meter | None,
    ) -> A:
        if meter is None:
            return await self._once(endpoint, body, kind)
        await meter.begin()
        ended: ServerFault | None = ServerFault("connection", "it was given up")
        try:
            answer = await self._once(endpoint, body, kind)
            ended = None
        except ServerFault as fault:
            ended = fault
            raise
        finally:  # also when the whole program is interrupted
            meter.end(ended)
        return answer

    async def _once(
        self, endpoint: Callable[[AsyncOpenAI], Any], body: Mapping[str, Any], kind: type[A]
    ) -> A:
        named = {self._length_field if key == "max_tokens" else key: value for key, value in body.items()}
        client = self._connected()
        if named.get("stream"):
            return await self._streamed(endpoint(client), named, kind)
        try:
            # The client's own limit is one on each read: a server that drips would hold us for ever.
            async with asyncio.timeout(self._timeout):
                response = await endpoint(client).with_raw_response.create(**named)
        except TimeoutError:
            raise ServerFault("timeout", f"TimeoutError: no whole answer in {self._timeout:g} s") from None
        except Exception as error:
            raise read_fault(error, _key(self.key_variable)) from None  # the cause may hold the request
        try:
            answer = read_answer(response.content, kind)
        except ValueError as error:
            raise ServerFault("garbage", shown(error, _key(self.key_variable))) from None
        if not answer.choices:
            raise ServerFault("empty", "an answer without a choice")
        return answer

    async def _streamed(self, endpoint: Any, named: Mapping[str, Any], kind: type[A]) -> A:
        """Ask for an answer in pieces; the limit of time is one on each pause between them.

        All of it takes no more than `PAUSES` times that: a server that says again and again that it is at
        work would hold us for ever.
        """
        body = bytearray()
        now = asyncio.get_running_loop().time
        end = now() + PAUSES * self._timeout
        try:
            async with asyncio.timeout(self._timeout) as limit:
                async with endpoint.with_streaming_response.create(**named) as response:
                    streams = "event-stream" in response.headers.get("content-type", "")
                    async for part in response.iter_bytes():
                        limit.reschedule(min(now() + self._timeout, end))
                        body += part
                        if streams and ENDED.search(body, max(0, len(body) - len(part) - _END_BYTES)):
                            break  # whatever comes now is not of this answer
        except TimeoutError:
            how_long = "no end" if now() >= end else "nothing more"
            seconds = self._timeout * (PAUSES if now() >= end else 1)
            raise ServerFault("timeout", f"TimeoutError: {how_long} in {seconds:g} s") from None
        except Exception as error:
            raise read_fault(error, _key(self.key_variable)) from None  # the cause may hold the request
        try:
            answer = read_answer(joined_pieces(bytes(body)) if streams else bytes(body), kind)
        except ValueError as error:
            raise ServerFault("garbage", shown(error, _key(self.key_variable))) from None
        if not answer.choices:
            raise ServerFault("empty", "an answer without a choice")
        return answer

    def _renames(self, fault: ServerFault) -> bool:
        if self._length_field == "max_tokens" and "max_completion_tokens" in fault.said:
            self._length_field = "max_completion_tokens"
            return True
        return False

    def _connected(self) -> AsyncOpenAI:
        """Return a client of this event loop: its connections do not outlive a loop."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client = AsyncOpenAI(
                base_url=self._base_url,
                api_key=_key(self.key_variable) or "not-needed",
                max_retries=0,
                timeout=self._timeout,
                # Unpacked answers alone: a few bytes of a packed one may be any number. And a connection for
                # each request: whatever a server says beyond an answer (a body longer than it told, an answer
                # to what was given up) would be read as the answer to the next one.
                default_headers={"Accept-Encoding": "identity", "Connection": "close"},
                http_client=DefaultAsyncHttpxClient(
                    trust_env=(proxies := through_proxies(self._base_url)),
                    verify=certificates(proxies),
                    follow_redirects=False,
                    event_hooks={"response": [_bounded]},
                ),
            )
            self._loop, self._not_before = loop, 0.0
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.close()
        self._client = None

    def explain(self, fault: ServerFault, *, model: str, setting: str, attempts: str = "") -> TraceError:
        """Return what a person is told about a fault that was not sat out.

        Args:
            fault: The last one.
            model: Model that was asked for.
            setting: Name of the setting that holds the address.
            attempts: How often it was tried, in words.
        """
        server = f"the model server at {self.address}"
        said = conceal(fault.said, _key(self.key_variable))
        if fault.kind in ("timeout", "connection"):
            return Unavailable(f"{server} cannot be reached ({said}); start it, or mend {setting}.")
        if fault.kind == "key":
            return InputError(
                f"{server} refuses the key (HTTP {fault.status}: {said}); set {self.key_variable} to one "
                "that it accepts and that has credit."
            )
        if fault.kind == "model":
            return InputError(f"{server} does not know '{model}': {said}; see its /v1/models.")
        if fault.kind == "garbage":
            return Unavailable(f"the answer of {server} is not a chat completion: {said}.")
        if fault.kind == "redirect":
            return InputError(
                f"{server} sends requests on to {said}, where nothing is sent unasked; set {setting} to that "
                "address if it is the one you mean."
            )
        if fault.kind == "other_model":
            return Unavailable(
                f"{server} answered as '{said}' where '{model}' was asked for; correct the model's name"
                f"{_unchecked(setting)}."
            )
        if fault.kind == "empty":
            return Unavailable(f"{server} answered {attempts}without a choice; look at its log.")
        if fault.retry_after is not None and fault.retry_after > self._retries.longest_wait:
            said += f"; it asks to wait {fault.retry_after:.0f} s"
        status = f"answered HTTP {fault.status}" if fault.status else "cannot be used"
        return Unavailable(f"{server} {status}: {said}.")


def _unchecked(setting: str) -> str:
    """Say how a name is let pass, where that can be set."""
    section = setting.partition(".")[0]
    if section not in ("rollouts", "analyst", "writer"):
        return ""
    return f", or set {section}.check_model to false where a gateway's names differ from its models'"


async def _bounded(response: Any) -> None:
    """Have the body of an answer read no further than any answer goes; a hook of the HTTP client."""
    if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
        raise TooLongAnswer("the body is packed, which was not asked for")
    stream = response.stream
    # The client checks the type, of whichever HTTP library it is built on.
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "AsyncByteStream")
    response.stream = _counted(base)(stream)


@cache
def _counted(base: type) -> type:
    """Return a stream of a library's type that ends where an answer is too long."""

    class Counted(base):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream, self._left = stream, LARGEST

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self._stream:
                self._left -= len(part)
                if self._left < 0:
                    raise TooLongAnswer(f"the body is longer than {LARGEST >> 20} MiB")
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Counted


def _key(variable: str) -> str:
    return os.environ.get(variable) or ""
