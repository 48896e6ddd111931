"""What the proxy takes from those who ask it: from whom, how much, for how long, from how many at once."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from trace_assets.errors import TraceError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MOST_BODY = 32 << 20
"""Bytes of a request: a long conversation with some pictures."""
MOST_BODIES = 256 << 20
"""Bytes of all requests at work; what comes beyond is asked to come again."""
MOST_HEADER_BYTES, MOST_HEADERS = 64 << 10, 200
MOST_CONNECTIONS = 512
HEADER_SECONDS = 10.0
"""From the first byte of a connection, or of a further request on it, to the end of its headers."""
BODY_SECONDS = 60.0
"""For the whole body."""
READER_SECONDS = 60.0
"""How long a client may read nothing of what it was sent; one that reads slowly is waited for."""


class TooMuch(TraceError):
    """A request that is not taken.

    Attributes:
        status: HTTP status that says why.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Bodies:
    """The bodies of all requests at work, within one bound."""

    def __init__(self) -> None:
        self.held = 0

    async def read(self, request: Request) -> bytes:
        """Return a request's body; `give_back` its length when it is done with.

        Raises:
            TooMuch: It is too long, too slow or no longer coming, or too many others are at work.
        """
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    self.held += len(part)
                    parts.append(part)
                    if size > MOST_BODY:
                        raise TooMuch(413, f"a request may have {MOST_BODY >> 20} MiB.")
                    if self.held > MOST_BODIES:
                        raise TooMuch(503, "the router holds all the requests it can; ask again later.")
        except BaseException as error:
            self.held -= size
            if isinstance(error, TimeoutError):
                raise TooMuch(408, f"the request did not come whole in {BODY_SECONDS:g} s.") from None
            if isinstance(error, ClientDisconnect):
                raise TooMuch(400, "the request broke off.") from None
            raise
        return b"".join(parts)

    def give_back(self, size: int) -> None:
        """A body of this length is done with."""
        self.held -= size


def check_request(headers: Headers, names: Collection[str]) -> None:
    """Let through only what is meant for this endpoint.

    A page in a browser can have a name of its own resolve to this machine (DNS rebinding), or send requests
    here whose answers it cannot read. The first has a foreign `Host`, the second a foreign `Origin`.

    Args:
        headers: Of the request.
        names: Host names that this endpoint is known by, beside addresses and names without a dot.

    Raises:
        TooMuch: It is not; or its headers are too many or too long.
    """
    if len(headers.raw) > MOST_HEADERS or sum(len(a) + len(b) for a, b in headers.raw) > MOST_HEADER_BYTES:
        raise TooMuch(431, f"a request may have {MOST_HEADERS} headers of {MOST_HEADER_BYTES >> 10} KiB.")
    if "transfer-encoding" in headers and "content-length" in headers:
        # Whoever stands in front may have ended the request elsewhere, and sent another's behind it.
        raise TooMuch(400, "the request tells its length twice (Content-Length and Transfer-Encoding).")
    if len(headers.getlist("authorization")) > 1:
        raise TooMuch(400, "the request has two keys (Authorization); send one.")
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_known(hosts[0], names):
        raise TooMuch(
            421, "the request names another host; name this one by its address, or see --allow-host."
        )
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise TooMuch(403, "a page of another site sent this request.")
    origin = headers.get("origin")
    if origin is not None and urlsplit_netloc(origin) != hosts[0].lower():
        raise TooMuch(403, "a page of another site sent this request.")


def is_known(host: str, names: Collection[str]) -> bool:
    """Tell whether a `Host` header can only mean this machine.

    No page can be at an address and have its requests sent elsewhere, so any address will do; and nobody can
    register a name without a dot, such as a container's.

    >>> [is_known(host, ()) for host in ("127.0.0.1:8080", "[::1]", "localhost", "router:8080", "a.example")]
    [True, True, True, True, False]
    >>> is_known("GPU7.example.:8080", {"gpu7.example"}), is_known("me@localhost", ()), is_known("", ())
    (True, False, False)
    """
    if any(mark in host for mark in "@/\\?#, \t") or not host.isascii():
        return False
    try:
        parts = urlsplit(f"//{host}")
        name = (parts.hostname or "").removesuffix(".")
        _ = parts.port
    except ValueError:
        return False
    if not name:
        return False
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return "." not in name or name.endswith(".localhost") or name in {one.lower() for one in names}


def urlsplit_netloc(origin: str) -> str:
    """Return host and port of an `Origin` header; empty for `null` and what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def own_names(host: str, further: Collection[str] = ()) -> frozenset[str]:
    """Return the names that a machine is known by."""
    return frozenset({socket.gethostname(), socket.getfqdn(), host, *further})


class LimitedConnection(H11Protocol):
    """A connection that has to get on: with its headers, and with reading what it is sent.

    Where there are too many, the one that has waited longest without a request makes room.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connected."""
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        if len(self.connections) >= MOST_CONNECTIONS:
            every = [one for one in self.connections if isinstance(one, LimitedConnection)]
            idle = [one for one in every if one.is_idle()]
            leaves = min(idle, key=lambda one: one.since, default=None)
            if leaves is not None:
                leaves.transport.abort()
                self.connections.discard(leaves)
        self.since = self.loop.time()
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def is_idle(self) -> bool:
        """Whether no request of this connection is at work."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._deadline is None and self.is_idle():
            self.since = self.loop.time()
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)
        super().data_received(data)
        if not self.is_idle():
            self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._settle()
        self._stop_waiting()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """What was sent piles up."""
        self._await_reading()
        super().pause_writing()

    def resume_writing(self) -> None:
        """It is read again."""
        self._stop_waiting()
        super().resume_writing()

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _await_reading(self, before: int | None = None) -> None:
        """Let the client go where it has read nothing; what lies ready becomes less while it reads."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            self._give_up()
            return
        self._unread = self.loop.call_later(READER_SECONDS, self._await_reading, left)

    def _give_up(self) -> None:
        self.transport.abort()


def server_settings(app: ASGIApp, **settings: Any) -> Config:
    """Return the settings of the HTTP server in which the endpoint runs."""
    return Config(
        cast(Any, app),
        http=LimitedConnection,
        ws="none",
        h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=10,
        backlog=MOST_CONNECTIONS,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        **settings,
    )
