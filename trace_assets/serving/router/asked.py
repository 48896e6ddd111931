"""What a client asks for, and what a server's answer says of itself, read as far as the router needs it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER
from trace_assets.untrusted.allowance import TooLarge
from trace_assets.untrusted.json_text import check_cost, whole_pairs

ROUTED = "routed"
"""The model that a request names to be routed."""
MOST_MEMORY = 1 << 30
"""Bytes that reading a body may take; one is read at a time."""


@dataclass(frozen=True)
class Asked:
    """What the router needs of a request.

    Attributes:
        opening: What to route it by; None where it names a model.
        turns: How many replies the conversation holds.
        choices: How many answers it asks for.
        streams: Whether it asks for them in pieces.
    """

    opening: str | None = None
    turns: int = 0
    choices: int = 1
    streams: bool = False


def read_request(content: bytes) -> Asked:
    """Read a request.

    Args:
        content: Its body. One that is no JSON object asks for nothing here: what it is, is for the server
            to say.

    Raises:
        InputError: It asks to be routed and holds nothing to route by, or is half a text; or reading it would
            take far more memory than its length.
    """
    values = _values(content)
    if values is None:
        return Asked()
    choices, streams = _count(_read(values.get("n"))), bool(_read(values.get("stream")))
    if _read(values.get("model")) != ROUTED:
        return Asked(choices=choices, streams=streams)
    if whole_pairs(content) != content:
        raise InputError("the request holds half a surrogate pair (\\ud800 to \\udfff), which is no text.")
    body = {"messages": _read(values.get("messages"))}
    return Asked(conversation_opening(body), turns_before(body), choices, streams)


def with_model(content: bytes, model: str) -> bytes:
    """Return a request that names another model; all else is as it was said, to the last digit of a number.

    Args:
        content: A JSON object. Where it names something twice the last counts, and it alone is handed on.
        model: What it shall name.

    >>> with_model(b'{"model": "routed", "seed": 1e400, "top": [ 0.10 ], "top": [ 0.20 ]}', "base")
    b'{"model":"base","seed":1e400,"top":[ 0.20 ]}'
    """
    values = {**(_values(content) or {}), "model": json.dumps(model).encode()}
    pairs = (json.dumps(name).encode() + b":" + value for name, value in values.items())
    return b"{" + b",".join(pairs) + b"}"


def json_object(content: bytes) -> dict[str, Any] | None:
    """Read a body; None when it is no JSON object.

    Raises:
        InputError: It would take far more memory than its length.
    """
    _check(content)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _values(content: bytes) -> dict[str, bytes] | None:
    """Return the values of a JSON object as they are written; None when it is none."""
    _check(content)
    try:
        written = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        return {name: bytes(value) for name, value in written.items()}
    except (ValueError, RecursionError):
        pass  # perhaps it holds numbers that are none (NaN), or is no UTF-8, as Python's own parser takes it
    found = json_object(content)
    return None if found is None else {name: json.dumps(value).encode() for name, value in found.items()}


def _check(content: bytes) -> None:
    try:
        check_cost(content, MOST_MEMORY)
    except TooLarge:
        raise InputError("the body's JSON would take too much memory.") from None


def _read(value: bytes | None) -> Any:
    try:
        return None if value is None else json.loads(value)
    except (ValueError, RecursionError):  # a number of more digits than Python reads
        return None


def _count(number: object) -> int:
    """Return how many answers a request means; servers take a number that is written as text, too.

    >>> [_count(number) for number in (None, 3, "2", 2.0, 0, "x", 1e400, True)]
    [1, 3, 2, 2, 0, 1, 1, 1]
    """
    try:
        return int(number) if isinstance(number, int | float | str) else 1
    except (ValueError, OverflowError):
        return 1


# What a conversation is routed by: the text of its first user message, in the forms that clients send.


LONGEST_OPENING = 32_768
"""Characters that a conversation is routed by: some eight thousand tokens, seconds to read at the most."""


def conversation_opening(body: dict[str, Any]) -> str:
    """Return the text of the first user message of a chat request.

    Later messages do not count, so a conversation keeps its adapter while it grows, with no state held. Of a
    long one the beginning counts.

    Args:
        body: Body of a request to `/v1/chat/completions`.

    Raises:
        InputError: There is no user message, or none of its parts is text.

    >>> conversation_opening({"messages": [{"role": "system", "content": "Be brief."},
    ...                                    {"role": "user", "content": "Cancel K1."}]})
    'Cancel K1.'
    """
    messages = body.get("messages")
    rows = [row for row in messages if isinstance(row, dict)] if isinstance(messages, list) else []
    first = next((row for row in rows if row.get("role") == "user"), None)
    text = "" if first is None else _text(first.get("content"))
    if not text[:LONGEST_OPENING].strip():
        raise InputError(
            "the conversation has no user message with text, so there is nothing to route it by: "
            "send one, or name a model of the server instead of the routed one."
        )
    return text[:LONGEST_OPENING]


def turns_before(body: dict[str, Any]) -> int:
    """Return how many replies of the assistant a request already holds: 0 for a conversation's first."""
    messages = body.get("messages")
    return (
        sum(isinstance(row, dict) and row.get("role") == "assistant" for row in messages)
        if isinstance(messages, list)
        else 0
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


class _Named(msgspec.Struct):
    model: str = ""


class WrongModel:
    """Tells of the answer to a routed request whether another model gave it.

    A server that dropped an adapter may answer with its base model, and say so only in the answer. An
    adapter's name holds the hash of its weights, so its answer is named as it is, after a provider's name at
    the most; the base model may have several names, but never that of another choice. An answer without a
    name is taken for right: some servers give none.

    Args:
        model: What was asked for.
        models: Choice -> name of the model on the server.

    >>> wrong = WrongModel("cancel@1", {"cancel": "cancel@1", "none": "base"})
    >>> [wrong.named_in(b'{"model": "%s"}' % name) for name in (b"cancel@1", b"x/cancel@1", b"", b"base")]
    ['', '', '', 'base']
    >>> base = WrongModel("base", {"cancel": "cancel@1", "none": "base"})
    >>> [base.named_in(b'{"model": "%s"}' % name) for name in (b"base", b"Qwen/Qwen3-4B", b"cancel@1")]
    ['', '', 'cancel@1']
    """

    def __init__(self, model: str, models: Mapping[str, str]) -> None:
        self.model = model
        self._is_base = model == models[NO_ADAPTER]
        self._others = {*models.values()} - {model}

    def named_in(self, text: bytes) -> str:
        """Return the other model that an answer, or a piece of one, names; empty where it names none."""
        try:
            name = msgspec.json.decode(text, type=_Named).model
        except (ValueError, RecursionError):
            return ""
        if not name or name == self.model or name.endswith(f"/{self.model}"):
            return ""
        return name if not self._is_base or name in self._others else ""


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
        wrong: Which other model's pieces these may not be.

    Attributes:
        other: The model that a piece named in the place of the right one; empty where none did.

    >>> end = StreamEnd()
    >>> end.feed(b'data: {"choices": []}\n\ndata: [DO'), end.whole
    (b'data: {"choices": []}\n\n', False)
    >>> end.feed(b"NE]"), end.whole, end.rest
    (b'', True, b'data: [DONE]')
    """

    def __init__(self, choices: int = 1, wrong: WrongModel | None = None) -> None:
        self.other = ""
        self._choices, self._wrong = max(1, choices), wrong
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
        if self._wrong is not None and b'"model"' in line:
            self.other = self.other or self._wrong.named_in(line.removeprefix(b"data:"))
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
