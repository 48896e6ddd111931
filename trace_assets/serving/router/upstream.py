"""The server behind the proxy: requests are handed on and answers come back as they are, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import msgspec

from trace_assets.errors import InputError, Unavailable
from trace_assets.system.machine import certificates

HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of one connection (RFC 9110, 7.6.1); both sides make their own."""
READ_SECONDS = 900.0
"""A long answer that is not streamed says nothing until it is whole."""
LONGEST = 64 << 20
"""Bytes of an answer that is not streamed."""
KEEPALIVE_SECONDS = 2.0
"""Shorter than servers keep an idle connection (uvicorn: 5 s): none is used that is just being closed."""


class Upstream:
    """An OpenAI-compatible server, such as the one that `trace serve` starts.

    Attributes:
        base_url: Ends in `/v1`; without a user or password.
        root: The same without `/v1`; vLLM's own routes, such as `/tokenize`, lie there.
    """

    def __init__(self, url: str) -> None:
        """Prepare a client; nothing is asked yet.

        Args:
            url: With or without `/v1` at the end.

        Raises:
            InputError: It is no http address, or holds a user or password.
        """
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"'{url}' is no address of a server; give one such as http://127.0.0.1:8000/v1.")
        if parts.username is not None or parts.password is not None:
            raise InputError(
                "the upstream's address holds a user or password; leave it out, clients send their own key."
            )
        path = parts.path.rstrip("/").removesuffix("/v1")
        self.root = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self.base_url = f"{self.root}/v1"
        self.client = httpx.AsyncClient(
            timeout=httpx.Timeout(READ_SECONDS, connect=10.0),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_SECONDS),
            follow_redirects=False,
            trust_env=False,
            verify=certificates(False),
        )

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        seconds: float | None = None,
    ) -> httpx.Response:
        """Send one request and return the answer with its body still to be read.

        Args:
            method: HTTP method.
            url: Full address.
            headers: From `handed_on`.
            content: Body, sent as it is.
            seconds: How long the server may be silent; None takes `READ_SECONDS`.

        Raises:
            Unavailable: The server is not to be reached, ended the connection, or packed its answer.
        """
        request = self.client.build_request(
            method,
            url,
            # Bytes, as they came: some clients send more than ASCII.
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            content=content,
            timeout=httpx.Timeout(READ_SECONDS if seconds is None else seconds, connect=10.0),
        )
        try:
            answer = await self.client.send(request, stream=True)
        except httpx.HTTPError as error:
            raise self.fault(error) from error
        if answer.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            await answer.aclose()
            raise Unavailable(
                f"the model server at {self.base_url} packs its answers, which nobody asked for."
            )
        return answer

    async def read(self, answer: httpx.Response) -> bytes:
        """Return the whole body as it came over the wire, and close the answer.

        Raises:
            Unavailable: It broke off, or is longer than any answer.
        """
        parts, size = [], 0
        try:
            async for part in answer.aiter_raw():
                parts.append(part)
                size += len(part)
                if size > LONGEST:
                    server = f"the model server at {self.base_url}"
                    raise Unavailable(f"the answer of {server} is longer than {LONGEST >> 20} MiB.")
            return b"".join(parts)
        except httpx.HTTPError as error:
            raise self.fault(error) from error
        finally:
            await answer.aclose()

    async def read_object(self, answer: httpx.Response) -> bytes:
        """Return the body as `read` does; of a success no less than a whole JSON object.

        Raises:
            Unavailable: It broke off, whether the connection tells so or the body alone.
        """
        content = await self.read(answer)
        if answer.is_success and not is_whole(content):
            raise Unavailable(
                f"the answer of the model server at {self.base_url} is no whole JSON object: it broke off, "
                "or is none; see whether the server runs, and ask again."
            )
        return content

    async def stream(self, answer: httpx.Response, broken: bytes, choices: int = 1) -> AsyncIterator[bytes]:
        """Yield the body as it comes, a line as soon as it is whole.

        Args:
            answer: From `send`; closed at the end, also when the reader leaves.
            broken: What is said last when the server breaks off, or ends before the answer does.
            choices: How many were asked for.
        """
        end = StreamEnd(choices)
        try:
            with suppress(httpx.HTTPError):
                async for part in answer.aiter_raw():
                    yield end.feed(part)
            yield end.rest if end.whole else broken
        finally:
            with suppress(httpx.HTTPError):
                await answer.aclose()

    def fault(self, error: httpx.HTTPError) -> Unavailable:
        """Return the sentence for a failure; it names the address and the kind, never a header."""
        what = (
            "did not answer in time"
            if isinstance(error, httpx.ReadTimeout)
            else "is not to be reached"
            if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
            else "broke the connection off"
        )
        return Unavailable(
            f"the model server at {self.base_url} {what} ({type(error).__name__}); see whether it runs, "
            "and ask again."
        )


def handed_on(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers of a client's request that the server gets, the key among them.

    No encoding is asked for: of a packed answer nobody could tell here whether it is whole.
    """
    kept = {name.lower(): value for name, value in headers if name.lower() not in HOP_BY_HOP}
    return {**kept, "accept-encoding": "identity"}


def handed_back(answer: httpx.Response) -> dict[str, str]:
    """Return the headers of a server's answer that the client gets."""
    every = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers.raw)
    return {name.lower(): value for name, value in every if name.lower() not in HOP_BY_HOP}


# Whether a model server said all of an answer: what it says last, where the connection's end tells nothing.
#
# A body without a length ends with the connection, so a server that dies in the middle of it ends it as one
# that is done does. Clients, OpenAI's own among them, take such a stream for the whole answer.


_LINE_END = re.compile(rb"\r\n|\n|\r")
_LONGEST_LINE = 1 << 18
"""Bytes of a line that is looked into; a piece of an answer has some hundred."""
_MARKS = (b'"finish_reason"', b'"error"')
"""What a piece holds that ends a choice, or the stream; the others are not parsed."""


class StreamEnd:
    r"""Follows an event stream as it passes, and knows at its end whether that was one.

    A stream is whole with `[DONE]`; without it where every choice that was asked for has its finish_reason;
    and where it says itself that it failed. A line is handed on when it is whole: half of one, with an error
    behind it, would be an event that no client can read.

    Args:
        choices: How many were asked for.

    >>> end = StreamEnd()
    >>> end.feed(b'data: {"choices": []}\n\ndata: [DO'), end.whole
    (b'data: {"choices": []}\n\n', False)
    >>> end.feed(b"NE]"), end.whole, end.rest
    (b'', True, b'data: [DONE]')
    """

    def __init__(self, choices: int = 1) -> None:
        self._choices = max(1, choices)
        self._ended: set[int] = set()
        self._waiting: set[int] = set()
        self._line = b""
        self._passed = self._after_cr = self._done = False

    def feed(self, part: bytes) -> bytes:
        """Take the next bytes, however they are cut; return what is to be handed on."""
        lines = _LINE_END.split(part[1:] if self._after_cr and part.startswith(b"\n") else part)
        self._after_cr = part.endswith(b"\r") or (self._after_cr and not part)
        held, passed = self._line, self._passed
        for place, line in enumerate(lines):
            if place:
                self._end_line()
            self._line += line
        if passed and len(lines) == 1:  # in the middle of a line that is too long to be looked into
            self._line = b""
            return part
        if len(self._line) > _LONGEST_LINE:
            told, self._line, self._passed = held + part, b"", True
            return told
        return (held + part)[: len(held) + len(part) - len(self._line)]

    def _end_line(self) -> None:
        line, passed = self._line, self._passed
        self._line, self._passed = b"", False
        if not line and not passed:  # an empty line sends the event off: before, a client has not seen it
            self._ended |= self._waiting
            self._waiting = set()
        if passed or not line.startswith(b"data:"):
            return
        self._done = self._done or _says_done(line)
        if any(mark in line for mark in _MARKS):
            self._note(line.removeprefix(b"data:"))

    def _note(self, data: bytes) -> None:
        try:
            piece = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(piece, dict):
            return
        self._done = self._done or bool(piece.get("error"))
        rows = piece.get("choices")
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("finish_reason"):
                index = row.get("index", 0)
                self._waiting.add(index if isinstance(index, int) else 0)

    @property
    def whole(self) -> bool:
        """Whether the stream may end here."""
        return self._done or _says_done(self._line) or len(self._ended) >= self._choices

    @property
    def rest(self) -> bytes:
        """What was held back at the end, where that is a line of its own; half an event is nobody's."""
        return self._line if self.whole else b""


def _says_done(line: bytes) -> bool:
    return line.startswith(b"data:") and line[5:].strip() == b"[DONE]"


def is_whole(body: bytes) -> bool:
    """Tell whether an answer that was not streamed is the JSON object that it should be, to its last brace.

    >>> [is_whole(body) for body in (b'{"choices": []}', b'{"choices": [', b"", b'{"logprob": NaN}')]
    [True, False, False, True]
    """
    try:
        msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return True
    except (ValueError, RecursionError):
        pass
    try:  # some servers write numbers that are none, as Python's own parser takes them
        found: Any = json.loads(body) if b"NaN" in body or b"Infinity" in body else None
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict)
