"""No request is answered by what a server said beyond another one's answer."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.serving.router.raw_server import RawServer, whole_request
from trace_assets.policies.openai_connection import Connection, Retries
from trace_assets.policies.openai_faults import ServerFault


def answer(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"model": "m", "choices": [choice]}).encode()


def pieces(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    return b"data: " + json.dumps({"model": "m", "choices": [choice]}).encode() + b"\n\ndata: [DONE]\n\n"


def told(body: bytes, status: bytes = b"200 OK", *more: bytes, kind: bytes = b"application/json") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join([*lines, b"", body])


def chunked(body: bytes, kind: bytes = b"application/json") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


STRAY = told(answer("a stray"))
EVENTS = b"text/event-stream"
SAYS: dict[str, Callable[[str], bytes]] = {
    "an answer": lambda own: told(answer(own)) + STRAY,
    "in chunks": lambda own: chunked(answer(own)) + STRAY,
    "a fault": lambda own: told(b"{}", b"500 Broken") + STRAY,
    "a redirect": lambda own: told(b"", b"307 Elsewhere", b"Location: /v1/more") + STRAY,
    "no content": lambda own: b"HTTP/1.1 204 No Content\r\n\r\n" + STRAY,
    "no choice": lambda own: told(b'{"choices": []}') + STRAY,
}
STREAMS: dict[str, Callable[[str], bytes]] = {
    "a stream": lambda own: told(pieces(own), kind=EVENTS) + told(pieces("a stray"), kind=EVENTS),
    "a stream in chunks": lambda own: chunked(pieces(own), EVENTS) + chunked(pieces("a stray"), EVENTS),
}


class Overlong(RawServer):
    """Answers every request of a connection, keeps the connection, and says more than it was asked.

    Attributes:
        asked: Requests so far.
    """

    def __init__(self, says: Callable[[str], bytes], late: float) -> None:
        self.says, self.late, self.asked = says, late, 0
        super().__init__(100)

    def speak(self, client: socket.socket) -> None:
        while request := whole_request(client):
            self.asked += 1
            own = re.search(rb"question \d+", request)
            assert own is not None
            said = self.says(own[0].decode())
            if self.late:  # what is said beyond comes in a segment of its own
                client.sendall(said[: said.rindex(b"HTTP/1.1")])
                time.sleep(self.late)
                said = said[said.rindex(b"HTTP/1.1") :]
            client.sendall(said)


@pytest.fixture
def serve() -> Iterator[Callable[..., Overlong]]:
    with ExitStack() as servers:

        def begin(says: Callable[[str], bytes], late: float = 0.0) -> Overlong:
            server = Overlong(says, late)
            servers.callback(server.close)
            return server

        yield begin


def ask(server: Overlong, *, stream: bool, number: int = 4) -> list[str]:
    connection = Connection(server.url, retries=Retries(more=1, first_pause=0.001, longest_pause=0.001))

    async def one(question: str) -> str:
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": question}]}
        try:
            completion = await connection.complete(body | ({"stream": True} if stream else {}))
        except ServerFault as fault:
            return fault.kind
        return completion.choices[0].message.text

    async def run() -> list[str]:
        try:
            return [await one(f"question {place}") for place in range(number)]
        finally:
            await connection.close()

    return asyncio.run(run())


@pytest.mark.parametrize("late", [0.0, 0.01])
@pytest.mark.parametrize("name", [*SAYS, *STREAMS])
def test_what_is_said_beyond_an_answer_is_nobodys(
    name: str, late: float, serve: Callable[..., Overlong]
) -> None:
    stream = name in STREAMS
    server = serve((STREAMS if stream else SAYS)[name], late)
    said = ask(server, stream=stream)
    own = [f"question {place}" for place in range(4)]
    good = name in ("an answer", "in chunks") or stream
    assert said == own if good else not {"a stray", *own} & set(said), "an answer to itself, or a fault"
    assert server.asked >= 4, "every question was asked of the server"
