"""The agent before training: a Qwen3 model of a third of a million parameters, or of 40, or a named one."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

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


# Muon in single precision: orthogonalized momentum for weight matrices.
#
# `torch.optim.Muon` runs its Newton-Schulz iteration in bfloat16, which processors without bfloat16
# instructions emulate: on such a machine 272 ms a step for the tiny agent's 21 matrices, against 11 ms here,
# where matrices of one shape also share their products. Method and coefficients: Jordan et al. (2024),
# "Muon: an optimizer for hidden layers in neural networks".


_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """Return matrices with the same singular vectors and singular values near 1.

    Args:
        matrices: (batch, rows, columns), each of them scaled freely.

    Returns:
        The same shape; five Newton-Schulz iterations bring the singular values into about .7 to 1.2.
    """
    a, b, c = _COEFFICIENTS
    wide = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if wide else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if wide else x


class Muon(torch.optim.Optimizer):
    """Nesterov momentum whose update is orthogonalized, for two-dimensional parameters only.

    Args:
        params: The matrices.
        lr: Learning rate; the update of a matrix is scaled by `sqrt(max(1, rows / columns))`.
        weight_decay: Decoupled weight decay.
        momentum: Share of the old momentum that stays.
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 0.02,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[torch.nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, alike in shapes.items():
                updates = []
                for parameter in alike:
                    state, gradient = self.state[parameter], parameter.grad
                    assert gradient is not None
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(parameter)
                    state["momentum"].lerp_(gradient, 1 - group["momentum"])
                    updates.append(torch.lerp(gradient, state["momentum"], group["momentum"]))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(alike, orthogonalize(torch.stack(updates)), strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-scale)
