"""What can go wrong between a program and an OpenAI-compatible server, told apart and freed of secrets."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from trace_assets.untrusted.printable import printable

FaultKind = Literal[
    "rate_limit",
    "timeout",
    "connection",
    "server",
    "garbage",
    "empty",
    "other_model",
    "redirect",
    "full",
    "key",
    "model",
    "request",
]
"""`redirect`: it sends requests on elsewhere, where nobody has asked them to go; `other_model`: the answer
bears another model's name than was asked for; `full`: the conversation does not fit the context; `key`,
`model`, `request`: only the user can mend it."""

PASSING: frozenset[FaultKind] = frozenset(
    {"rate_limit", "timeout", "connection", "server", "garbage", "empty", "other_model"}
)
"""Faults that may be gone at the next attempt."""

_FULL = ("context_length_exceeded", "maximum context length", "context window", "context length", "too long")
"""How servers say that a conversation no longer fits."""
_SPENT = ("insufficient_quota", "billing_hard_limit_reached")
"""Answers 429 that waiting does not mend."""


class ServerFault(Exception):
    """One failed request.

    Attributes:
        kind: What went wrong.
        said: What the server or the operating system said, in one line without secrets.
        status: HTTP status where there was an answer.
        retry_after: Seconds that the server asks to wait, None when it does not say.
        may_cost: Whether the server may have worked on the request and ask to be paid: it did not refuse it,
            and was reached.
    """

    def __init__(
        self,
        kind: FaultKind,
        said: str,
        status: int | None = None,
        retry_after: float | None = None,
        may_cost: bool = True,
    ) -> None:
        super().__init__(said)
        self.kind, self.said, self.status, self.retry_after = kind, said, status, retry_after
        self.may_cost = may_cost


def read_fault(error: Exception, secret: str) -> ServerFault:
    """Return what an exception of the OpenAI client means.

    Args:
        error: What `chat.completions.create` raised.
        secret: The key in use; it is struck out of whatever the server said.

    Raises:
        Exception: The error itself, when it is none of a server's.
    """
    import openai

    if isinstance(error, TooLongAnswer):
        return ServerFault("garbage", shown(error, secret))
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        said = f"{type(error).__name__}: {shown(cause or error, secret)}"
        kind: FaultKind = "timeout" if isinstance(error, openai.APITimeoutError) else "connection"
        if isinstance(cause, TooLongAnswer):
            return ServerFault("garbage", shown(cause, secret))
        return ServerFault(kind, said, may_cost=type(cause).__name__ not in _NOT_SENT)
    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        if 300 <= status < 400:
            where = public_url(str(error.response.headers.get("location", ""))) or "another address"
            return ServerFault("redirect", shown(where, secret), status, may_cost=False)
        said = shown(_said(error), secret)
        kind = _kind(status, said)
        return ServerFault(kind, said, status, _wait(error), may_cost=kind == "server")
    if isinstance(error, openai.OpenAIError):
        return ServerFault("request", shown(error, secret), may_cost=False)
    bases = {base.__name__ for base in type(error).__mro__}
    if "RequestError" in bases or isinstance(error, OSError):  # the client passes these on in a stream
        said = f"{type(error).__name__}: {shown(error, secret)}"
        return ServerFault("timeout" if "TimeoutException" in bases else "connection", said)
    if isinstance(error, ValueError | TypeError):  # a body that is not what the protocol says
        return ServerFault("garbage", shown(error, secret))
    raise error


_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "LocalProtocolError")
"""What httpx, or whichever descendant of it the client uses, raises before a server has the request."""


class TooLongAnswer(Exception):
    """A body that is longer than any answer, or packed though that was not asked for."""


def shown(said: object, secret: str) -> str:
    """Return what a server said as a person may see it: in one line, brief, without secrets."""
    return printable(conceal(" ".join(str(said)[:2000].split()), secret))[:300]


def _kind(status: int, said: str) -> FaultKind:
    lowered = said.lower()
    if status in (400, 413, 422) and any(words in lowered for words in _FULL):
        return "full"
    if status == 429:
        return "key" if any(words in lowered for words in _SPENT) else "rate_limit"
    if status in (401, 403):
        return "key"
    if status == 404:
        return "model"
    return "server" if status in (408, 409) or status >= 500 else "request"


_TOO_LONG_REPLY = re.compile(
    r"max(?:imum)?[_ ](?:completion[_ ]|new[_ ]|output[_ ])?tokens?\b|completion tokens|in the completion"
)
LEAST_REPLY = 256
"""Tokens below which a reply holds no answer."""


def longest_reply(said: str, asked: int) -> int | None:
    """Return how long replies may be, where a server says that longer ones were asked for than it gives.

    Args:
        said: The fault in the server's words.
        asked: Tokens that were asked for.

    >>> longest_reply("max_tokens is too large: 8192. It supports at most 4096 completion tokens.", 8192)
    4096
    >>> longest_reply("maximum context length is 8192 tokens. However, you requested 9000 tokens (808 in the "
    ...               "messages, 8192 in the completion)", 8192)
    7320
    >>> longest_reply("maximum context length is 4096 tokens; your prompt has 9000", 100)
    """
    lowered = said.lower().replace(",", "")
    if not _TOO_LONG_REPLY.search(lowered):
        return None
    numbers = [int(one) for one in re.findall(r"(?<![\w.])\d{2,9}(?![\w.]*\d)", lowered)]
    context = re.search(r"(?:context length|context window)\D{0,20}(\d+)", lowered)
    if context is not None:
        prompt = re.search(
            r"(\d+)\s*(?:tokens\s*)?(?:in|from) (?:the|your) (?:messages|prompt|input)", lowered
        )
        if prompt is None:
            prompt = re.search(r"(?:prompt|input|messages)\D{0,30}?(\d+)\D{0,10}tokens", lowered)
        left = int(context.group(1)) - int(prompt.group(1)) - 64 if prompt else 0
        return left if LEAST_REPLY <= left < asked else None
    fitting = [one for one in numbers if LEAST_REPLY <= one < asked]
    if fitting:
        return max(fitting)
    too_large = any(
        words in lowered for words in ("too large", "too long", "exceed", "at most", "less than", "maximum")
    )
    return asked // 2 if too_large and asked // 2 >= LEAST_REPLY else None


def _wait(error: Any) -> float | None:
    headers: Mapping[str, str] = error.response.headers
    return parse_retry_after(headers.get("retry-after-ms"), headers.get("retry-after"), time.time())


def parse_retry_after(milliseconds: str | None, value: str | None, now: float) -> float | None:
    """Return the seconds that a server asks to wait.

    Args:
        milliseconds: Header `retry-after-ms`, which some servers send.
        value: Header `Retry-After`: seconds or an HTTP date (RFC 9110, section 10.2.3).
        now: Seconds since the epoch, for dates.

    >>> [parse_retry_after(*headers, 0.0) for headers in ((None, "2"), ("500", "2"), (None, "x"))]
    [2.0, 0.5, None]
    >>> parse_retry_after(None, "Thu, 01 Jan 1970 00:01:00 GMT", 50.0)
    10.0
    """
    for text, divisor in ((milliseconds, 1000.0), (value, 1.0)):
        try:
            seconds = float(text) / divisor if text is not None else math.nan
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    if value is None:
        return None
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError):
        return None


def is_same_model(asked: str, told: str | None) -> bool:
    """Tell whether a server that was asked for one model names the same one in its answer.

    A name may lose its provider's prefix and gain a snapshot's date; a server may name none at all.

    >>> [is_same_model("openai/gpt-4.1", told) for told in ("gpt-4.1-2025-04-14", "gpt-4.1-mini", "", "base")]
    [True, False, True, False]
    """
    return not told or asked == told or _SNAPSHOT.sub("", _bare(asked)) == _SNAPSHOT.sub("", _bare(told))


_SNAPSHOT = re.compile(r"[-@:](\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|latest)$")


def _bare(model: str) -> str:
    return model.rstrip("/").rpartition("/")[2].lower()


_FRAGMENT = 6
"""Characters of a key that tell something of it; servers echo a part of the key that they refuse."""


def conceal(text: str, secret: str) -> str:
    """Strike a key, parts of it, and anything that looks like one, out of a text that will be shown.

    >>> conceal("Incorrect API key provided: hunter22, Bearer abcdefghijkl", "hunter22")
    'Incorrect API key provided: ***, Bearer ***'
    >>> conceal("Incorrect key: a-secret-pa*****", "a-secret-password")
    'Incorrect key: ********'
    """
    if len(secret) >= 4:
        text = text.replace(secret, "***")
    if len(secret) > _FRAGMENT:
        parts = {secret[at : at + _FRAGMENT] for at in range(len(secret) - _FRAGMENT + 1)}
        text = _without(text, parts)
    text = re.sub(r"(?i)\b(bearer\s+)[^\s,;\"']{8,}", r"\1***", text)
    return re.sub(r"\b(sk|key)-[\w*-]{8,}", "***", text)


def _without(text: str, parts: Collection[str]) -> str:
    """Replace every run of characters that is covered by some of the parts, all of one length."""
    covered = bytearray(len(text))
    for at in range(len(text) - _FRAGMENT + 1):
        if text[at : at + _FRAGMENT] in parts:
            covered[at : at + _FRAGMENT] = b"\1" * _FRAGMENT
    kept = []
    for at, character in enumerate(text):
        if not covered[at]:
            kept.append(character)
        elif not at or not covered[at - 1]:
            kept.append("***")
    return "".join(kept)


def public_url(url: str) -> str:
    """Return a server's address without user, password and query; empty when it is no address.

    >>> public_url("https://me:pass@host:8000/v1?token=x"), public_url("localhost:8000"), public_url("http://[")
    ('https://host:8000/v1', '', '')
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return ""
    if not known:
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _said(error: Any) -> str:
    """Return what the server said, short, in one line."""
    body = error.body
    text = body.get("message") if isinstance(body, dict) else None
    code = body.get("code") if isinstance(body, dict) else None
    return " ".join(f"{str(code or '')[:100]} {str(text or error.message)[:2000]}".split())[:300]
