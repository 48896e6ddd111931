"""A chat completion that comes in pieces: put together, and only of pieces that are of one answer."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import msgspec

from trace_assets.policies.openai_answers import MEMORY, refuse_errors
from trace_assets.policies.openai_faults import is_same_model
from trace_assets.untrusted.allowance import BOM
from trace_assets.untrusted.json_text import read_json

MOST_CALLS = 64
"""Of an answer."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
"""What ends a line of an event stream; other marks of line ends are characters of what was said."""
ENDED = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][ \t]*[\r\n]")
"""What a server says behind the last piece of a stream; in a piece line ends are escaped."""


def joined_pieces(body: bytes) -> bytes:
    r"""Return the chat completion that a stream of server-sent events adds up to.

    Raises:
        ValueError: It broke off before the answer ended, which its finish_reason tells, a piece is no JSON
            object, or the pieces are of more than one answer. `[DONE]` alone does not tell an end: servers
            send that behind an answer that they gave up too.

    >>> joined_pieces(b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n')
    b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}'
    """
    joined = _Joined()
    for line in _LINE_END.split(body.removeprefix(BOM)):
        if not line.startswith(b"data:"):
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            break
        piece = read_json(data.decode("utf-8", "replace").encode(), MEMORY)
        if not isinstance(piece, dict):
            raise ValueError("a piece of the stream is no JSON object")
        joined.add(piece)
    return msgspec.json.encode(joined.answer())


_MIXED = "the stream holds pieces of more than one answer"


class _Joined:
    """What the pieces of a stream add up to so far."""

    def __init__(self) -> None:
        self.words: dict[str, list[str]] = {}
        self.calls = _JoinedCalls()
        self.said: dict[str, Any] = {}
        self.ids: Counter[str] = Counter()
        self.place: Any = None
        self.finish: Any = None

    def add(self, piece: dict[str, Any]) -> None:
        """Take a piece in.

        Raises:
            ValueError: It tells of a failure, or is not of the same answer.
        """
        refuse_errors(piece)
        model, before = piece.get("model"), self.said.get("model")
        if model and before and not is_same_model(str(before), str(model)):
            raise ValueError(f"{_MIXED}: of '{str(before)[:80]}' and of '{str(model)[:80]}'")
        if model is not None:
            self.said["model"] = before or model
        if piece.get("usage") is not None:
            self.said["usage"] = _larger(self.said.get("usage"), piece["usage"])
        if isinstance(piece.get("id"), str) and piece["id"]:
            self.ids[piece["id"]] += 1
        choices = piece.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._add_choice(choice)

    def _add_choice(self, choice: dict[str, Any]) -> None:
        place = choice.get("index") or 0
        if self.place is not None and place != self.place:
            raise ValueError(f"{_MIXED}: one choice was asked for")
        self.place = place
        given = choice.get("delta") or choice.get("message")
        delta: dict[str, Any] = given if isinstance(given, dict) else {}
        told = {
            name: delta[name]
            for name in ("content", "refusal", "reasoning", "reasoning_content")
            if isinstance(delta.get(name), str) and delta[name]
        }
        # Some servers give every piece a finish_reason.
        if self.finish and not choice.get("finish_reason") and (told or delta.get("tool_calls")):
            raise ValueError(f"{_MIXED}: it goes on behind a finish_reason")
        for name, text in told.items():
            self.words.setdefault(name, []).append(text)
        self.calls.add(delta.get("tool_calls"))
        self.finish = choice.get("finish_reason") or self.finish

    def answer(self) -> dict[str, Any]:
        """Return the completion.

        Raises:
            ValueError: It is not whole, or there are several.
        """
        if not isinstance(self.finish, str):
            raise ValueError("the stream broke off before the answer ended: it gave no finish_reason")
        # Some servers give every piece an id of its own; an answer's own is that of several.
        if len(self.ids) > 1 and max(self.ids.values()) > 1:
            raise ValueError(f"{_MIXED}: they have several ids")
        message: dict[str, Any] = {name: "".join(parts) for name, parts in self.words.items()}
        if self.calls.begun:
            message["tool_calls"] = self.calls.in_order()
        return {**self.said, "choices": [{"message": message, "finish_reason": self.finish}]}


class _JoinedCalls:
    """The tool calls of a stream, whose arguments come in pieces.

    A piece belongs to the call of its index, or of its id where it has no index; one that has neither goes
    on with the last call, unless it names a tool.
    """

    def __init__(self) -> None:
        self.begun: list[_Begun] = []

    def add(self, pieces: Any) -> None:
        """Take pieces in.

        Raises:
            ValueError: There are more calls than an answer has.
        """
        for piece in pieces if isinstance(pieces, list) else ():
            given = piece.get("function") if isinstance(piece, dict) else None
            if not isinstance(given, dict):
                continue
            call = self._call_of(piece, given)
            for name, parts in call.parts.items():
                if isinstance(given.get(name), str):
                    parts.append(given[name])

    def _call_of(self, piece: dict[str, Any], given: dict[str, Any]) -> _Begun:
        told, id = piece.get("index"), piece.get("id")
        index = int(told) if isinstance(told, int | str) and str(told).isdecimal() else None
        id = id if isinstance(id, str) and id else None
        for call in reversed(self.begun):
            other_id = id is not None and call.id is not None and id != call.id
            if index is not None and index == call.index and not other_id:
                return call
            if index is None and id is not None and id == call.id:
                return call
            if index is None and id is None and not given.get("name"):
                return call
        if len(self.begun) == MOST_CALLS:
            raise ValueError(f"it holds more than {MOST_CALLS} tool calls")
        self.begun.append(_Begun(index, id))
        return self.begun[-1]

    def in_order(self) -> list[dict[str, Any]]:
        """Return the calls, by index where they have one."""
        calls = sorted(self.begun, key=lambda call: call.index or 0)
        return [{"function": {name: "".join(parts) for name, parts in call.parts.items()}} for call in calls]


class _Begun:
    """A tool call that a stream has begun."""

    def __init__(self, index: int | None, id: str | None) -> None:
        self.index, self.id = index, id
        self.parts: dict[str, list[str]] = {"name": [], "arguments": []}


def _larger(before: Any, after: Any) -> Any:
    """Return the later of two usages: figures of a stream grow; one that shrank would be booked too low."""

    def size(usage: Any) -> float:
        given = usage.values() if isinstance(usage, dict) else ()
        return sum(one for one in given if isinstance(one, int | float) and not isinstance(one, bool))

    return before if size(before) > size(after) else after
