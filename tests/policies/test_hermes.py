from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.policies.hermes import parse_reply, render_message, render_tool_call
from trace_assets.records import Message, ToolCall

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
tagged = texts | st.sampled_from(["<tool_call>", "</tool_call>", 'x</tool_call>"', "\\u003c"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | tagged,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
calls = st.lists(
    st.tuples(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.dictionaries(tagged, values, max_size=4)),
    max_size=4,
)
words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="<"), max_size=30)


@given(words, calls, st.integers(0, 50))
def test_what_is_rendered_is_read_back(
    said: str, made: list[tuple[str, dict[str, object]]], first: int
) -> None:
    message = Message(
        role="assistant",
        content=said.strip() or (None if made else ""),
        tool_calls=tuple(
            ToolCall(id=f"call_{first + n}", name=name, arguments=arguments)
            for n, (name, arguments) in enumerate(made)
        ),
    )
    read, malformed = parse_reply(render_message(message), first)
    assert not malformed
    assert read == message


@given(st.text(max_size=200) | st.text(alphabet='<>/tol_ca{}":,name rgumets\\ud8', max_size=120))
def test_any_text_is_answered_with_storable_words(text: str) -> None:
    message, malformed = parse_reply(text)
    assert message.role == "assistant"
    (message.content or "").encode()
    if malformed:
        assert message.tool_calls == ()
        assert message.content is not None


@given(calls.filter(bool), st.data())
def test_a_torn_call_is_malformed(made: list[tuple[str, dict[str, object]]], data: st.DataObject) -> None:
    name, arguments = made[0]
    whole = render_tool_call(ToolCall(id="x", name=name, arguments=arguments))
    cut = data.draw(st.integers(len("<tool_call>"), len(whole) - 1))
    message, malformed = parse_reply(whole[:cut])
    assert malformed
    assert message.content == whole[:cut]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        '{"name": "f"}',
        '{"name": "", "arguments": {}}',
        '{"name": 3, "arguments": {}}',
        '{"name": "f", "arguments": []}',
        '{"name": "f", "arguments": "{}"}',
        '{"name": "f", "arguments": {}, "more": 1}',
        '{"name": "f", "name": "g", "arguments": {}}',
        '{"name": "f", "arguments": {"a": 1, "a": 2}}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": 1e999}}',
        '{"name": "f", "arguments": {"a": "\\ud800"}}',
        "{'name': 'f', 'arguments': {}}",
        '{"name": "f", "arguments": {"a": ' + "[" * 100_000 + "}",
    ],
)
def test_strict_on_the_body(body: str) -> None:
    assert parse_reply(f"<tool_call>{body}</tool_call>")[1]


@pytest.mark.parametrize(
    "text", ["</tool_call>", "<tool_call>", "a <tool_call> b </tool_call> </tool_call>", "<think>so"]
)
def test_tags_need_partners(text: str) -> None:
    message, malformed = parse_reply(text)
    assert malformed
    assert message.content == text


def test_one_broken_call_spoils_the_reply() -> None:
    good = render_tool_call(ToolCall(id="", name="f"))
    message, malformed = parse_reply(good + "<tool_call>{</tool_call>")
    assert malformed
    assert message.tool_calls == ()


def test_reasoning_is_not_said() -> None:
    message, malformed = parse_reply(
        '<think>a <tool_call> b</think>\n\nhello<tool_call>{"name":"f","arguments":{}}</tool_call>'
    )
    assert not malformed
    assert message.content == "hello"
    assert [call.name for call in message.tool_calls] == ["f"]


def test_newlines_of_the_genuine_form_are_read() -> None:
    body = json.dumps({"name": "f", "arguments": {"a": "b"}})
    message, malformed = parse_reply(
        f"<tool_call>\n{body}\n</tool_call>\n<tool_call>\n{body}\n</tool_call>", 3
    )
    assert not malformed
    assert message.content is None
    assert [call.id for call in message.tool_calls] == ["call_3", "call_4"]
