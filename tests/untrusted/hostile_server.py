"""A server that answers a chat completion with any bytes at all, and the tricks that it knows.

Every trick says what must come of it: a reply, or a fault of a certain kind.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self

KEY = "hunter2-is-the-key-abcdefghijklmnop"
MB = 1_000_000


class HostileServer:
    """Reads one request a connection and sends what it was told to, byte for byte.

    Attributes:
        requests: How many came.
        asked: Set when the first of them came; a client without patience may be gone by then.
        url: Base address.
    """

    def __init__(self, send: Callable[[socket.socket, HostileServer], None]) -> None:
        self._send, self.requests, self.asked = send, 0, threading.Event()
        self.released = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                part = connection.recv(65536)
                if not part:
                    return
                head += part
            headers, _, body = head.partition(b"\r\n\r\n")
            lines = headers.lower().split(b"\r\n")
            length = next((int(one[15:]) for one in lines if one.startswith(b"content-length:")), 0)
            while len(body) < length:
                part = connection.recv(65536)
                if not part:
                    return
                body += part
            self.requests += 1
            self.asked.set()
            self._send(connection, self)
            connection.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.released.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else the thread in `accept` holds the port
        self._listener.close()


Send = Callable[[socket.socket, HostileServer], None]


class Trick(NamedTuple):
    """A trick.

    Attributes:
        send: What the server does.
        kinds: Faults that may come of it; `reply` for an answer that can be used.
        seconds: Patience of the client; those tricks that hold it up get little.
    """

    send: Send
    kinds: tuple[str, ...]
    seconds: float


TRICKS: dict[str, Trick] = {}


def trick(name: str, send: Send, *kinds: str, seconds: float = 300.0) -> None:
    """Enter a trick."""
    assert name not in TRICKS
    TRICKS[name] = Trick(send, kinds, seconds)


def raw(*parts: bytes) -> Send:
    """Send bytes as they are."""
    return lambda connection, _: connection.sendall(b"".join(parts))


def body(
    content: bytes, status: str = "200 OK", headers: bytes = b"Content-Type: application/json\r\n"
) -> Send:
    """Send an answer with a body."""
    length = b"Content-Length: %d\r\n\r\n" % len(content)
    return raw(b"HTTP/1.1 ", status.encode(), b"\r\n", headers, length, content)


def said(value: Any, status: str = "200 OK") -> Send:
    """Send JSON; written when it is asked for, for some of it is large and most runs send none."""
    return lambda connection, server: body(json.dumps(value).encode(), status)(connection, server)


def answer(message: Any = None, choice: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a completion with something odd in it."""
    default = {"role": "assistant", "content": "hello"}
    one = {"index": 0, "message": default if message is None else message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return {"object": "chat.completion", "choices": [{**one, **(choice or {})}], "usage": usage, **more}


def calling(arguments: Any, name: Any = "look") -> dict[str, Any]:
    """Return a completion that calls a tool."""
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return answer({"role": "assistant", "content": None, "tool_calls": [call]})


def hold(connection: socket.socket, server: HostileServer) -> None:
    """Say nothing."""
    server.released.wait()


def drip(connection: socket.socket, server: HostileServer) -> None:
    """Begin an answer and send a byte now and then."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not server.released.wait(0.05):
        connection.sendall(b" ")


def drip_headers(connection: socket.socket, server: HostileServer) -> None:
    """Never end the headers."""
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not server.released.wait(0.05):
        connection.sendall(b"X-A: b\r\n")


def endless(connection: socket.socket, server: HostileServer) -> None:
    """Send a body that never ends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not server.released.is_set():
        connection.sendall(b" " * 65536)


def interim(connection: socket.socket, server: HostileServer) -> None:
    """Say `continue` for ever."""
    while not server.released.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def packed(encoding: bytes, pack: Callable[[], bytes]) -> Send:
    """Send a packed body, packed when it is asked for."""
    headers = b"Content-Encoding: " + encoding + b"\r\n"
    return lambda connection, server: body(pack(), headers=headers)(connection, server)


for _status in (
    "301 Moved",
    "302 Found",
    "303 See Other",
    "307 Temporary Redirect",
    "308 Permanent Redirect",
):
    for _name, _where in (
        ("another host", b"http://127.0.0.2:{port}/v1/chat/completions"),
        ("another port", b"http://127.0.0.1:1/v1"),
        ("a file", b"file:///etc/passwd"),
        ("itself", b"/v1/chat/completions"),
        ("a login", b"http://me:pass@127.0.0.1:1/?token=t"),
        ("a terminal", b"http://h/\x1b[2J"),
    ):
        _line = b"Location: " + _where + b"\r\n"
        trick(f"{_status} to {_name}", body(b"", _status, _line), "redirect", "connection", "garbage")

for _name, _value in {
    "no object": [],
    "text": "hi",
    "number": 7,
    "null": None,
    "nothing": {},
    "choices null": {"choices": None},
    "choices text": {"choices": "x"},
    "choices object": {"choices": {"0": {}}},
    "choices numbers": {"choices": [1, 2]},
    "choice without message": {"choices": [{}]},
    "message null": {"choices": [{"message": None}]},
    "message text": {"choices": [{"message": "hello"}]},
    "message list": {"choices": [{"message": [{}]}]},
    "content number": answer({"content": 7}),
    "content object": answer({"content": {"text": "x"}}),
    "content true": answer({"content": True}),
    "calls object": answer({"tool_calls": {"0": 1}}),
    "calls text": answer({"tool_calls": "look"}),
    "call number": answer({"tool_calls": [1]}),
    "function text": answer({"tool_calls": [{"function": "look"}]}),
    "name list": calling("{}", ["look"]),
    "arguments number": calling(7),
    "finish number": answer(choice={"finish_reason": 7}),
    "many choices": {"choices": [{"message": {"content": "x"}}] * 200_000},
    "65 choices": {"choices": [{"message": {"content": "x"}}] * 65},
}.items():
    trick(f"completion: {_name}", said(_value), "garbage", "empty")
for _name, _value in {
    "content of parts": answer({"content": [{"type": "text", "text": "hello"}]}),
    "odd parts": answer({"content": [1, None, {"text": 7}, {"text": "hello"}]}),
    "content missing": answer({}),
    "refusal": answer({"content": None, "refusal": "no"}),
    "calls null": answer({"content": "x", "tool_calls": None}),
    "function null": answer({"tool_calls": [{"id": "1"}]}),
    "no name": calling("{}", ""),
    "arguments object": calling({"a": 1}),
    "arguments no JSON": calling("{"),
    "arguments deep": calling("[" * 100_000),
    "arguments deep object": calling('{"a":' * 5000 + "1" + "}" * 5000),
    "arguments NaN": calling('{"a": NaN}'),
    "arguments of many digits": calling('{"a": ' + "9" * 10_000 + "}"),
    "half a pair": answer({"content": "\ud800"}),
    "half a pair in arguments": calling('{"a": "\\ud800"}'),
    "NUL and escapes": answer({"content": "\x00\x1b[2J\u202e"}),
    "tag salad": answer({"content": "<tool_call>" * 50_000}),
    "thought salad": answer({"content": "<think>" * 200_000}),
    "long text": answer({"content": "x" * (8 * MB)}),
    "other fields": answer(choice={"logprobs": None}, model="base", id=[], created="x", object=7),
    "usage null": answer(usage=None),
    "usage missing": {"choices": answer()["choices"]},
    "usage text": answer(usage="many"),
    "usage of text": answer(usage={"prompt_tokens": "7", "completion_tokens": "3"}),
    "usage negative": answer(usage={"prompt_tokens": -1_000_000_000, "completion_tokens": -100_000}),
    "usage huge": answer(usage={"prompt_tokens": 10**30, "completion_tokens": 10**300}),
    "usage fraction": answer(usage={"prompt_tokens": 0.5, "completion_tokens": 1e308}),
    "usage true": answer(usage={"prompt_tokens": True, "completion_tokens": False}),
    "usage list": answer(usage=[1, 2]),
    "usage of lists": answer(usage={"prompt_tokens": [1], "completion_tokens": {}}),
    "details text": answer(usage={"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": "x"}),
    "prompt ids odd": answer(usage=None, prompt_token_ids=None),
}.items():
    trick(f"completion: {_name}", said(_value), "reply")
for _name, _value in {
    "model number": answer(model=7),
    "model long": answer(model="x" * MB),
    "model escapes": answer(model="\x1b[2J\u202e"),
    "model object": answer(model={"a": 1}),
}.items():
    trick(f"completion: {_name}", said(_value), "other_model")
for _name, _content in {
    "empty": b"",
    "HTML": b"<html>a proxy says hello</html>",
    "cut": json.dumps(answer()).encode()[:40],
    "deep": b"[" * 300_000,
    "deep object": b'{"choices":' * 100_000,
    "deep usage": b'{"choices": [], "usage": ' + b"[" * 900 + b"]" * 900 + b"}",
    "digits": b'{"choices": ' + b"9" * 100_000 + b"}",
    "UTF-16": json.dumps(answer()).encode("utf-16"),
    "no UTF-8": b'{"choices": "\xff\xfe"}',
    "two values": json.dumps(answer()).encode() * 2,
    "ANSI": b"\x1b]0;title\x07\x1b[2J",
    "many small lists": b'{"choices": [' + b"[]," * (5 * MB) + b"[]]}",
    "40 MB": b'{"a": "' + b"x" * (40 * MB) + b'"}',
    "the key": KEY.encode(),
}.items():
    trick(f"body: {_name}", body(_content), "garbage", "empty")
trick("body: BOM", body(b"\xef\xbb\xbf" + json.dumps(answer()).encode()), "reply", "garbage")
trick("body: NaN", body(json.dumps({**answer(), "x": float("nan")}).encode()), "reply")
trick("body: keys twice", body(b'{"choices": 1, ' + json.dumps(answer()).encode()[1:]), "reply", "garbage")
trick("packed: gzip bomb", packed(b"gzip", lambda: gzip.compress(b"x" * (100 * MB), 9)), "garbage")
trick("packed: twice", packed(b"gzip, gzip", lambda: gzip.compress(gzip.compress(b"{}"))), "garbage")
trick("packed: unknown", packed(b"xz", lambda: b"x"), "garbage")
trick("packed: a lie", packed(b"GZIP", lambda: json.dumps(answer()).encode()), "garbage")
for _name, _bytes in {
    "nothing": b"",
    "no HTTP": b"hello\r\n\r\n",
    "status 99": b"HTTP/1.1 99 X\r\nContent-Length: 0\r\n\r\n",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
    "length text": b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
    "length negative": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "broken chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "5 MB of headers": b"HTTP/1.1 200 OK\r\nX: " + b"x" * (5 * MB) + b"\r\n\r\n",
    "100,000 headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
}.items():
    _kinds = ("connection", "garbage", "empty", "redirect", "request", "server")
    trick(f"wire: {_name}", raw(_bytes), *_kinds)
for _status, _kind in {
    "400 Bad Request": "request",
    "401 Unauthorized": "key",
    "402 Payment Required": "request",
    "403 Forbidden": "key",
    "404 Not Found": "model",
    "418 Teapot": "request",
    "429 Too Many": "rate_limit",
    "500 Broken": "server",
    "599 Odd": "server",
}.items():
    for _name, _send in {
        "the key": said({"error": {"message": f"wrong key {KEY}", "code": KEY}}, _status),
        "parts of the key": said({"error": {"message": f"no {KEY[:12]}... or ...{KEY[-9:]}"}}, _status),
        "the key cut up": said({"error": {"message": " ".join([KEY[:11], KEY[8:20], KEY[20:]])}}, _status),
        "escapes": said(
            {"error": {"message": "\x1b[2J\x1b]0;t\x07\u202e\x00\x9b2J", "code": "\x1b"}}, _status
        ),
        "a list": said({"error": ["a", {"b": 1}]}, _status),
        "text": body(b"no", _status),
        "bytes": body(b"\xff\xfe\x00", _status),
        "5 MB": said({"error": {"message": "x" * (5 * MB), "code": "y" * MB}}, _status),
        "deep": body(b'{"error":' * 50_000, _status),
        "code object": said({"error": {"message": {"a": 1}, "code": {"b": [2]}}}, _status),
    }.items():
        trick(f"{_status} with {_name}", _send, _kind)
for _value in (b"1e9", b"-5", b"nan", b"inf", b"x" * 10_000, b"\xff", b"Thu, 99 Foo 9999 99:99:99 GMT"):
    _line = b"Retry-After: " + _value + b"\r\n"
    trick(f"Retry-After {_value[:20]!r}", body(b"{}", "429 Later", _line), "rate_limit", "connection")
trick("hold", hold, "timeout", seconds=2.0)
trick("drip", drip, "timeout", seconds=2.0)
trick("drip headers", drip_headers, "timeout", "connection", seconds=2.0)
trick("interim for ever", interim, "timeout", "connection", seconds=2.0)
trick("endless", endless, "garbage", "timeout", seconds=300.0)
