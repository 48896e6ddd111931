"""The server behind the proxy: requests are handed on and answers come back as they are, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

import httpx

from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.openai_faults import public_url
from trace_assets.serving.router.asked import StreamEnd, WrongModel, is_whole
from trace_assets.system.machine import certificates

HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of one connection (RFC 9110, 7.6.1), beside those that its `Connection` names; both sides make
their own. What is expected of this endpoint (`Expect`) is answered here."""
READ_SECONDS = 900.0
"""A long answer that is not streamed says nothing until it is whole."""
LONGEST = 64 << 20
"""Bytes of an answer that is not streamed."""


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
        if "," in url:
            raise InputError(
                "the upstream's address names several servers, and the router stands in front of one: give "
                "that of what shares the load between them."
            )
        url = url.strip()
        shown = public_url(url)
        if not shown or set(url) & set("?#") or any(map(str.isspace, url)):
            said = shown or (url if "@" not in url else "the upstream's address")
            raise InputError(
                f"'{said}' is no address of a server; give one such as http://127.0.0.1:8000/v1."
            )
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise InputError(
                "the upstream's address holds a user or password; leave it out, clients send their own key."
            )
        path = parts.path.rstrip("/").removesuffix("/v1")
        self.root = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self.base_url = f"{self.root}/v1"
        self.client = httpx.AsyncClient(
            timeout=httpx.Timeout(READ_SECONDS, connect=10.0),
            # A connection for each request: what a server says beyond the end of an answer, a body that is
            # longer than it told, say, would be read as the answer to the next request on it.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            headers={"connection": "close"},
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
            Unavailable: The server is not to be reached, ended the connection, packed its answer, or sends
                whoever asks elsewhere.
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
        if 300 <= answer.status_code < 400:
            await answer.aclose()
            # Neither followed nor handed on: clients would send the conversation wherever it says.
            raise Unavailable(
                f"the model server at {self.base_url} answers with a redirect (status {answer.status_code}), "
                "which is not followed: give --upstream the address of the server itself."
            )
        if answer.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            await answer.aclose()
            raise Unavailable(
                f"the model server at {self.base_url} packs its answers, which nobody asked for."
            )
        return answer

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes = b"", *, seconds: float
    ) -> tuple[httpx.Response, bytes]:
        """Send a question of the router's own and return the answer and its body.

        Args:
            method: HTTP method.
            url: Full address.
            headers: What is sent.
            content: Body.
            seconds: For all of it, however the answer drips in.

        Raises:
            Unavailable: As of `send` and `read`, or it was not whole in time.
        """
        try:
            async with asyncio.timeout(seconds):
                answer = await self.send(method, url, headers, content, seconds)
                return answer, await self.read(answer)
        except TimeoutError:
            raise Unavailable(
                f"the model server at {self.base_url} did not answer in {seconds:g} s; see whether it runs, "
                "and ask again."
            ) from None

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

    async def read_object(self, answer: httpx.Response, wrong: WrongModel | None = None) -> bytes:
        """Return the body as `read` does; of a success no less than a whole JSON object.

        Args:
            answer: From `send`.
            wrong: Of a routed request, which other model's answer this may not be.

        Raises:
            Unavailable: It broke off, whether the connection tells so or the body alone; or it is another
                model's.
        """
        content = await self.read(answer)
        if answer.is_success and wrong is not None and (other := wrong.named_in(content)):
            raise self.not_asked_for(other, wrong)
        if answer.is_success and not is_whole(content):
            raise Unavailable(
                f"the answer of the model server at {self.base_url} is no whole JSON object: it broke off, "
                "or is none; see whether the server runs, and ask again."
            )
        return content

    async def stream(
        self,
        answer: httpx.Response,
        said: Callable[[Unavailable], bytes],
        choices: int = 1,
        wrong: WrongModel | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield the body as it comes, a line as soon as it is whole.

        Args:
            answer: From `send`; closed at the end, also when the reader leaves.
            said: Puts into an event what is said last when the server breaks off, ends before the answer
                does, or answers with another model.
            choices: How many were asked for.
            wrong: Of a routed request, which other model's answer this may not be.
        """
        end = StreamEnd(choices, wrong if answer.is_success else None)
        try:
            with suppress(httpx.HTTPError):
                async for part in answer.aiter_raw():
                    told = end.feed(part)
                    if end.other and wrong is not None:
                        yield said(self.not_asked_for(end.other, wrong))
                        return
                    yield told
            server = f"the model server at {self.base_url}"
            broken = Unavailable(f"{server} broke the stream off; what came before is not whole.")
            yield end.rest if end.whole else said(broken)
        finally:
            with suppress(httpx.HTTPError):
                await answer.aclose()

    def not_asked_for(self, other: str, wrong: WrongModel) -> Unavailable:
        """Return the sentence for an answer that another model gave."""
        return Unavailable(
            f"the model server at {self.base_url} answered as '{other[:80]}' where '{wrong.model}' was asked "
            "for: it does not serve that one, or takes no heed of the name; see /health, and start it with "
            "every model of the release."
        )

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
    kept: dict[str, str] = {}
    for name, value in _end_to_end(headers):
        between = "; " if name == "cookie" else ", "
        kept[name] = f"{kept[name]}{between}{value}" if name in kept else value
    return {**kept, "accept-encoding": "identity"}


def handed_back(answer: httpx.Response) -> list[tuple[str, str]]:
    """Return the headers of a server's answer that the client gets."""
    return _end_to_end(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers.raw
    )


def _end_to_end(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    pairs = [(name.lower(), value) for name, value in headers]
    named = (word for name, value in pairs if name == "connection" for word in value.split(","))
    dropped = HOP_BY_HOP | {word.strip().lower() for word in named}
    return [pair for pair in pairs if pair[0] not in dropped]
