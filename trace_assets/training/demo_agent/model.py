"""The agent before training: its tokenizer, its batches of tokens, and a Qwen3 model, small or named."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from trace_assets.errors import InputError
from trace_assets.policies.hermes import render_message
from trace_assets.records import BaseCheckpoint, Message
from trace_assets.store.content import folder_version, text_version
from trace_assets.targets.embedded.demonstrations import demonstrations
from trace_assets.targets.embedded.generator import NUMBERS
from trace_assets.training.base_folder import check_folder

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

    from trace_assets.settings import BaseModelSection
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


COPY_STRENGTH = 0.5
"""Scale of the copying start; .2 and .5 came out alike."""
CONTEXT = 512
"""Positions; the longest episode takes about 300 tokens."""

_TOKENIZER_TEXTS = 512


@dataclass(frozen=True)
class AgentShape:
    """How large an agent is.

    Attributes:
        width: Of the residual stream.
        inner: Of the feed-forward layers.
        layers: How many.
        heads: Of queries; two share their keys and values.
        head_dim: Width of one head.
    """

    width: int
    inner: int
    layers: int
    heads: int
    head_dim: int


TINY = AgentShape(width=96, inner=256, layers=3, heads=4, head_dim=24)
"""0.4 million parameters, for one CPU thread. vLLM's CPU build serves heads of multiples of 32 only."""
SMALL = AgentShape(width=768, inner=2048, layers=6, heads=12, head_dim=64)
"""40 million, for a GPU."""


def agent_shape(section: BaseModelSection) -> AgentShape:
    """Return the shape that the settings ask for."""
    return SMALL if section.size == "small" else replace(TINY, head_dim=section.head_dim)


def new_tokenizer() -> PreTrainedTokenizerBase:
    """Return the agent's tokenizer. It is the same for every seed of the weights."""
    return build_tokenizer(corpus_texts(_TOKENIZER_TEXTS), NUMBERS)


def new_agent(tokenizer: PreTrainedTokenizerBase, seed: int, shape: AgentShape = TINY) -> Qwen3ForCausalLM:
    """Return an agent with fresh random weights; the caller's random state is left as it was."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads // 2,
        head_dim=shape.head_dim,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
        _copy_from_the_start(model)
    return model


def _copy_from_the_start(model: Qwen3ForCausalLM) -> None:
    """Start values and outputs as each other's transpose, so that every head copies what it attends to.

    Mimetic initialisation (Trockman and Kolter 2023, arXiv 2305.09828), of the value-output product alone.
    Copying an order number out of the request is most of what the agent has to learn: from random weights
    it comes late and the second of two numbers never came; so begun, it is there within 300 steps.
    """
    import torch

    config = model.config
    width, size = config.hidden_size, config.head_dim
    shared = config.num_attention_heads // config.num_key_value_heads
    with torch.no_grad():
        for layer in model.model.layers:
            attention = layer.self_attn
            values = torch.linalg.qr(torch.randn(width, config.num_key_value_heads * size))[0].T
            attention.v_proj.weight.copy_(values)
            for head in range(config.num_attention_heads):
                rows = slice(head // shared * size, (head // shared + 1) * size)
                columns = slice(head * size, (head + 1) * size)
                attention.o_proj.weight[:, columns] = COPY_STRENGTH * values[rows].T


def save_agent(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a folder that transformers and vLLM load like any other model's.

    Args:
        model: The agent.
        tokenizer: Its tokenizer; the chat template goes with it.
        folder: Where to; made when it is not there.
    """
    from transformers import GenerationConfig

    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def describe_model(path: str) -> BaseCheckpoint:
    """Describe a Hugging Face folder or a model on the hub. Its weights are not loaded.

    Args:
        path: Folder, or hub name such as `Qwen/Qwen3-0.6B`.

    Returns:
        The record: identity from the folder's content, or from hub name and commit; no pass rate.

    Raises:
        InputError: There is no such model, or it is no causal language model.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    check_folder(path)  # before the hub is asked for it
    try:
        config = AutoConfig.from_pretrained(path)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError) as error:
        missing = "" if os.path.isdir(path) else f"there is no folder {Path(path).absolute()}, and "
        raise InputError(
            f"{missing}base_model.path '{path}' is no causal language model that can be loaded: {error}; "
            "name a Hugging Face folder or hub name."
        ) from error
    load_tokenizer(path)
    folder = Path(path)
    commit = getattr(config, "_commit_hash", None)
    return BaseCheckpoint(
        base_id=folder_version(folder) if folder.is_dir() else text_version(path, commit or ""),
        path=path,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        steps=0,
        pass_rate=None,
        pass_rate_low=None,
        pass_rate_high=None,
        n=0,
    )
