"""The tiny agent's tokenizer, and demonstrations as batches of its tokens.

It is a byte-level BPE of a few hundred pieces, cut so that values stay whole.

The pre-tokenizer matters more to a model of this size than anything else about it: the JSON skeleton
between two values is one piece, the space is split off every word that also occurs as a JSON value, so
that a city in a sentence and in JSON is the same token, and an order number is one token: copying several
in a row is what so small a model learns last. Frequent pieces are tokens of their own without intermediate
merges (`ignore_merges`); whatever else occurs falls back to bytes, so any text is encodable.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from trace_assets.errors import InputError
from trace_assets.policies.hermes import render_message
from trace_assets.records import Message
from trace_assets.targets.embedded.demonstrations import demonstrations

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from trace_assets.targets.embedded.generator import DeskName


MAX_TOKENS = 700
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (PAD, START, END)
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
"""One token each, but text: servers find tool calls in what they decode."""

GENERATION_PROMPT = f"{START}assistant\n"

_KEYS = r'(?:"?[}\]]*, )?[\[{]*(?:"[a-z_]+": [\[{]*)+"?'
_VALUE = re.compile(r'(?<=": ")[A-Za-z_]+(?=")')


def _pieces(values: Iterable[str]) -> str:
    """Return the pre-tokenizer's pattern; `values` are the words that occur as JSON values."""
    apart = "|".join(sorted(values)) or "(?!)"
    return "|".join(
        (
            _KEYS,  # from one value to the next
            r'"?[}\]]+',  # after the last value
            r"(?:user|assistant)\n",
            rf" (?!(?:{apart})\b)[A-Za-z_]+\b",  # a word that is nowhere a value keeps its space
            r"[A-Z][0-9]{1,2}(?![0-9])",  # a number with its letter
            r"[A-Za-z_]+",
            r"[0-9]{1,2}",
            r"[.,;:] (?![A-Za-z])",
            r"\s",
            r"[^\sA-Za-z_0-9]",
        )
    )


_PROBE = f'{GENERATION_PROMPT}<tool_call>{{"name": "x", "arguments": {{"order": "A12"}}}}</tool_call>{END}'


def chat_template() -> str:
    """Return the tiny agent's chat template (Jinja)."""
    return resources.files("trace_assets.training").joinpath("chat_template.jinja").read_text("utf-8")


def render(message: Message) -> str:
    r"""Return one message as the chat template renders it, without the template engine's cost.

    >>> render(Message(role="user", content="hello"))
    '<|im_start|>user\nhello<|im_end|>'
    """
    if message.role == "assistant":
        return f"{GENERATION_PROMPT}{render_message(message)}{END}"
    if message.role == "tool":
        return f"{START}user\n<tool_response>{message.content}</tool_response>{END}"
    return f"{START}user\n{message.content}{END}" if message.role == "user" else ""


def build_tokenizer(texts: Iterable[str], whole: Iterable[str] = ()) -> PreTrainedTokenizerBase:
    """Make the tokenizer whose pieces are those of some rendered conversations.

    Args:
        texts: Rendered conversations: the pieces in them, by frequency, become tokens.
        whole: Pieces that become tokens whether or not they occur in `texts`.

    Returns:
        A tokenizer of at most `MAX_TOKENS` tokens with the chat template, ready to save.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = list(texts)
    values = {value for text in texts for value in _VALUE.findall(text)}
    cut = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_pieces(values)), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    counts: Counter[str] = Counter()
    for text in texts:
        for mark in (*SPECIAL, *MARKS):
            text = text.replace(mark, "\0")
        for part in text.split("\0"):
            counts.update(piece for piece, _ in cut.pre_tokenize_str(part))
    room = MAX_TOKENS - len(SPECIAL) - len(MARKS)
    frequent = sorted(counts, key=lambda piece: (-counts[piece], piece))
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = list(dict.fromkeys([*alphabet, *whole, *frequent]))[:room]
    core = Tokenizer(
        models.BPE(
            vocab={piece: number for number, piece in enumerate(pieces)}, merges=[], ignore_merges=True
        )
    )
    core.pre_tokenizer = cut
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL])
    core.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in MARKS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )
    tokenizer.chat_template = chat_template()
    return tokenizer


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model folder, and make sure it is one.

    `AutoTokenizer` returns an empty tokenizer for a folder whose tokenizer files are missing, without a word.

    Raises:
        InputError: The folder holds no usable tokenizer.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError) as error:
        raise InputError(
            f"no tokenizer can be loaded from '{folder}': {error}; name a Hugging Face model folder."
        ) from error
    ids = tokenizer.encode(_PROBE, add_special_tokens=False)
    if len(tokenizer) < 256 or not ids or tokenizer.decode(ids) != _PROBE:
        raise InputError(
            f"the tokenizer in '{folder}' has {len(tokenizer)} tokens and does not give a tool call back as "
            "it was: its tokenizer files are missing or broken; copy the whole model folder again."
        )
    return tokenizer


BATCH = 16
POOL_BATCHES = 40
"""Batches in a pool: within one, demonstrations of like length share a batch."""


@dataclass
class Batch:
    """Demonstrations of like length, padded on the right: causal attention never looks at the padding.

    Attributes:
        ids: (batch, length) token ids.
        learn: (batch, length) true where the token is the assistant's own.
    """

    ids: torch.Tensor
    learn: torch.Tensor


def corpus_texts(count: int) -> Iterator[str]:
    """Render some demonstrations, for the tokenizer to take its pieces from: desk `a` has every word."""
    for demonstration in demonstrations(0, -1, count):
        yield "".join(render(message) for message in demonstration.messages)


def own_tokens(ids: list[int], tokenizer: PreTrainedTokenizerBase) -> list[bool]:
    """Tell which tokens of a rendered conversation are the assistant's own, end-of-turn tokens included."""
    start, role = tokenizer.encode(GENERATION_PROMPT)
    end = tokenizer.eos_token_id
    own, result, before = False, [], -1
    for token in ids:
        result.append(own)
        own = (own and token != end) or (before == start and token == role)
        before = token
    return result


def batches(
    seed: int, pool: int, tokenizer: PreTrainedTokenizerBase, desk: DeskName = "a", hints: bool = False
) -> list[Batch]:
    """Return the batches of one pool, in a shuffled order that seed and pool decide."""
    texts = [
        "".join(render(message) for message in item.messages)
        for item in demonstrations(seed, pool, BATCH * POOL_BATCHES, desk, hints)
    ]
    rows = [(ids, own_tokens(ids, tokenizer)) for ids in tokenizer(texts)["input_ids"]]
    rows.sort(key=lambda row: len(row[0]))
    result = [_pad(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
    random.Random(f"{seed}/{pool}/order").shuffle(result)
    return result


def _pad(rows: list[tuple[list[int], list[bool]]]) -> Batch:
    import torch

    length = max(len(ids) for ids, _ in rows)
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    learn = torch.zeros((len(rows), length), dtype=torch.bool)
    for number, (row, own) in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        learn[number, : len(row)] = torch.tensor(own)
    return Batch(ids=ids, learn=learn)
