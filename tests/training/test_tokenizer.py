"""The tiny agent's tokenizer and chat template."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quick import examples

pytest.importorskip("transformers")

from tests.untrained import make_untrained
from trace_assets.errors import InputError
from trace_assets.policies.chat_template import as_chat
from trace_assets.records import Message, ToolCall
from trace_assets.targets.embedded.demonstrations import demonstrations
from trace_assets.targets.embedded.desk import CITIES, COLOURS, ITEMS
from trace_assets.targets.embedded.generator import NUMBERS
from trace_assets.training.demo_agent.model import (
    END,
    GENERATION_PROMPT,
    MARKS,
    MAX_TOKENS,
    load_tokenizer,
    own_tokens,
    render,
)

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_untrained(tmp_path_factory.mktemp("agent") / "model")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    return load_tokenizer(folder)


@pytest.fixture(scope="module")
def conversations() -> list[tuple[Message, ...]]:
    return [item.messages for item in islice(demonstrations(11, 0, 60), 60)]


def test_it_is_small_and_whole(tokenizer: Any) -> None:
    assert 256 < len(tokenizer) <= MAX_TOKENS
    assert tokenizer.eos_token == END
    assert len(tokenizer.encode(END)) == 1
    assert len(tokenizer.encode(GENERATION_PROMPT)) == 2


def test_rendering_is_the_chat_template(tokenizer: Any, conversations: list[tuple[Message, ...]]) -> None:
    for messages in conversations:
        chat = [as_chat(message) for message in messages]
        whole = "".join(render(message) for message in messages)
        assert tokenizer.apply_chat_template(chat, tokenize=False) == whole
        prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        assert prompt == whole + GENERATION_PROMPT


def test_a_prefix_of_a_conversation_is_a_prefix_of_its_tokens(
    tokenizer: Any, conversations: list[tuple[Message, ...]]
) -> None:
    for messages in conversations:
        parts = [tokenizer.encode(render(message)) for message in messages]
        whole = tokenizer.encode("".join(render(message) for message in messages))
        assert [token for part in parts for token in part] == whole


def test_system_messages_and_tool_schemas_are_left_out(tokenizer: Any) -> None:
    user = {"role": "user", "content": "hello"}
    tools = [{"type": "function", "function": {"name": "look", "description": "", "parameters": {}}}]
    told = tokenizer.apply_chat_template(
        [{"role": "system", "content": "Be good."}, user], tools=tools, tokenize=False
    )
    assert (
        told
        == tokenizer.apply_chat_template([user], tokenize=False)
        == render(Message(role="user", content="hello"))
    )


def test_own_tokens_are_those_of_the_assistant(
    tokenizer: Any, conversations: list[tuple[Message, ...]]
) -> None:
    for messages in conversations:
        chat = [as_chat(message) for message in messages]
        ids = tokenizer.apply_chat_template(chat)["input_ids"]
        own = own_tokens(ids, tokenizer)
        turns = tokenizer.decode([token for token, mine in zip(ids, own, strict=True) if mine])
        spoken = [render(message) for message in messages if message.role == "assistant"]
        assert turns == "".join(text.removeprefix(GENERATION_PROMPT) for text in spoken)
        encoded = tokenizer.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
        assert encoded["assistant_masks"] == [int(mine) for mine in own]


def test_arguments_may_arrive_as_json_text(tokenizer: Any) -> None:
    call = ToolCall(id="a", name="get_order", arguments={"order": "K48"})
    chat = as_chat(Message(role="assistant", tool_calls=(call,)))
    as_text = {**chat, "tool_calls": [{"function": {"name": "get_order", "arguments": '{"order": "K48"}'}}]}
    rendered = [tokenizer.apply_chat_template([form], tokenize=False) for form in (chat, as_text)]
    assert rendered[0] == rendered[1]


def test_a_value_is_the_same_token_in_a_sentence_and_in_json(tokenizer: Any) -> None:
    for value in (*CITIES, *COLOURS, *ITEMS, *NUMBERS[::7]):
        sentence = tokenizer.encode(f"please take the {value}, thanks.")
        in_json = tokenizer.encode(f'{{"order": "{value}"}}')
        assert set(sentence) & set(in_json) == set(tokenizer.encode(value))
        assert len(tokenizer.encode(value)) == 1


def test_a_call_is_short(tokenizer: Any) -> None:
    call = ToolCall(id="a", name="exchange_item", arguments={"order": "K48", "item": "lamp", "colour": "red"})
    assert len(tokenizer.encode(render(Message(role="assistant", tool_calls=(call,))))) <= 16


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text().filter(lambda text: not any(mark in text for mark in (*MARKS, "<|"))))
def test_any_text_comes_back_as_it_was(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_a_folder_without_tokenizer_files_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(InputError, match="tokenizer"):
        load_tokenizer(tmp_path)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tokenizer"):
        load_tokenizer(tmp_path / "nowhere")
