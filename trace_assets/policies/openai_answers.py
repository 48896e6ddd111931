"""What a model server answered: read field by field, and believed only where it can be true.

The OpenAI client takes whatever JSON a server sends for its own types. Here only what is used is read, with
its type; the rest is passed over. What cannot be read is a `ValueError`, and the connection's to sit out.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from trace_assets.untrusted.json_text import read_json

STOPPED = ("abort", "error", "cancelled")
"""Reasons of a server that gave an answer up: it was shut down, or failed, in the middle of it."""
LARGEST = 32 << 20
"""Bytes of an answer; one of 100,000 tokens with their ids and log-probabilities has some twenty million."""
MEMORY = 1 << 30
"""Bytes of memory that parsing an answer may take."""
_LEAST_TOKENS = 0.05
"""Of a byte of text, in any language and for any tokenizer that is in use."""
_SMALL = 512
"""Bytes of text below which that says nothing."""

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
    prompt_token_ids: list[_TokenId] | None = None


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
    value = read_json(content, MEMORY)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON {type(value).__name__}; base_url usually ends in /v1")
    refuse_errors(value)
    try:
        answer: A = msgspec.convert({**value, "choices": value.get("choices") or []}, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"it is not of the form of a completion ({error})") from error
    if len(answer.choices) > 1:  # which of them would be the answer, nobody has said
        raise ValueError(f"it holds {len(answer.choices):,} choices where one was asked for")
    stopped = next((one.finish_reason for one in answer.choices if one.finish_reason), "")
    if stopped.lower() in STOPPED:
        raise ValueError(f"the server gave it up (finish_reason '{stopped[:80]}')")
    return answer


def refuse_errors(value: dict[str, Any]) -> None:
    """Refuse what a server says of a failure in the form of an answer, also beside half of one.

    Raises:
        ValueError: It says so, of the whole or of a choice.
    """
    choices = value.get("choices")
    for said in (value, *(choices if isinstance(choices, list) else ())):
        if isinstance(said, dict) and said.get("error"):
            raise ValueError(f"the server says that it failed ({str(said['error'])[:200]})")


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
