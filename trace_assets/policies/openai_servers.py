"""Several servers of the same models: the load is spread, a dead one is left alone and tried again later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trace_assets.errors import InputError, TraceError
from trace_assets.policies.openai_answers import ChatAnswer, TextAnswer
from trace_assets.policies.openai_connection import Connection, Retries
from trace_assets.policies.openai_faults import PASSING, ServerFault, is_same_model, shown

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

        Args:
            body: The request.
            conversation: Whose it is.

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
