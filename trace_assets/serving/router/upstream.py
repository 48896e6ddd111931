"""The server behind the proxy: requests are handed on and answers come back as they are, byte for byte."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import httpx

from trace_assets.errors import InputError, Unavailable
from trace_assets.serving.router.completeness import StreamEnd, is_whole

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
