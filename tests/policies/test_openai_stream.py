"""Answers that come in pieces: of one answer alone, whoever numbers what, and with an end."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.serving.router.raw_server import RawServer, whole_request
from trace_assets.policies.openai_answers import ChatAnswer, read_answer
from trace_assets.policies.openai_connection import PAUSES, Connection, Retries
from trace_assets.policies.openai_faults import ServerFault
from trace_assets.policies.openai_stream import joined_pieces

Piece = dict[str, Any]


def piece(words: str = "", finish: str | None = None, *, place: int = 0, **more: Any) -> Piece:
    choice = {"index": place, "delta": {"content": words}, "finish_reason": finish}
    return {"id": "a", "model": "m", "choices": [choice], **more}


def calls(*given: tuple[Any, str | None, str | None, str]) -> Piece:
    """Return a piece of calls: index, id, name, arguments."""
    rows = []
    for index, id, name, arguments in given:
        function = {"arguments": arguments, **({"name": name} if name else {})}
        row = {"index": index, "id": id, "function": function}
        rows.append({key: value for key, value in row.items() if value is not None})
    return {"choices": [{"index": 0, "delta": {"tool_calls": rows}}]}


def body(*pieces: Piece) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in pieces) + b"data: [DONE]\n\n"


def read(*pieces: Piece) -> ChatAnswer:
    return read_answer(joined_pieces(body(*pieces)), ChatAnswer)


@pytest.mark.parametrize(
    "pieces",
    [
        (piece("to "), piece("an", place=1), piece("me"), piece("other", "stop", place=1), piece("", "stop")),
        (piece("to me"), piece("", "stop", place=1)),
        ({"choices": [*piece("an", place=1)["choices"], *piece("to me", "stop")["choices"]]},),
        (piece("to me"), piece("", "stop"), piece("another"), piece("", "stop")),
        (piece("to me", "stop"), calls((0, "x", "tool", "{}")), piece("", "stop")),
        (piece("to "), piece("an", id="b"), piece("me"), piece("other", "stop", id="b"), piece("", "stop")),
        (piece("to me"), piece(""), piece("another", id="b"), piece("", "stop", id="b")),
        (piece("to me"), piece("another", "stop", model="other")),
    ],
    ids=["choices", "end of another", "one piece", "after the end", "calls", "ids", "ids in turn", "models"],
)
def test_pieces_of_several_answers_are_none(pieces: tuple[Piece, ...]) -> None:
    with pytest.raises(ValueError, match="of more than one answer"):
        joined_pieces(body(*pieces))


@pytest.mark.parametrize(
    "pieces",
    [
        (piece("to ", id="1"), piece("me", id="2"), piece("", "stop", id="3")),
        (piece("to ", "stop"), piece("me", "stop")),
        ({"id": "", "model": "", "choices": []}, piece("to me", "stop"), {"choices": [], "usage": {}}),
        (piece("to me", "stop"), piece("", "stop")),
        (piece("to me", model="vendor/m"), piece("", "stop", model="m-2026-01-01")),
        ({"choices": [{"message": {"content": "to me"}, "finish_reason": "stop"}]},),
    ],
    ids=["an id a piece", "an end a piece", "nameless", "two ends", "names of one model", "a message"],
)
def test_servers_that_number_otherwise_are_heard(pieces: tuple[Piece, ...]) -> None:
    assert read(*pieces).choices[0].message.text == "to me"


WHOLE = [("one", '{"a": 1}'), ("two", '{"b": 2}')]


@pytest.mark.parametrize(
    "pieces",
    [
        [(1, "y", "two", '{"b": '), (0, "x", "one", '{"a": '), (1, None, None, "2}"), (0, None, None, "1}")],
        [(None, "x", "one", '{"a": 1}'), (None, "y", "two", '{"b": 2}')],
        [(None, "x", "one", '{"a": '), (None, "x", None, "1}"), (None, "y", "two", '{"b": 2}')],
        [(None, None, "one", '{"a": '), (None, None, None, "1}"), (None, None, "two", '{"b": 2}')],
        [("0", "x", "one", '{"a": 1}'), ("1", "y", "two", '{"b": 2}')],
        [(0, "x", "one", '{"a": 1}'), (10**9, "y", "two", '{"b": 2}')],
        [(0, "x", "one", '{"a": 1}'), (0, "y", "two", '{"b": 2}')],
        [(0, "x", "one", '{"a": '), (0, "x", None, "1}"), (1, "y", "two", '{"b": 2}')],
    ],
    ids=["any order", "ids", "ids again", "names", "text", "far", "one index", "all"],
)
def test_calls_are_told_apart_however_they_are_numbered(pieces: list[Any]) -> None:
    for groups in ([pieces], [[one] for one in pieces]):
        answer = read(*(calls(*group) for group in groups), piece("", "tool_calls"))
        given = answer.choices[0].message.tool_calls or []
        assert [(one.function.name, one.function.arguments) for one in given if one.function] == WHOLE


def test_no_answer_has_thousands_of_calls() -> None:
    with pytest.raises(ValueError, match="more than 64 tool calls"):
        joined_pieces(body(*(calls((n, None, "one", "{}")) for n in range(65)), piece("", "stop")))


def test_a_usage_that_shrinks_is_not_believed() -> None:
    dear, cheap = {"prompt_tokens": 900, "completion_tokens": 60}, {"prompt_tokens": 1}
    assert read(piece("x", usage=dear), piece("", "stop", usage=cheap)).usage == dear
    assert read(piece("x", usage=cheap), piece("", "stop", usage=dear)).usage == dear


@pytest.mark.parametrize(
    "whole",
    [
        {"choices": [{"message": {"content": "a"}}, {"index": 1, "message": {"content": "b"}}]},
        {"choices": [{"message": {"content": "a"}}], "error": {"message": "overloaded"}},
        {"choices": [{"message": {"content": "a"}, "error": {"message": "overloaded"}}]},
        {"choices": [{"message": {"content": "a"}, "finish_reason": "ERROR"}]},
    ],
)
def test_half_an_answer_or_two_are_none(whole: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"2 choices where one|says that it failed|gave it up"):
        read_answer(json.dumps(whole).encode(), ChatAnswer)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


class Talker(RawServer):
    """Says a stream, and then is told how to go on."""

    def __init__(self, says: bytes, goes_on: Callable[[socket.socket], None]) -> None:
        self.says, self.goes_on = says, goes_on
        super().__init__(20)

    def speak(self, client: socket.socket) -> None:
        whole_request(client)
        client.sendall(self.says)
        self.goes_on(client)


def for_ever(client: socket.socket) -> None:
    while True:
        client.sendall(b": at work\n\n")
        time.sleep(0.005)


@pytest.fixture
def talk() -> Iterator[Callable[..., Any]]:
    with ExitStack() as servers:

        def ask(says: bytes, goes_on: Callable[[socket.socket], None], seconds: float = 5.0) -> Any:
            server = Talker(says, goes_on)
            servers.callback(server.close)
            connection = Connection(server.url, timeout_seconds=seconds, retries=Retries(more=0))

            async def run() -> Any:
                try:
                    async with asyncio.timeout(60):
                        return await connection.complete({"model": "m", "messages": [], "stream": True})
                except ServerFault as fault:
                    return fault
                finally:
                    await connection.close()

            return asyncio.run(run())

        yield ask


@pytest.mark.parametrize(
    "head", [HEAD + b"\r\n", HEAD + b"Content-Length: 9000\r\n\r\n"], ids=["open", "longer"]
)
def test_whatever_comes_behind_the_end_is_not_waited_for(head: bytes, talk: Callable[..., Any]) -> None:
    answer = talk(head + body(piece("to me", "stop")), for_ever)
    assert answer.choices[0].message.text == "to me"


def test_a_server_that_is_at_work_for_ever_is_given_up(talk: Callable[..., Any]) -> None:
    fault = talk(HEAD + b"\r\n", for_ever, 0.05)
    assert (fault.kind, fault.said) == ("timeout", f"TimeoutError: no end in {0.05 * PAUSES:g} s")


@pytest.mark.parametrize("length", [b"Content-Length: 9000", b"Transfer-Encoding: chunked"])
def test_a_stream_that_is_cut_on_the_wire_is_a_fault(length: bytes, talk: Callable[..., Any]) -> None:
    part = b"data: " + json.dumps(piece("to me")).encode() + b"\n\n"
    said = b"%x\r\n%s\r\n" % (len(part), part) if b"chunked" in length else part
    fault = talk(HEAD + length + b"\r\n\r\n" + said, lambda client: None)
    assert isinstance(fault, ServerFault) and fault.kind == "connection" and fault.may_cost
