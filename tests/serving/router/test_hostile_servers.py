"""What a model server, or what is in its place, may do to the router; and what many bad clients may."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from tests.quick import one_of_each
from tests.serving.router.conftest import Start
from tests.serving.router.pretend_server import PretendServer
from tests.serving.router.raw_server import RawServer, whole_request
from tests.serving.router.test_hostile_requests import ROUTED, exchange, request, status
from trace_assets.serving.router import limits
from trace_assets.serving.router.decisions import ServedLabels
from trace_assets.serving.router.upstream import Upstream

Serve = Callable[..., str]


class Speaker(RawServer):
    """A server that says to every request the bytes it was given, then closes, or says no more.

    Attributes:
        seen: What came on each connection.
        gone: Set when a client has left it while it was silent.
    """

    def __init__(self, says: bytes, *, hangs: bool) -> None:
        self.says, self.hangs = says, hangs
        self.seen: list[bytes] = []
        self.gone = threading.Event()
        self.came = threading.Event()
        super().__init__(600)

    def speak(self, client: socket.socket) -> None:
        self.seen.append(whole_request(client))
        self.came.set()
        client.sendall(self.says)
        if self.hangs:
            while client.recv(1 << 20):
                pass
            self.gone.set()


@pytest.fixture
def speaks() -> Iterator[Callable[..., Speaker]]:
    with ExitStack() as stack:

        def begin(says: bytes, *, hangs: bool = False) -> Speaker:
            one = Speaker(says, hangs=hangs)
            stack.callback(one.close)
            return one

        yield begin


def whole(body: bytes, *headers: bytes, code: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + code, b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"Connection: close", b"", body])


def ask(url: str, **more: object) -> httpx.Response:
    return httpx.post(f"{url}/chat/completions", json={**ROUTED, **more}, timeout=600)


SAYS: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 502),
    "no http": (b"\x16\x03\x01\x02\x00 hello\r\n\r\n", 502),
    "half a status": (b"HTTP/1.1 20", 502),
    "half the headers": (b"HTTP/1.1 200 OK\r\nContent-Le", 502),
    "a status of words": (b"HTTP/1.1 fine OK\r\n\r\n", 502),
    "a status of six digits": (b"HTTP/1.1 200200 OK\r\n\r\n", 502),
    "endless headers": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000, 502),
    "a body cut short": (whole(b"{}" * 50).replace(b"100", b"5000"), 502),
    "a length of minus one": (whole(b"{}").replace(b"th: 2", b"th: -1"), 502),
    "two lengths": (whole(b"{}", b"Content-Length: 7"), 502),
    "chunks of bad sizes": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        502,
    ),
    "chunks without an end": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 502),
    "a chunk longer than said": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n", 502),
    "a header with NUL": (whole(b"{}", b"X: a\x00b"), 502),
    "garbage": (whole(b"\xff\xfe{{{"), 502),
    "an empty body": (whole(b""), 502),
    "a body that ends with the connection": (b"HTTP/1.1 200 OK\r\n\r\n" + b'{"choices": []}', 200),
    "half of one": (b"HTTP/1.1 200 OK\r\n\r\n" + b'{"choices": [{"message": {"content": "Your or', 502),
    "half of one whose length is right": (whole(b'{"choices": [{"message"'), 502),
    "half of one, as words": (b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + b'{"choices": [', 502),
    "numbers that are none": (whole(b'{"choices": [{"logprobs": NaN}]}'), 200),
    "an answer that is packed": (whole(gzip.compress(b"{}"), b"Content-Encoding: gzip"), 502),
    "500": (whole(b"oops", code=b"500 Internal"), 500),
    "503": (whole(b"{}", b"Retry-After: 9", code=b"503 Busy"), 503),
    "a redirect": (whole(b"", b"Location: http://evil.example/", code=b"307 Elsewhere"), 502),
    "no such model": (whole(b'{"error": {"message": "no such model"}}', code=b"404 Not Found"), 404),
    "hop by hop headers": (whole(b"{}", b"Upgrade: h2c", b"Proxy-Authenticate: x", b"TE: x"), 200),
    "beyond ASCII": (whole(b"{}", b"X-Name: caf\xe9"), 200),
}


@pytest.mark.parametrize("name", SAYS)
def test_whatever_the_server_says_is_its_own_fault(
    name: str, speaks: Callable[..., Speaker], start: Start
) -> None:
    says, expected = SAYS[name]
    server = speaks(says)
    url = start(server.url)
    answer = ask(url)
    assert answer.status_code == expected
    if expected == 502:
        assert answer.json()["error"]["type"] == "upstream_error"
        assert "the model server at" in answer.json()["error"]["message"]
    assert not {"upgrade", "proxy-authenticate", "te"} & set(answer.headers)
    assert ask(url).status_code == expected, "and the next one is answered alike"
    assert all(seen.count(b"POST /v1/chat/completions") == 1 for seen in server.seen), "none is asked twice"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"5\r\ndata:",
        b"zz\r\n",
        b"9\r\ndata: {}\n\r\n\r\n",
        b"8\r\ndata: {}\r\n",
        b"ffffffffffffffffffff\r\nx",
    ],
)
def test_a_stream_that_breaks_off_ends_in_an_error(
    rest: bytes, speaks: Callable[..., Speaker], start: Start
) -> None:
    answer = ask(start(speaks(STREAM + rest).url), stream=True)
    last = answer.content.split(b"\n\n")[-2].strip()
    assert answer.status_code == 200 and last.startswith(b"data: ")
    assert json.loads(last[6:])["error"]["type"] == "upstream_error"


def piece(text: str = "", finish: str | None = None, index: int = 0) -> bytes:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"


UNENDED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
"""Of a stream that ends with its connection: HTTP says nothing of whether it is whole."""
TOLD = piece("I have ") + piece("cancelled")
ENDS: dict[str, tuple[bytes, int, bool]] = {
    "nothing": (b"", 1, False),
    "some pieces": (TOLD, 1, False),
    "half a piece": (TOLD + piece(" K1")[:40], 1, False),
    "a piece that was not sent off": (TOLD + piece("", "stop")[:-1], 1, False),
    "half the last word": (TOLD + b"data: [DO", 1, False),
    "the last word as what was said": (TOLD + piece("data: [DONE]"), 1, False),
    "a finish as what was said": (TOLD + piece('"finish_reason": "stop"'), 1, False),
    "one of two choices": (TOLD + piece("", "stop"), 2, False),
    "one choice twice": (TOLD + piece("", "stop") * 2, 2, False),
    "done": (TOLD + b"data: [DONE]\n\n", 1, True),
    "done without a space": (TOLD + b"data:[DONE]", 1, True),
    "done in other line ends": ((TOLD + b"data: [DONE]\n\n").replace(b"\n", b"\r"), 1, True),
    "finished": (TOLD + piece("", "stop"), 1, True),
    "finished at its length": (
        TOLD + piece("", "length") + b'data: {"choices": [], "usage": {}}\n\n',
        1,
        True,
    ),
    "both of two": (TOLD + piece("", "stop") + piece("", "tool_calls", 1), 2, True),
    "its own error": (TOLD + b'data: {"error": {"message": "no memory", "type": "x"}}\n\n', 1, True),
}


@pytest.mark.parametrize(
    ("name", "length"),
    [
        *((name, "chunked") for name in ENDS),
        # How the body is framed is read below what it says: a broken one and a whole one of each way to end.
        *((name, "none") for name in ("some pieces", "half a piece", "done", "finished", "its own error")),
    ],
)
def test_a_stream_that_ends_before_its_answer_is_an_error_however_politely_it_ends(
    name: str, length: str, speaks: Callable[..., Speaker], start: Start
) -> None:
    rest, choices, whole_answer = ENDS[name]
    says = UNENDED + rest
    if length == "chunked":
        says = STREAM + b"".join(chunk(rest[at : at + 7]) for at in range(0, len(rest), 7)) + b"0\r\n\r\n"
    url = start(speaks(says).url)
    answer = ask(url, stream=True, n=choices)
    if whole_answer:
        assert answer.content == rest, "byte for byte"
    else:
        events = answer.text.replace("\r", "\n").split("\n\n")
        told = [json.loads(one.strip().removeprefix("data: ")) for one in events if one.strip()]
        assert [one for one in told if "error" in one] == told[-1:], "whole events, then an error"
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    messages: Any = ROUTED["messages"]
    stream = client.chat.completions.create(model="routed", messages=messages, stream=True, n=choices)
    if whole_answer and name != "its own error":
        list(stream)
    else:
        with pytest.raises(openai.APIError, match=r"broke the stream off|no memory"):
            list(stream)


def test_a_server_that_is_killed_in_the_middle_and_started_again_is_told_and_asked_again(
    server: PretendServer, start: Start
) -> None:
    url, server.fault = start(server.url), "killed_stream"
    port = urlsplit(server.url).port
    messages: Any = ROUTED["messages"]
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)
    stream = client.chat.completions.create(model="routed", messages=messages, stream=True)
    with pytest.raises(openai.APIError, match="broke the stream off"):
        list(stream)
    server.stop()
    with pytest.raises(openai.InternalServerError, match="is not to be reached"):
        client.chat.completions.create(model="routed", messages=messages)
    with PretendServer(port) as again:
        for _ in range(3):
            told = client.chat.completions.create(model="routed", messages=messages)
            assert told.choices[0].message.content == "cancel@0f3a9b2c"
        assert len(again.chats()) == 3


MODELS: dict[str, Any] = {
    "a number": {"data": 5},
    "a text": {"data": "base"},
    "true": {"data": True},
    "an object": {"data": {"id": "base"}},
    "rows of anything": {"data": [1, None, [], "x", {"id": []}, {"id": {}}, {"id": 7}, {}]},
    "a list": [1, 2],
    "nothing": None,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_list_of_models_may_hold_anything(name: str, speaks: Callable[..., Speaker], start: Start) -> None:
    url = start(speaks(whole(json.dumps(MODELS[name]).encode())).url)
    health = httpx.get(f"{url.removesuffix('/v1')}/health", timeout=600)
    assert health.status_code == 503 and "does not serve" in health.json()["problem"]
    assert httpx.get(f"{url}/models", timeout=600).status_code == 200


@pytest.mark.parametrize("body", [b"[" * 4_000_000, b"\xff", b'{"data": [' + b"[]," * 9_000_000 + b"[]]}"])
def test_nor_does_a_list_of_models_that_is_none(
    body: bytes, speaks: Callable[..., Speaker], start: Start
) -> None:
    url = start(speaks(whole(body)).url)
    assert httpx.get(f"{url.removesuffix('/v1')}/health", timeout=600).status_code == 503
    assert httpx.get(f"{url}/models", timeout=600).status_code in (200, 502)


def _logprobs(value: object) -> Any:
    return {"choices": [{"logprobs": {"content": [{"top_logprobs": value}]}}]}


QUESTIONS: list[Any] = [
    *(None, [], {}, {"choices": 5}, {"choices": []}, {"choices": ["x"]}, {"choices": [{"logprobs": None}]}),
    *({"choices": [{"logprobs": {"content": []}}]}, {"choices": [{"logprobs": {"content": [1, 2]}}]}),
    *(_logprobs(None), _logprobs(7), _logprobs([1]), _logprobs([{"token": [], "logprob": 1}])),
    *(_logprobs([{"token": "token_id:100", "logprob": value}]) for value in ("x", None, [], 10**400, {})),
]


@pytest.mark.parametrize(
    "said",
    one_of_each(QUESTIONS, lambda said: json.dumps(said)[:70], then=0),
    ids=lambda said: json.dumps(said)[:80],
)
def test_an_answer_to_the_routing_question_that_is_none(
    said: Any, server: PretendServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "labels", lambda _: said)
    labels = ServedLabels(Upstream(server.url), "base", {"cancel": "Cancel.", "multi": "Many."})
    answer = ask(start(server.url, labels))
    assert answer.status_code == 502 and answer.json()["error"]["type"] == "upstream_error"


# Clients that leave, and clients in crowds.


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_a_silent_server_lets_go_of_all(
    stream: bool, speaks: Callable[..., Speaker], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_BODIES", 4000)
    server = speaks(STREAM if stream else b"", hangs=True)
    parts = urlsplit(start(server.url))
    address = str(parts.hostname), int(parts.port or 0)
    for _ in range(3):  # three of them would not fit at once
        server.came.clear()
        server.gone.clear()
        with socket.create_connection(address, timeout=600) as client:
            client.sendall(request(json.dumps({**ROUTED, "stream": stream, "pad": "x" * 2500}).encode()))
            assert server.came.wait(600), "it was handed on"
        assert server.gone.wait(600), "and the server is told that nobody waits"
        server.says, server.hangs = whole(b"{}"), False
        until = time.monotonic() + 600
        while (told := status(exchange(address, request(b"x" * 3500)))) == 503 and time.monotonic() < until:
            time.sleep(0.01)
        assert told == 200, "and the room that it took is free"
        server.says, server.hangs = (STREAM if stream else b""), True


@pytest.fixture
def address(server: PretendServer, start: Start) -> tuple[str, int]:
    parts = urlsplit(start(server.url))
    return str(parts.hostname), int(parts.port or 0)


GOOD = json.dumps(ROUTED).encode()


def chunked(*chunks: bytes) -> bytes:
    lines = [
        b"POST /v1/chat/completions HTTP/1.1",
        b"Host: a",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
    ]
    return b"\r\n".join([*lines, b"", b"".join(chunks)])


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(
    ("content", "expected"),
    one_of_each(
        [
            (chunked(chunk(GOOD), b"0\r\n\r\n"), {200}),
            (chunked(*(chunk(GOOD[i : i + 1]) for i in range(len(GOOD))), b"0\r\n\r\n"), {200}),
            (chunked(chunk(GOOD), b"0\r\nX: trailer\r\n\r\n"), {200}),
            (chunked(b"%x;ext=1\r\n%s\r\n" % (len(GOOD), GOOD), b"0\r\n\r\n"), {200}),
            (chunked(b"zz\r\n", GOOD), {0, 400}),
            (chunked(b"-1\r\n", GOOD), {0, 400}),
            (chunked(b"0x5\r\nhello\r\n0\r\n\r\n"), {0, 400}),
            (chunked(b"+5\r\nhello\r\n0\r\n\r\n"), {0, 400}),
            (chunked(b"5 \r\nhello\r\n0\r\n\r\n"), {0, 400, 502}),
            (chunked(b"ffffffffffffffffffffff\r\n" + GOOD), {0, 400}),
            (chunked(b"2\r\n" + GOOD + b"\r\n0\r\n\r\n"), {0, 400}),
            (chunked(b"0" * 70_000 + b"\r\n\r\n"), {0, 400, 431}),
            (chunked(b"\n0\n\n"), {0, 400, 408}),
            (request(GOOD) * 3, {200}),
            (request(GOOD)[:-5], {0, 408}),
            (request(GOOD).replace(b"POST", b"PUT"), {405}),
            (b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}", {421}),
            (b"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", {404, 405}),
            (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", {400, 404, 405}),
            (request(GOOD, b"Expect: 100-continue"), {100, 200}),
            (request(GOOD, b"Upgrade: websocket", b"Sec-WebSocket-Key: x"), {200}),
        ],
        kind=lambda case: min(case[1]),
    ),
)
def test_a_request_in_any_pieces_is_whole_or_refused(
    content: bytes, expected: set[int], address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as impatient:
        if 200 not in expected:  # what is whole may come late on a busy machine
            impatient.setattr(limits, "BODY_SECONDS", 1.0)
        assert status(exchange(address, content)) in expected
    assert status(exchange(address, request(GOOD))) == 200


def test_requests_in_one_go_are_answered_in_their_order(address: tuple[str, int]) -> None:
    many = b"".join(
        request(json.dumps({**ROUTED, "messages": [{"role": "user", "content": word}]}).encode()).replace(
            b"Connection: close", b"X: y"
        )
        for word in ("cancel", "multi", "nothing") * 10
    )
    answers = exchange(address, many + request(GOOD)).split(b"HTTP/1.1 200 OK")[1:]
    chosen = [
        next(one for one in (b"cancel", b"multi", b"none") if b"choice: " + one in said) for said in answers
    ]
    assert chosen == [b"cancel", b"multi", b"none"] * 10 + [b"cancel"]


@pytest.mark.ci
def test_two_hundred_at_once_are_all_answered(address: tuple[str, int]) -> None:
    with ThreadPoolExecutor(200) as threads:
        found = list(threads.map(lambda _: status(exchange(address, request(GOOD))), range(400)))
    assert set(found) == {200}


@pytest.mark.ci
def test_a_crowd_of_slow_and_broken_clients_keeps_nobody_out(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = (
        b"",
        b"POST",
        request(GOOD)[:-9],
        chunked(b"5\r\nhel"),
        b"\x00" * 99,
        request(GOOD, *[b"X: y"] * 1000),
    )
    with ExitStack() as stack:
        for number in range(300):
            client = stack.enter_context(socket.create_connection(address, timeout=600))
            with suppress(OSError):
                client.sendall(bad[number % len(bad)])
        for _ in range(20):
            assert status(exchange(address, request(GOOD))) == 200
    assert status(exchange(address, request(GOOD))) == 200


def test_a_record_that_cannot_be_written_keeps_no_client_waiting(
    server: PretendServer, start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, record = start(server.url), tmp_path / "decisions.jsonl"
    assert ask(url).status_code == 200 and record.read_text().count("\n") == 1
    record.unlink()
    record.mkdir()
    assert [ask(url).status_code for _ in range(3)] == [200] * 3
    said = [one.getMessage() for one in caplog.records if "cannot be recorded" in one.getMessage()]
    assert said == [f"decisions cannot be recorded in {record} (Is a directory)"], (
        "once, until it works again"
    )
    record.rmdir()
    assert ask(url).status_code == 200 and record.read_text().count("\n") == 1
