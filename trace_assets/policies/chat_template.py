"""Messages to token ids, piece by piece (nothing is rendered again), and replies back to messages."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
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


_MARK, _REPLY = "\u2042content\u2042", "\u2042reply\u2042"
_PROBES = ("x", " two words \n", '{"a": ["b", 1]}', "é<b>{{ n }}\n\n</b>", "<tool_response>")
_TOOL = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})
_MEMO = 50_000


class ChatTemplate:
    """A tokenizer's chat template, applied to the new part of a conversation only.

    Where the template wraps a message's content in fixed text (verified once, on probes in two contexts), a
    piece is that text around the content; otherwise the template is run on the whole conversation and the
    new part is cut out of what it writes.

    Args:
        folder: Model folder with tokenizer files.

    Raises:
        InputError: The folder has no usable tokenizer, no chat template, or one whose assistant turns do
            not end in a token of their own, or it writes tool calls in a form that cannot be read back.

    Attributes:
        tokenizer: The Hugging Face tokenizer.
        end_id: The token that ends a turn.
        read_reply: Reads words and tool calls of a reply.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = _load(folder)
        self._end, self._after = self._find_end(folder)
        self.end_id: int = self.tokenizer.convert_tokens_to_ids(self._end)
        self.read_reply = find_reader(self.tokenizer, self._end)
        self._wrappers = {role: self._find_wrapper(role) for role in ("user", "tool")}
        self._openings: dict[tuple[Any, ...], tuple[str, str] | None] = {}
        self._ids: dict[str, list[int]] = {}

    def opening(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[int]:
        """Return the ids of a conversation's first messages, up to where the assistant speaks."""
        head, last = messages[:-1], messages[-1]
        if last.role == "user" and self._wrappers["user"] and all(item.role == "system" for item in head):
            key = (*(item.content for item in head), *(tool.model_dump_json() for tool in tools))
            if key not in self._openings:
                before, found, after = self._render(
                    [*head, Message(role="user", content=_MARK)], tools
                ).partition(_MARK)
                self._openings[key] = (before, after) if found else None
            wrapper = self._openings[key]
            if wrapper is not None:
                return self._encode(wrapper[0] + (last.content or "") + wrapper[1])
        return self._encode(self._render(messages, tools))

    def continuation(self, messages: Sequence[Message], new: int, tools: Sequence[ToolSpec]) -> list[int]:
        """Return the ids that follow a sampled end-of-turn token.

        Args:
            messages: The whole conversation.
            new: How many messages at its end have not been read yet; the one before them is the reply.
            tools: The tools on offer.
        """
        fresh = list(messages[-new:])
        wrapper = self._wrappers.get(fresh[0].role) if new == 1 else None
        if wrapper is not None:
            return self._encode(wrapper[0] + (fresh[0].content or "") + wrapper[1])
        text = self._render(messages, tools)
        read = self._render(messages[:-new], tools, prompt=False)
        if text.startswith(read):
            return self._encode(self._after + text[len(read) :])
        # The template rewrites earlier turns (drops reasoning, say): render behind a plain reply instead.
        return self._encode(self._behind_reply([Message(role="user", content="x")], fresh, tools))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply; tool-call tags are part of it even where they are special tokens."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def _encode(self, text: str) -> list[int]:
        known = self._ids.get(text)
        if known is None:
            known = self.tokenizer.encode(text, add_special_tokens=False)
            if len(self._ids) < _MEMO:
                self._ids[text] = known
        return known

    def _render(self, messages: Sequence[Message], tools: Sequence[ToolSpec], prompt: bool = True) -> str:
        from jinja2 import TemplateError

        try:
            text: str = self.tokenizer.apply_chat_template(
                [as_chat(message) for message in messages],
                tools=[tool.openai() for tool in tools] or None,
                tokenize=False,
                add_generation_prompt=prompt,
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise InputError(
                f"the chat template of {self.tokenizer.name_or_path} refuses a conversation of "
                f"({', '.join(message.role for message in messages)}): {error}; use a model whose template "
                "knows tools."
            ) from error
        return text

    def _find_end(self, folder: Path) -> tuple[str, str]:
        """Return the token that ends a reply, and what the template writes behind it (often a newline)."""
        spoken = [Message(role="user", content="x"), Message(role="assistant", content=_MARK)]
        behind = self._render(spoken, (), prompt=False).partition(_MARK)[2]
        tokens = {*self.tokenizer.get_added_vocab(), *self.tokenizer.all_special_tokens}
        ends = sorted((behind.index(token), -len(token), token) for token in tokens if token in behind)
        if not ends:
            raise InputError(
                f"the chat template of {folder} does not end an assistant's turn with a special token; "
                "write the tokenizer's eos_token behind every assistant message."
            )
        end = ends[0][2]
        return end, behind.partition(end)[2]

    def _behind_reply(
        self, before: Sequence[Message], fresh: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> str:
        """Render new messages behind a stand-in reply, and return what follows its end-of-turn token."""
        calls = tuple(
            ToolCall(id=message.tool_call_id or "", name=message.tool_name or "look", arguments={"a": "b"})
            for message in fresh
            if message.role == "tool"
        )
        reply = Message(role="assistant", content=_REPLY, tool_calls=calls)
        text = self._render([*before, reply, *fresh], tools)
        return text.rpartition(_REPLY)[2].partition(self._end)[2]

    def _find_wrapper(self, role: str) -> tuple[str, str] | None:
        """Return the fixed text around one new message; None when its content or the context changes it."""
        answer = dict(tool_call_id="call_1", tool_name="look") if role == "tool" else {}
        call = ToolCall(id="call_0", name="look", arguments={"a": "b"})
        short = [Message(role="user", content="x")]
        long = [
            Message(role="system", content="rules"),
            *short,
            Message(role="assistant", content="", tool_calls=(call,)),
            Message(role="tool", content="{}", tool_call_id="call_0", tool_name="look"),
        ]
        wrapped: set[tuple[str, str]] = set()
        try:
            for probe in ("", *_PROBES):
                message = Message.model_validate(
                    {"role": role, "content": f"{probe}{_MARK}{probe}", **answer}
                )
                for before, tools in ((short, ()), (long, (_TOOL,))):
                    text = self._behind_reply(before, [message], tools)
                    start, found, end = text.partition(message.content or "")
                    if not found:
                        return None
                    wrapped.add((start, end))
        except InputError:
            return None
        return wrapped.pop() if len(wrapped) == 1 else None


def _load(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError) as error:
        raise InputError(
            f"the tokenizer of {folder} cannot be loaded ({error}); save it there with save_pretrained."
        ) from error
    if len(tokenizer) < 100:
        raise InputError(
            f"the tokenizer of {folder} is empty ({len(tokenizer)} tokens): its files are missing, save the "
            "tokenizer next to the weights."
        )
    if not tokenizer.chat_template:
        raise InputError(f"the tokenizer of {folder} has no chat template; add chat_template.jinja to it.")
    return tokenizer


def as_chat(message: Message) -> dict[str, Any]:
    """Return a message in the form that chat templates read: OpenAI's, with arguments as objects."""
    row: dict[str, Any] = {"role": message.role, "content": message.content or ""}
    if message.tool_calls:
        row["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        row |= {"tool_call_id": message.tool_call_id or "", "name": message.tool_name or ""}
    return row
