"""What an answer of a model server says of itself: whether it is whole, and which model gave it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from trace_assets.records import NO_ADAPTER


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
