from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from trace_assets.errors import InputError
from trace_assets.policies.chat_template import ChatTemplate
from trace_assets.policies.hermes import render_message
from trace_assets.records import Message, ToolCall, ToolSpec

TOOLS = (ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}}),)
CONTENTS = ("plain", "", ' {"a": 1}\n', "two\n\nlines é", "<tool_response>x</tool_response>")


def tool(content: str, number: int = 0) -> Message:
    return Message(role="tool", content=content, tool_call_id=f"call_{number}", tool_name="look")


def conversation(content: str, results: int) -> list[Message]:
    calls = tuple(ToolCall(id=f"call_{n}", name="look", arguments={"n": n}) for n in range(results))
    return [
        Message(role="system", content="the rules"),
        Message(role="user", content=content),
        Message(role="assistant", content="I look.", tool_calls=calls),
        *(tool(content, n) for n in range(results)),
    ]


@pytest.mark.parametrize("template", ["local", "merging"])
@pytest.mark.parametrize("tools", [(), TOOLS], ids=["bare", "tools"])
@pytest.mark.parametrize("results", [1, 2])
@pytest.mark.parametrize("content", CONTENTS)
def test_pieces_join_to_what_the_template_writes(
    make_folder: Callable[..., Path], template: str, tools: tuple[ToolSpec, ...], results: int, content: str
) -> None:
    chat = ChatTemplate(_folder(make_folder, template))
    messages = conversation(content, results)
    opening = chat.opening(messages[:2], tools)
    whole = chat.tokenizer.apply_chat_template(
        [message.model_dump(exclude={"tool_calls"}) | _calls(message) for message in messages],
        tools=[spec.openai() for spec in tools] or None,
        add_generation_prompt=True,
        tokenize=False,
    )
    ids = chat.tokenizer.encode(whole, add_special_tokens=False)
    assert ids[: len(opening)] == opening
    heard = chat.continuation(messages, results, tools)
    assert ids[-len(heard) :] == heard
    # Between the two lies the reply and nothing else.
    said = chat.decode(ids[len(opening) : -len(heard)])
    assert said.endswith("<|im_end|>")
    assert said.count("<|im_end|>") == 1
    assert "I look." in said


@pytest.mark.parametrize("template", ["local", "merging"])
def test_single_messages_take_the_short_way(
    make_folder: Callable[..., Path], template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = ChatTemplate(_folder(make_folder, template))
    messages = conversation("plain", 1)
    chat.opening(messages[:2], TOOLS)
    expected = chat.continuation(messages, 1, TOOLS)
    monkeypatch.setattr(chat, "_render", None)  # any further use of the template would fail
    assert chat.continuation(messages, 1, TOOLS) == expected
    assert chat.opening([messages[0], Message(role="user", content="other")], TOOLS)


def test_a_template_that_changes_contents_is_run_itself(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = _folder(make_folder, "local")
    chat = ChatTemplate(folder)
    chat.tokenizer.chat_template = chat.tokenizer.chat_template.replace(
        "(m.content or '')", "(m.content or '') | trim"
    )
    chat.tokenizer.save_pretrained(tmp_path)
    trimming = ChatTemplate(tmp_path)
    messages = [Message(role="user", content="  spaced  ")]
    assert "\nspaced<" in trimming.decode(trimming.opening(messages, ()))


def test_special_tokens_in_a_reply_are_text() -> None:
    call = ToolCall(id="call_0", name="look", arguments={"a": "</tool_call>"})
    assert render_message(Message(role="assistant", tool_calls=(call,))).count("</tool_call>") == 1


def test_folders_without_what_is_needed(make_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = _folder(make_folder, "local")
    tokenizer = ChatTemplate(folder).tokenizer
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path / "endless")
    with pytest.raises(InputError, match="does not end"):
        ChatTemplate(tmp_path / "endless")
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "without")
    with pytest.raises(InputError, match="no chat template"):
        ChatTemplate(tmp_path / "without")


def _folder(make_folder: Callable[..., Path], template: str) -> Path:
    if template not in _FOLDERS:
        _FOLDERS[template] = make_folder(template=template)
    return _FOLDERS[template]


_FOLDERS: dict[str, Path] = {}


def _calls(message: Message) -> dict[str, object]:
    if not message.tool_calls:
        return {}
    return {
        "tool_calls": [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    }
