"""The agent before training: a Qwen3 model of a third of a million parameters, or of 40, or a named one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trace_assets.errors import InputError
from trace_assets.records import BaseCheckpoint
from trace_assets.store.content import folder_version, text_version
from trace_assets.targets.embedded.generator import NUMBERS
from trace_assets.training.base_folder import check_folder
from trace_assets.training.demo_agent.tokenizer import build_tokenizer, corpus_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

    from trace_assets.settings import BaseModelSection


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

    from trace_assets.training.demo_agent.tokenizer import load_tokenizer

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
