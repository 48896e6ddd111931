"""How a model family writes its tool calls: whichever reader reads back what the chat template writes."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from trace_assets.errors import InputError
from trace_assets.policies.hermes import is_text, parse_reply, strict_json
from trace_assets.records import Message, ToolCall, ToolSpec

_PROBE = ToolSpec(
    name="look_up_order",
    description="Look an order up.",
    parameters={
        "type": "object",
        "properties": {"order": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["order", "count"],
    },
)
_CALLS = [
    ToolCall(id="call_0", name="look_up_order", arguments={"order": order, "count": 2})
    for order in ("75001", "\"quoted\", and 'so' (too)")
]


class ReplyReader(Protocol):
    """Reads a reply's words and tool calls."""

    def __call__(
        self, text: str, first_call: int, tools: Sequence[ToolSpec], end: str = ""
    ) -> tuple[Message, bool]:
        """Read a reply.

        Args:
            text: The reply without its end-of-turn token.
            first_call: Number of the first call.
            tools: The tools on offer: what they take says of which type an argument is.
            end: The end-of-turn token; empty where the reply was cut off before one.

        Returns:
            The assistant message, and whether the reply was malformed: the message then carries the raw text
            as its content and no calls.
        """
        ...  # pragma: no cover


def read_hermes(text: str, first_call: int, tools: Sequence[ToolSpec], end: str = "") -> tuple[Message, bool]:
    """Read `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, strictly: see `parse_reply`."""
    return parse_reply(text, first_call)


class TemplateReader:
    """Reads replies by a response template of transformers, the form in which models ship theirs.

    Args:
        tokenizer: Whose `parse_response` reads.
        form: The response template.
        prompt: What the chat template writes where the assistant speaks: it may open the reasoning already.
    """

    def __init__(self, tokenizer: Any, form: Mapping[str, Any], prompt: str) -> None:
        self._tokenizer, self._form, self._prompt = tokenizer, dict(form), prompt
        fields = form.get("fields", {})
        calls = fields.get("tool_calls", {})
        reasoning = fields.get("reasoning_content") or fields.get("thinking") or {}
        self._opens, self._closes = _pattern(calls, "open"), _pattern(calls, "close")
        self._reasoned = _pattern(reasoning, "close")

    def __call__(
        self, text: str, first_call: int, tools: Sequence[ToolSpec], end: str = ""
    ) -> tuple[Message, bool]:
        """Read a reply, as the protocol says."""
        malformed = Message(role="assistant", content=text.encode("utf-8", "replace").decode()), True
        try:
            said = self._tokenizer.parse_response(
                text + end, self._form, prefix=self._prompt, tools=[tool.openai() for tool in tools] or None
            )
        except (ValueError, TypeError, KeyError, RecursionError):
            return malformed
        if not isinstance(said, dict) or not is_text(text) or self._is_torn(text + end):
            return malformed
        calls: list[ToolCall] = []
        for one in said.get("tool_calls") or ():
            name, arguments = _named(one.get("function") if isinstance(one, dict) else None)
            if name is None:
                return malformed
            calls.append(ToolCall(id=f"call_{first_call + len(calls)}", name=name, arguments=arguments))
        words = str(said.get("content") or "").strip()
        if not words and not calls and self._behind_reasoning(text).strip():
            return malformed  # something was said, in no form that is known
        return (
            Message(role="assistant", content=words if words or not calls else None, tool_calls=tuple(calls)),
            False,
        )

    def _is_torn(self, text: str) -> bool:
        """Say whether a call was begun and not ended: transformers would read what is there of it."""
        if self._opens is None or self._closes is None:
            return False
        spoken = self._behind_reasoning(text)
        return len(self._opens.findall(spoken)) > len(self._closes.findall(spoken))

    def _behind_reasoning(self, text: str) -> str:
        if self._reasoned is None:
            return text
        ends = [found.end() for found in self._reasoned.finditer(text)]
        return text[ends[-1] :] if ends else text


def find_reader(tokenizer: Any, end: str) -> ReplyReader:
    """Return the reader that reads back the tool call that a chat template writes.

    Tried in turn: Hermes tags, which most families write and which are read strictly; the response template
    that the tokenizer ships; those that TRL knows of other families (Llama, Qwen 3.5, gpt-oss, Gemma,
    Nemotron). LFM's is not taken: it misreads quotes within strings.

    Args:
        tokenizer: With a chat template. One that writes no tool calls at all is taken to speak Hermes.
        end: The token that ends a turn.

    Raises:
        InputError: It writes tool calls in a form that none of them reads.
    """
    written = _written(tokenizer, end)
    if written is None or _reads(read_hermes, written[1], end):
        return read_hermes
    prompt, replies = written
    for form in _forms(tokenizer):
        reader = TemplateReader(tokenizer, form, prompt)
        if _reads(reader, replies, end):
            return reader
    raise InputError(
        f"the chat template of {tokenizer.name_or_path} writes tool calls in a form that cannot be "
        f"read back ({replies[0].strip()[:80]!r}): the model's calls would be taken for words. Give "
        "the tokenizer a response_template (transformers, 'response parsing') and save it beside the model."
    )


def _written(tokenizer: Any, end: str) -> tuple[str, list[str]] | None:
    """Return what is written up to the assistant's turn, and that turn with each call; None without calls."""
    from jinja2 import TemplateError

    asked: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
    shared: dict[str, Any] = {"tools": [_PROBE.openai()], "tokenize": False}
    replies = []
    try:
        prompt = tokenizer.apply_chat_template(asked, add_generation_prompt=True, **shared)
        for call in _CALLS:
            function = {"name": call.name, "arguments": call.arguments}
            calls = [{"id": call.id, "type": "function", "function": function}]
            turn = {"role": "assistant", "content": "", "tool_calls": calls}
            whole = tokenizer.apply_chat_template([*asked, turn], **shared)
            # Where the header of a turn opens the reasoning ahead, a finished turn differs from it.
            same = len(os.path.commonprefix([prompt, whole]))  # noqa: RUF071 - of texts, by character
            replies.append(whole[same:].partition(end)[0])
    except (TemplateError, TypeError, ValueError):  # a policy that plays is told what it refuses
        return None
    return (prompt, replies) if all(_PROBE.name in reply for reply in replies) else None


def _reads(reader: ReplyReader, replies: Sequence[str], end: str) -> bool:
    for call, reply in zip(_CALLS, replies, strict=True):
        message, malformed = reader(reply, 0, (_PROBE,), end)
        found = [(one.name, one.arguments) for one in message.tool_calls]
        if malformed or found != [(call.name, call.arguments)] or (message.content or "").strip():
            return False
    return True


def _pattern(field: Mapping[str, Any], mark: str) -> re.Pattern[str] | None:
    """Return how a field of a response template opens or closes."""
    if isinstance(field.get(f"{mark}_pattern"), str):
        return re.compile(field[f"{mark}_pattern"])
    return re.compile(re.escape(field[mark])) if isinstance(field.get(mark), str) else None


def _forms(tokenizer: Any) -> Iterator[Mapping[str, Any]]:
    """Yield response templates: the tokenizer's own, then those of families that TRL knows."""
    own = getattr(tokenizer, "response_template", None)
    if isinstance(own, Mapping):
        yield own
    try:
        from trl import chat_template_utils
    except ImportError:
        return
    for name, form in sorted(vars(chat_template_utils).items()):
        if name.endswith("_template") and isinstance(form, Mapping) and "fields" in form:
            yield form


def _named(function: Any) -> tuple[str | None, dict[str, Any]]:
    """Return name and arguments of a call, None where it is none that could be stored."""
    if not isinstance(function, Mapping):
        return None, {}
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(arguments, str):
        arguments = strict_json(arguments)
    elif arguments is None:
        arguments = {}
    try:
        arguments = strict_json(json.dumps(arguments))
    except (TypeError, ValueError, RecursionError):
        return None, {}
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None, {}
    return name, arguments
