"""What a model server answered: read field by field, and believed only where it can be true.

The OpenAI client takes whatever JSON a server sends for its own types. Here only what is used is read, with
its type; the rest is passed over. What cannot be read is a `ValueError`, and the connection's to sit out.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from trace_assets.untrusted.allowance import BOM
from trace_assets.untrusted.json_text import read_json

STOPPED = ("abort", "error", "cancelled")
"""Reasons of a server that gave an answer up: it was shut down, or failed, in the middle of it."""
LARGEST = 32 << 20
"""Bytes of an answer; one of 100,000 tokens with their ids and log-probabilities has some twenty million."""
_MEMORY = 1 << 30
"""Bytes of memory that parsing an answer may take."""
MOST_CHOICES = 64
_LEAST_TOKENS = 0.05
"""Of a byte of text, in any language and for any tokenizer that is in use."""
_SMALL = 512
"""Bytes of text below which that says nothing."""


_LINE_END = re.compile(rb"\r\n|\n|\r")
"""What ends a line of an event stream; other marks of line ends are characters of what was said."""

_TokenId = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class Function(msgspec.Struct):
    """What a tool call names."""

    name: str = ""
    arguments: str | dict[str, Any] | None = None


class Call(msgspec.Struct):
    """A tool call as the server parsed it."""

    id: str | None = None
    type: str | None = None
    function: Function | None = None


class Said(msgspec.Struct):
    """The message of a choice."""

    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    reasoning: str | list[Any] | dict[str, Any] | None = None
    reasoning_content: str | list[Any] | dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """What was said in words, or why it was refused to."""
        if isinstance(self.content, list):
            parts = [part.get("text") for part in self.content if isinstance(part, dict)]
            return "".join(part for part in parts if isinstance(part, str))
        return self.content or self.refusal or ""

    @property
    def thoughts(self) -> bool:
        """Whether the server tells of reasoning beside the words."""
        return bool(self.reasoning or self.reasoning_content)

    @property
    def answer(self) -> str:
        """What was said in words, or the arguments of the calls that were made instead."""
        if self.text.strip() or not self.tool_calls:
            return self.text
        given = [call.function.arguments for call in self.tool_calls if call.function is not None]
        return "\n".join(one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in given)


class Logprob(msgspec.Struct):
    """Of one token."""

    logprob: float | None = None


class ChatLogprobs(msgspec.Struct):
    """Of a chat completion's tokens."""

    content: list[Logprob] | None = None


class ChatChoice(msgspec.Struct):
    """One choice of a chat completion."""

    message: Said
    finish_reason: str | None = None
    logprobs: ChatLogprobs | None = None
    token_ids: list[_TokenId] | None = None


class ChatAnswer(msgspec.Struct):
    """A chat completion."""

    choices: list[ChatChoice]
    model: Any = None
    usage: Any = None
    prompt_token_ids: list[_TokenId] | None = None


class TextLogprobs(msgspec.Struct):
    """Of a continuation's tokens."""

    token_logprobs: list[float | None] | None = None


class TextChoice(msgspec.Struct):
    """One choice of a continuation."""

    finish_reason: str | None = None
    logprobs: TextLogprobs | None = None
    token_ids: list[_TokenId] | None = None


class TextAnswer(msgspec.Struct):
    """What follows a prompt."""

    choices: list[TextChoice]
    model: Any = None
    usage: Any = None


A = TypeVar("A", ChatAnswer, TextAnswer)


def read_answer(content: bytes, kind: type[A]) -> A:
    """Return an answer.

    Raises:
        ValueError: It is none; the message says why, in part of a sentence.
    """
    value = read_json(content, _MEMORY)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON {type(value).__name__}; base_url usually ends in /v1")
    try:
        answer: A = msgspec.convert({**value, "choices": value.get("choices") or []}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"it is not of the form of a completion ({error})") from error
    if len(answer.choices) > MOST_CHOICES:
        raise ValueError(f"it holds {len(answer.choices):,} choices where one was asked for")
    stopped = next((one.finish_reason for one in answer.choices if one.finish_reason in STOPPED), None)
    if stopped:
        raise ValueError(f"the server gave it up (finish_reason '{stopped}')")
    return answer


def joined_pieces(body: bytes) -> bytes:
    r"""Return the chat completion that a stream of server-sent events adds up to.

    Raises:
        ValueError: It broke off before the answer ended, which its finish_reason tells, or a piece is no JSON
            object. `[DONE]` alone does not tell it: servers send that behind an answer that they gave up too.

    >>> joined_pieces(b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n')
    b'{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}'
    """
    words: dict[str, list[str]] = {}
    calls: dict[int, dict[str, list[str]]] = {}
    answer: dict[str, Any] = {}
    finish: str | None = None
    for line in _LINE_END.split(body.removeprefix(BOM)):
        if not line.startswith(b"data:"):
            continue
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            break
        piece = read_json(data.decode("utf-8", "replace").encode(), _MEMORY)
        if not isinstance(piece, dict):
            raise ValueError("a piece of the stream is no JSON object")
        if piece.get("error"):
            raise ValueError(f"the stream ended in an error ({str(piece['error'])[:200]})")
        for name in ("model", "usage"):
            if piece.get(name) is not None:
                answer[name] = piece[name]
        choices = piece.get("choices")
        for choice in choices[:1] if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            finish = choice.get("finish_reason") or finish
            given = choice.get("delta")
            delta: dict[str, Any] = given if isinstance(given, dict) else {}
            for name in ("content", "refusal", "reasoning", "reasoning_content"):
                if isinstance(delta.get(name), str):
                    words.setdefault(name, []).append(delta[name])
            _add_calls(calls, delta.get("tool_calls"))
    if not isinstance(finish, str):
        raise ValueError("the stream broke off before the answer ended: it gave no finish_reason")
    message: dict[str, Any] = {name: "".join(parts) for name, parts in words.items()}
    if calls:
        message["tool_calls"] = [
            {"function": {name: "".join(parts) for name, parts in calls[place].items()}}
            for place in sorted(calls)
        ]
    answer["choices"] = [{"message": message, "finish_reason": finish}]
    return msgspec.json.encode(answer)


def _add_calls(calls: dict[int, dict[str, list[str]]], pieces: Any) -> None:
    for piece in pieces if isinstance(pieces, list) else ():
        given = piece.get("function") if isinstance(piece, dict) else None
        if not isinstance(given, dict):
            continue
        place = piece.get("index")
        function = calls.setdefault(
            place if isinstance(place, int) and 0 <= place < MOST_CHOICES else 0,
            {"name": [], "arguments": []},
        )
        for name in ("name", "arguments"):
            if isinstance(given.get(name), str):
                function[name].append(given[name])


class Usage(NamedTuple):
    """What a request took, in tokens.

    Attributes:
        prompt: Read by the server.
        completion: Written by it.
        cached: Of the prompt, those from its cache.
        said: Whether these are the server's own figures. Where it gave none, or some that cannot be true, the
            highest that is possible stands instead.
    """

    prompt: int
    completion: int
    cached: int = 0
    said: bool = True


def read_usage(
    said: Any, most_prompt: int, most_completion: int, *, prompt_text: int = 0, reply_text: int = 0
) -> Usage:
    """Return a request's usage, whatever the server says of it.

    A token is at least one byte, so a prompt has no more tokens than bytes, and a reply no more than were
    asked for; a text of many bytes has some tokens. A figure out of these bounds counts as none.

    Args:
        said: The field `usage` as it came.
        most_prompt: Bytes of everything that was sent.
        most_completion: Longest reply that was asked for, in tokens.
        prompt_text: Bytes of the messages alone.
        reply_text: Bytes of the reply.

    >>> read_usage({"prompt_tokens": 7, "completion_tokens": 3}, 100, 50)
    Usage(prompt=7, completion=3, cached=0, said=True)
    >>> read_usage({"prompt_tokens": 7, "completion_tokens": -3}, 100, 50)
    Usage(prompt=7, completion=50, cached=0, said=False)
    """
    given = said if isinstance(said, dict) else {}
    prompt = _count(given.get("prompt_tokens"), prompt_text, most_prompt)
    completion = _count(given.get("completion_tokens"), reply_text, most_completion)
    if prompt is None or completion is None:
        return Usage(
            most_prompt if prompt is None else prompt,
            most_completion if completion is None else completion,
            said=False,
        )
    details = given.get("prompt_tokens_details")
    told = details.get("cached_tokens") if isinstance(details, dict) else None
    cached = 0 if told is None else _count(told, 0, prompt)
    return Usage(prompt, completion, cached or 0, cached is not None)


def _count(value: Any, text: int, most: int) -> int | None:
    """Return a number of tokens, None when it cannot be that of a text of so many bytes."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        return None
    least = text * _LEAST_TOKENS if text >= _SMALL else min(text, 1)
    return int(value) if value >= least else None
