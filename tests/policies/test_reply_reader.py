"""Each model family's own chat template, and replies in its own form of tool calls."""

from __future__ import annotations

import json
import os.path
import re
from typing import Any

import pytest

from trace_assets.errors import InputError
from trace_assets.policies.chat_template import ReplyReader, find_reader, read_hermes
from trace_assets.records import ToolSpec

FAMILIES = [
    "qwen2_5",
    "qwen3",
    "qwen3_instruct_2507",
    "qwen3_vl",
    "qwen3_5_think",
    "qwen3_5_nothink",
    "qwen3_6",
    "llama3_1",
    "llama3_2",
    "gptoss",
    "gemma4_v2",
    "nemotron_3_nano",
    "nemotron_3_super",
]
HERMES = {"qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_vl"}
MARK = re.compile(r"<\|[a-zA-Z_0-9]+\|?>|<[a-z_]+\|>|<｜[^｜]+｜>|<end_of_turn>")
TOOL = ToolSpec(
    name="book",
    description="Book.",
    parameters={
        "type": "object",
        "properties": {
            "code": {"type": "string"},
            "seats": {"type": "integer"},
            "urgent": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
        },
    },
)
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("book", {"code": "75001", "seats": 3}),
    ("book", {"code": "two words, \"quoted\" and 'so'", "urgent": True}),
    ("book", {"code": "é – ü", "names": ["Ann", "Bo"]}),
]


def tokenizer_with(template: str) -> Any:
    """Return a byte-level tokenizer with a chat template and the marks that occur in it."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    core = Tokenizer(
        models.BPE(
            vocab={piece: n for n, piece in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]
        )
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    tokenizer.add_tokens(sorted(set(MARK.findall(template))), special_tokens=True)
    tokenizer.chat_template = template
    return tokenizer


def family(name: str) -> Any:
    utilities = pytest.importorskip("trl.chat_template_utils")
    return tokenizer_with(getattr(utilities, f"{name}_chat_template"))


def as_written(tokenizer: Any, name: str = "", arguments: Any = None) -> tuple[str, str]:
    """Return a turn with one call, or with words, as the family writes it, and the mark that ends it."""
    call = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": arguments}}
    user = {"role": "user", "content": "x"}
    turn: dict[str, Any] = {"role": "assistant", "content": "" if name else "Which one do you mean?"}
    turn |= {"tool_calls": [call]} if name else {}
    plain = {"role": "assistant", "content": "words"}
    shared: dict[str, Any] = {"tools": [TOOL.openai()], "tokenize": False}
    prompt = tokenizer.apply_chat_template([user], add_generation_prompt=True, **shared)
    spoken = tokenizer.apply_chat_template([user, plain], **shared)
    whole = tokenizer.apply_chat_template([user, turn], **shared)
    same = len(os.path.commonprefix([prompt, whole]))  # noqa: RUF071 - of texts, by character
    ends = MARK.findall(spoken.rpartition("words")[2])
    end = ends[0] if ends else "</s>"
    return whole[same:].partition(end)[0], end


def reader_of(tokenizer: Any) -> ReplyReader:
    return find_reader(tokenizer, as_written(tokenizer, *CALLS[0])[1])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_familys_own_calls_are_read(name: str) -> None:
    tokenizer = family(name)
    read = reader_of(tokenizer)
    assert (read is read_hermes) == (name in HERMES)
    for called, arguments in CALLS:
        said, end = as_written(tokenizer, called, arguments)
        message, malformed = read(said, 4, [TOOL], end)
        assert not malformed
        assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
            ("call_4", called, arguments)
        ]


@pytest.mark.parametrize("name", FAMILIES)
def test_words_stay_words(name: str) -> None:
    tokenizer = family(name)
    said, end = as_written(tokenizer)
    message, malformed = reader_of(tokenizer)(said, 0, [TOOL], end)
    assert (message.content, message.tool_calls, malformed) == ("Which one do you mean?", (), False)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_torn_call_is_never_another_call(name: str) -> None:
    tokenizer = family(name)
    read = reader_of(tokenizer)
    called, arguments = CALLS[0]
    whole, end = as_written(tokenizer, called, arguments)
    for cut in range(1, len(whole)):
        for mark in ("", end):
            message, _ = read(whole[:cut], 0, [TOOL], mark)
            assert [(call.name, call.arguments) for call in message.tool_calls] in ([], [(called, arguments)])


def test_a_response_template_of_the_models_own_comes_first() -> None:
    template = (
        "{% for m in messages %}<|role|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}"
        "@@{{ {'does': c.function.name, 'with': c.function.arguments} | tojson }}@@{% endfor %}<|over|>"
        "{% endfor %}{% if add_generation_prompt %}<|role|>assistant\n{% endif %}"
    )
    tokenizer = tokenizer_with(template)
    with pytest.raises(InputError, match=r"cannot be read back \('@@.*response_template"):
        find_reader(tokenizer, "<|over|>")
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": "<|role|>assistant\n",
        "fields": {
            "tool_calls": {
                "open": "@@",
                "close": "@@",
                "repeats": True,
                "content": "json",
                "transform": {
                    "type": "function",
                    "function": {"name": "{content.does}", "arguments": "{content.with}"},
                },
            },
            "content": {"close": "<|over|>", "content": "text"},
        },
    }
    read = find_reader(tokenizer, "<|over|>")
    said = json.dumps({"does": "book", "with": {"seats": 2}})
    message, malformed = read(f"Done.@@{said}@@", 0, [TOOL])
    assert (message.tool_calls[0].arguments, malformed) == ({"seats": 2}, False)
    assert read("Well @@{not json}@@", 0, [TOOL])[1]


def test_a_template_without_calls_is_taken_to_speak_hermes() -> None:
    tokenizer = tokenizer_with("{% for m in messages %}{{ m.role }}: {{ m.content }}<|over|>{% endfor %}")
    assert find_reader(tokenizer, "<|over|>") is read_hermes


def test_a_form_that_misreads_quotes_is_not_taken() -> None:
    tokenizer = family("lfm2_2_5")
    with pytest.raises(InputError, match="cannot be read back"):
        reader_of(tokenizer)
