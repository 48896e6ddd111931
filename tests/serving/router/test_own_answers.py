"""Each request has its own answer, of the model that it was routed to, and is handed on as it was said."""

from __future__ import annotations

import asyncio
import json
import os
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
import pytest

from tests.serving.router.conftest import MODELS, ByWord, Start
from tests.serving.router.pretend_server import PretendServer
from tests.serving.router.raw_server import RawServer, whole_request
from tests.serving.router.test_hostile_requests import exchange, request, status
from tests.serving.router.test_hostile_servers import piece, whole
from trace_assets.errors import InputError
from trace_assets.serving.router import app, limits
from trace_assets.serving.router.decisions import Decisions, FittedDecider

Says = Callable[[bytes, int], list[bytes | float]]


class Scripted(RawServer):
    """A server that keeps its connections: what it says is written for each request.

    Attributes:
        asked: The requests.
    """

    def __init__(self, says: Says) -> None:
        self.says, self.asked = says, list[bytes]()
        super().__init__(64)

    def speak(self, client: socket.socket) -> None:
        while came := whole_request(client):
            self.asked.append(came)
            for said in self.says(came, len(self.asked)):
                if isinstance(said, float):
                    time.sleep(said)
                else:
                    client.sendall(said)


@pytest.fixture
def scripted() -> Iterator[Callable[[Says], Scripted]]:
    with ExitStack() as stack:

        def begin(says: Says) -> Scripted:
            one = Scripted(says)
            stack.callback(one.close)
            return one

        yield begin


def routed(text: str = "cancel", **more: Any) -> dict[str, Any]:
    return {"model": "routed", "messages": [{"role": "user", "content": text}], **more}


def said(text: str, model: str = "cancel@0f3a9b2c") -> bytes:
    message = {"role": "assistant", "content": text}
    body = json.dumps({"model": model, "choices": [{"finish_reason": "stop", "message": message}]}).encode()
    return whole(body).replace(b"Connection: close\r\n", b"")


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


BEYOND: dict[str, bytes] = {
    "two answers": said("mine") + said("another's"),
    "a body that is longer than it told": whole(b'{"choices": []}' + said("another's")).replace(
        b"Content-Length: 1", b"X-Was: 1", 1
    ).replace(b"Connection: close", b"Content-Length: 15"),
    "a refusal and an answer": whole(b"{}", code=b"404 Not Found").replace(b"Connection: close\r\n", b"")
    + said("another's"),
    "no content and an answer": b"HTTP/1.1 204 No Content\r\n\r\n" + said("another's"),
}  # fmt: skip


@pytest.mark.parametrize("name", BEYOND)
def test_what_a_server_says_beyond_an_answer_is_nobodys(
    name: str, scripted: Callable[[Says], Scripted], start: Start
) -> None:
    server = scripted(lambda _, number: [BEYOND[name] if number == 1 else said("yours")])
    url = start(server.url)
    with httpx.Client(timeout=600) as client:
        client.post(f"{url}/chat/completions", json=routed())
        second = client.post(f"{url}/chat/completions", json=routed())
    assert second.json()["choices"][0]["message"]["content"] == "yours"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("opening", "model", "right"),
    [
        ("cancel", "cancel@0f3a9b2c", True),
        ("cancel", "lora/cancel@0f3a9b2c", True),
        ("cancel", "", True),
        ("cancel", "base", False),
        ("cancel", "cancel@ffffffff", False),
        ("hello", "Qwen/Qwen3-4B", True),
        ("hello", "multi@1c2d3e4f", False),
    ],
)
def test_the_answer_of_another_model_is_told(
    opening: str,
    model: str,
    right: bool,
    stream: bool,
    scripted: Callable[[Says], Scripted],
    start: Start,
) -> None:
    events = (piece("I am").replace(b"{", b'{"model": "%s", ' % model.encode(), 1)) * 2 + piece("", "stop")
    kind = b"Content-Type: text/event-stream"
    says = whole(events).replace(b"Content-Type: application/json", kind) if stream else said("I am", model)
    url = start(scripted(lambda *_: [says]).url)
    answer = httpx.post(f"{url}/chat/completions", json=routed(opening, stream=stream), timeout=600)
    if right:
        assert answer.status_code == 200 and b"I am" in answer.content and b'"error"' not in answer.content
        return
    assert f"answered as '{model}' where".encode() in answer.content and b"I am" not in answer.content
    assert answer.status_code == (200 if stream else 502)
    asked = httpx.post(f"{url}/chat/completions", json={**routed(opening), "model": "x"}, timeout=600)
    assert asked.status_code == 200, "who names a model is told what the server says"


@pytest.mark.parametrize("drips", [b" ", b"X: y\r\n"])
def test_a_server_that_drips_keeps_no_question_waiting(
    drips: bytes, scripted: Callable[[Says], Scripted], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "HEALTH_SECONDS", 0.5)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999" + (b"\r\n\r\n" if drips == b" " else b"\r\n")
    ended = threading.Event()

    def says(*_: object) -> list[bytes | float]:
        return [head, *[one for _ in range(9999) for one in (drips, 0.05) if not ended.is_set()]]

    url = start(scripted(says).url)
    health = httpx.get(f"{url.removesuffix('/v1')}/health", timeout=600)
    assert health.status_code == 503 and "did not answer in 0.5 s" in health.json()["problem"]


@pytest.mark.parametrize(
    "field",
    [
        *(b'"x":1e400', b'"x":0.1000000000000000055511151231257827', b'"x":-0', b'"x":1E5', b'"x":[ 1 ,2 ]'),
        *(b'"x":"\\u00e9\\/\\ud83d\\ude00"', b'"x":"\xc3\xa9"', b'"x":{"a":1,"a":2}'),
        b'"seed":' + b"7" * 5000,
    ],
    ids=lambda field: field[:16].decode("latin-1"),
)
def test_all_but_the_model_is_handed_on_as_it_was_said(
    field: bytes, scripted: Callable[[Says], Scripted], start: Start
) -> None:
    server = scripted(lambda *_: [said("x")])
    body = b'{"model":"routed","messages":[{"role":"user","content":"cancel"}],' + field + b"}"
    assert status(exchange(address_of(start(server.url)), request(body))) == 200
    assert server.asked[0].endswith(field + b"}") and b'"model":"cancel@0f3a9b2c"' in server.asked[0]


@pytest.mark.parametrize("number", ["2", 2.0, 2])
def test_a_number_of_answers_counts_however_it_is_written(
    number: object, scripted: Callable[[Says], Scripted], start: Start
) -> None:
    says = whole(piece("", "stop")).replace(b"application/json", b"text/event-stream")
    url = start(scripted(lambda *_: [says]).url)
    answer = httpx.post(f"{url}/chat/completions", json=routed(n=number, stream=True), timeout=600)
    assert b"broke the stream off" in answer.content


def test_headers_of_one_connection_end_at_it(scripted: Callable[[Says], Scripted], start: Start) -> None:
    more = (
        b"\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: X-Mine\r\nX-Mine: 1\r\nX-Trace-Choice: none"
    )
    server = scripted(lambda *_: [said("x").replace(b"\r\n", more + b"\r\n", 1)])
    address = address_of(start(server.url))
    body = json.dumps(routed()).encode()
    sent = (b"Expect: 100-continue", b"Connection: X-Hop", b"X-Hop: 1", b"Proxy-Connection: x", b"X-Own: 1")
    answer = exchange(address, request(body, *sent)).lower()
    assert answer.count(b"set-cookie") == 2 and b"x-mine" not in answer
    assert answer.count(b"x-trace-choice") == 1 and b"x-trace-choice: cancel" in answer
    asked = server.asked[0].lower()
    assert b"x-own: 1" in asked
    assert not [one for one in (b"expect", b"x-hop", b"proxy-connection") if one in asked]


@pytest.mark.parametrize(
    "header", [b"Transfer-Encoding: chunked", b"Authorization: Bearer a\r\nAuthorization: Bearer b"]
)
def test_two_lengths_or_two_keys_are_refused_and_end_the_connection(
    header: bytes, server: PretendServer, start: Start
) -> None:
    body = json.dumps(routed()).encode()
    first = request(b"0\r\n\r\n", header).replace(b"Connection: close\r\n", b"")
    answer = exchange(address_of(start(server.url)), first + request(body))
    assert status(answer) == 400 and answer.count(b"HTTP/1.1") == 1 and server.asked == []


def test_what_may_be_asked_is_told(server: PretendServer, start: Start) -> None:
    assert httpx.delete(f"{start(server.url)}/chat/completions").headers["allow"] == "POST"


def test_a_client_that_reads_slowly_has_all_and_one_that_does_not_is_let_go_of(
    scripted: Callable[[Says], Scripted], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "READER_SECONDS", 1.0)
    long = said("x" * 24_000_000)
    address = address_of(start(scripted(lambda *_: [long]).url))

    def read(client: socket.socket, pause: float) -> int:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.connect(address)
        client.sendall(request(json.dumps(routed()).encode()))
        size, until = 0, time.monotonic() + 3
        with suppress(ConnectionError):
            while part := client.recv(1 << 18):
                size += len(part)
                if time.monotonic() < until:
                    time.sleep(pause)
        return size

    with socket.socket() as slow, socket.socket() as silent, ThreadPoolExecutor() as threads:
        reading = threads.submit(read, slow, 0.05)
        assert read(silent, 3.0) < 24_000_000 < reading.result()


def test_an_opening_whose_client_has_left_is_read_alone(server: PretendServer, start: Start) -> None:
    class Slow:
        name, version, choices = "classifier", "v1", ("cancel", "multi", "none")
        at_work = most = 0
        go = threading.Event()

        def probabilities(self, texts: list[str]) -> list[dict[str, float]]:
            self.at_work += 1
            self.most = max(self.most, self.at_work)
            self.go.wait(600)
            self.at_work -= 1
            return [{"cancel": 0.1, "multi": 0.1, "none": 0.8}]

    router = Slow()
    address = address_of(start(server.url, FittedDecider(router)))  # type: ignore[arg-type]
    for number in range(4):
        with socket.create_connection(address) as client:
            client.sendall(request(json.dumps(routed(f"opening {number}")).encode()))
            time.sleep(0.1)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(exchange, address, request(json.dumps(routed("last")).encode()))
        time.sleep(0.1)
        router.go.set()
        assert status(waiting.result()) == 200 and router.most == 1


def test_requests_of_one_conversation_at_once_have_one_adapter(server: PretendServer, start: Start) -> None:
    class Undecided(ByWord):
        async def decide(self, text: str, headers: object) -> dict[str, float]:
            self.asked.append(text)
            mine = self.choices[len(self.asked) % 3]
            await asyncio.sleep(0.05 * (7 - len(self.asked)))
            return {name: 0.8 if name == mine else 0.1 for name in self.choices}

    decider = Undecided()
    url = start(server.url, decider)
    with ThreadPoolExecutor(6) as threads:
        asked = threads.map(
            lambda _: httpx.post(f"{url}/chat/completions", json=routed("x"), timeout=600), range(6)
        )
        assert len({answer.headers["x-trace-choice"] for answer in asked}) == 1


def test_half_a_line_on_a_full_disk_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "decisions.jsonl"
    decisions = Decisions(ByWord(), MODELS, record)
    asyncio.run(decisions.of("one", {}))
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, line: write(file, line[:20]))
        asyncio.run(decisions.of("two", {}))
    asyncio.run(decisions.of("three", {}))
    first, half, third = record.read_text().splitlines()
    assert len(half) == 20 and {json.loads(first)["opening"]} & {json.loads(third)["opening"]} == set()


def test_a_record_that_nobody_reads_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot be recorded in"):
        Decisions(ByWord(), MODELS, tmp_path / "pipe")
