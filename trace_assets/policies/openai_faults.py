"""What can go wrong between a program and an OpenAI-compatible server, told apart and freed of secrets."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

FaultKind = Literal[
    "rate_limit",
    "timeout",
    "connection",
    "server",
    "garbage",
    "empty",
    "other_model",
    "full",
    "key",
    "model",
    "request",
]
"""`other_model`: the answer bears another model's name than was asked for; `full`: the conversation does not
fit the context; `key`, `model`, `request`: only the user can mend it."""

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
    """

    def __init__(
        self, kind: FaultKind, said: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(said)
        self.kind, self.said, self.status, self.retry_after = kind, said, status, retry_after


def read_fault(error: Exception, secret: str) -> ServerFault:
    """Return what an exception of the OpenAI client means.

    Args:
        error: What `chat.completions.create` raised.
        secret: The key in use; it is struck out of whatever the server said.

    Raises:
        Exception: The error itself, when it is none of a server's.
    """
    import openai

    if isinstance(error, openai.APITimeoutError):
        return ServerFault("timeout", f"APITimeoutError: {conceal(str(error.__cause__ or error), secret)}")
    if isinstance(error, openai.APIConnectionError):
        cause = conceal(str(error.__cause__ or error), secret)
        return ServerFault("connection", f"{type(error).__name__}: {cause}")
    if isinstance(error, openai.APIStatusError):
        said = conceal(_said(error), secret)
        return ServerFault(_kind(error.status_code, said), said, error.status_code, _wait(error))
    if isinstance(error, openai.OpenAIError):
        return ServerFault("request", conceal(str(error), secret))
    if isinstance(error, ValueError | TypeError):  # a body that is not what the protocol says
        return ServerFault("garbage", conceal(str(error), secret)[:300])
    raise error


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


def conceal(text: str, secret: str) -> str:
    """Strike a key, and anything that looks like one, out of a text that will be shown.

    >>> conceal("Incorrect API key provided: hunter22, Bearer abcdefghijkl", "hunter22")
    'Incorrect API key provided: ***, Bearer ***'
    """
    if len(secret) >= 4:
        text = text.replace(secret, "***")
    text = re.sub(r"(?i)\b(bearer\s+)[^\s,;\"']{8,}", r"\1***", text)
    return re.sub(r"\b(sk|key)-[\w*-]{8,}", "***", text)


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
    return " ".join(f"{code or ''} {text or error.message}".split())[:300]
