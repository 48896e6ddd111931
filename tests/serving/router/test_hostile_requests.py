"""What anybody may send to the router: none of it is an error of the router's own, or holds it up."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serving.router.conftest import ByWord, Start
from tests.serving.router.pretend_server import PretendServer
from trace_assets.serving.router import limits
from trace_assets.serving.router.asked import LONGEST_OPENING

ROUTED = {"model": "routed", "messages": [{"role": "user", "content": "cancel"}]}


@pytest.fixture
def address(server: PretendServer, start: Start) -> Iterator[tuple[str, int]]:
    parts = urlsplit(start(server.url))
    yield str(parts.hostname), int(parts.port or 0)


def exchange(address: tuple[str, int], content: bytes) -> bytes:
    """Send bytes and return all that comes back until the other side closes."""
    with socket.create_connection(address, timeout=600) as client:
        with suppress(OSError):
            client.sendall(content)
        found = b""
        try:
            while part := client.recv(65536):
                found += part
        except ConnectionError:
            pass
        return found


def request(body: bytes, *headers: bytes, host: bytes = b"127.0.0.1") -> bytes:
    lines = [b"POST /v1/chat/completions HTTP/1.1", b"Host: " + host, *headers]
    return b"\r\n".join([*lines, b"Connection: close", b"Content-Length: %d" % len(body), b"", body])


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.mark.parametrize(
    "host",
    [
        *(b"evil.example", b"evil.example:8080", b"127.0.0.1.evil.example", b"localhost.evil.example"),
        *(b"evil.example#127.0.0.1", b"127.0.0.1@evil.example", b"a b", b"evil.example/127.0.0.1", b""),
        *(b"xn--localhost-9.example", b"127.0.0.1:x", b"[::1", b"evil\xc3\xa9.example", b"."),
    ],
)
def test_another_host_is_refused(host: bytes, address: tuple[str, int], server: PretendServer) -> None:
    answer = exchange(address, request(json.dumps(ROUTED).encode(), host=host))
    assert status(answer) in (400, 421) and server.asked == []


@pytest.mark.parametrize("host", [b"127.0.0.1:1", b"localhost", b"[::1]:80", b"router", b"10.0.0.7:8080"])
def test_addresses_and_names_of_this_machine_are_not(host: bytes, address: tuple[str, int]) -> None:
    assert status(exchange(address, request(json.dumps(ROUTED).encode(), host=host))) == 200


@pytest.mark.parametrize(
    "header",
    [
        *(b"Origin: https://evil.example", b"Origin: null", b"Origin: http://127.0.0.2", b"Origin: x"),
        *(b"Origin: http://localhost:3000", b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Site: same-site"),
    ],
)
def test_a_page_of_another_site_is_refused(
    header: bytes, address: tuple[str, int], server: PretendServer
) -> None:
    answer = exchange(address, request(json.dumps(ROUTED).encode(), header, b"Content-Type: text/plain"))
    assert status(answer) == 403 and server.asked == []


BAD: dict[str, Any] = {
    "half a pair": b'{"model": "routed", "messages": [{"role": "user", "content": "\\ud800"}]}',
    "half a pair elsewhere": json.dumps({**ROUTED, "user": "\udfff"}).encode(),
    "messages object": b'{"model": "routed", "messages": {}}',
    "messages numbers": b'{"model": "routed", "messages": [1, null, [], "x"]}',
    "content number": b'{"model": "routed", "messages": [{"role": "user", "content": 7}]}',
    "role list": b'{"model": "routed", "messages": [{"role": ["user"], "content": "x"}]}',
    "parts odd": b'{"model": "routed", "messages": [{"role": "user", "content": [1, {"text": 7}]}]}',
    "spaces": b'{"model": "routed", "messages": [{"role": "user", "content": "' + b" " * 99_999 + b'x"}]}',
    "small lists": b'{"model": "routed", "messages": [' + b"[]," * 6_000_000 + b"[]]}",
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_routed_is_the_clients_mistake(
    name: str, address: tuple[str, int], server: PretendServer
) -> None:
    assert status(exchange(address, request(BAD[name]))) == 400 and server.asked == []


def test_a_body_may_take_a_gibibyte_of_memory(address: tuple[str, int]) -> None:
    """Open lists take 110 bytes each, and as many as an item, beside their text: no length says so."""
    most = (1 << 30) // (14 + 110 + 110)
    told = [exchange(address, request(b"[" * number)) for number in (most, most + 1)]
    assert b"too much memory" not in told[0] and b"too much memory" in told[1]
    assert status(told[1]) == 400 and b'"invalid_request_error"' in told[1]


@pytest.mark.parametrize(
    "header", [b"X-Title: caf\xc3\xa9", b"X-Title: \xff\xfe", b"Authorization: Bearer \xe9", b"X: "]
)
def test_headers_beyond_ascii_pass(header: bytes, address: tuple[str, int]) -> None:
    assert status(exchange(address, request(json.dumps(ROUTED).encode(), header))) == 200


@pytest.mark.parametrize("headers", [[b"X: " + b"y" * 10_000_000], [b"X: y"] * 100_000, [b"X: y"] * 250])
def test_too_many_headers_are_refused(
    headers: list[bytes], address: tuple[str, int], server: PretendServer
) -> None:
    assert status(exchange(address, request(b"{}", *headers))) in (0, 400, 431) and server.asked == []


def test_a_long_body_is_refused_before_it_is_whole(
    address: tuple[str, int], server: PretendServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_BODY", 100_000)
    answer = exchange(address, request(b"x" * 2_000_000))
    assert status(answer) in (0, 413) and server.asked == []
    chunks = b"".join(b"%x\r\n%s\r\n" % (50_000, b"x" * 50_000) for _ in range(20))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert status(exchange(address, head + chunks)) in (0, 413) and server.asked == []
    assert status(exchange(address, request(json.dumps(ROUTED).encode()))) == 200


def test_bodies_together_have_a_bound_and_are_given_back(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_BODIES", 1000)
    for _ in range(3):
        assert status(exchange(address, request(b"x" * 2000))) == 503
    for _ in range(30):
        assert status(exchange(address, request(json.dumps(ROUTED).encode()))) == 200


@pytest.mark.parametrize(
    ("bounds", "number", "kind"),
    [
        ({"MOST_BODIES": 100}, 503, "overloaded_error"),
        ({"MOST_BODY": 100}, 413, "invalid_request_error"),
        ({"MOST_HEADERS": 1}, 431, "invalid_request_error"),
    ],
)
def test_a_refusal_ends_the_connection_and_says_when_to_come_again(
    server: PretendServer,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    bounds: dict[str, int],
    number: int,
    kind: str,
) -> None:
    for name, bound in bounds.items():
        monkeypatch.setattr(limits, name, bound)
    answer = httpx.post(f"{start(server.url)}/chat/completions", content=b"x" * 200)
    assert answer.status_code == answer.json()["error"]["code"] == number
    assert answer.json()["error"]["type"] == kind and answer.headers["connection"] == "close"
    assert answer.headers.get("retry-after") == ("1" if number == 503 else None)


def test_half_open_connections_end(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.3)
    for begun in (b"", b"POST /v1", b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"):
        # It may be closed before all is sent.
        with socket.create_connection(address, timeout=600) as client, suppress(ConnectionError):
            client.sendall(begun)
            assert client.recv(1000) == b""


def test_a_body_that_does_not_come_ends(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch, server: PretendServer
) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.3)
    with socket.create_connection(address, timeout=600) as client:
        client.sendall(request(b"x" * 100)[:-50])
        assert status(client.recv(65536)) == 408
    assert server.asked == []


def test_many_idle_connections_keep_nobody_out(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_CONNECTIONS", 8)
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection(address, timeout=600)).sendall(b"POST /")
        for _ in range(5):
            assert status(exchange(address, request(json.dumps(ROUTED).encode()))) == 200


def test_a_long_opening_is_decided_by_its_beginning(server: PretendServer, start: Start) -> None:
    decider = ByWord()
    text = "cancel " + "x" * 5_000_000
    body = {"model": "routed", "messages": [{"role": "user", "content": text}]}
    answer = httpx.post(f"{start(server.url, decider)}/chat/completions", json=body, timeout=600)
    assert answer.headers["x-trace-choice"] == "cancel"
    assert decider.asked == [text[:LONGEST_OPENING]]
    assert server.chats()[0]["messages"][0]["content"] == text


def test_what_is_no_http_gets_400_or_nothing(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.5)
    body = json.dumps(ROUTED).encode()
    for content in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        request(body).replace(b"Content-Length", b"Content-Length: 1\r\nContent-Length"),
        request(body, b"Transfer-Encoding: chunked"),
        request(body, b"X: a\r\n b"),
        request(body, b"X: \x00"),
        request(body, b"Host: evil.example"),
        request(body).replace(b"Host: 127.0.0.1\r\n", b""),
        request(body).replace(b"HTTP/1.1", b"HTTP/9.9"),
    ):
        assert status(exchange(address, content)) in (0, 200, 400, 408, 421)
    monkeypatch.setattr(limits, "BODY_SECONDS", 300.0)
    assert status(exchange(address, request(body))) == 200
