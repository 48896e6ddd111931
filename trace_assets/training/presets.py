"""Settings of the training stage to start from, and which of them suit a model and a machine.

A preset is a TOML file of this package with a `[training]` section and the reasoning in comments. Which one
suits the accelerators that are there is a matter of memory, by arithmetic.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_assets.errors import InputError
from trace_assets.settings import Training
from trace_assets.system.machine import Accelerator

# How much accelerator memory a training step takes, from a model's shape; arithmetic, not a measurement.


EPISODE_TOKENS = 8192
"""Of the longest episode, where nothing else is said."""
GIB = 2**30
TILE = (4096, 32768)
"""Tokens and words of a tile in which TRL 1.16 makes logits: they are never all there at once."""


@dataclass(frozen=True)
class Shape:
    """What decides a decoder's size (names as in a Hugging Face configuration).

    Attributes:
        layers: Decoder layers.
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: Of one head.
        inner: Width of the feed-forward layer, of one expert in a mixture.
        vocabulary: Rows of the embedding.
        experts: 0 for a dense model.
        active: Experts a token goes through.
        tied: Whether the output layer is the embedding.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    experts: int = 0
    active: int = 0
    tied: bool = True

    @property
    def parameters(self) -> int:
        """Weights in all, norms included.

        >>> SHAPES["qwen3-4b"].parameters, SHAPES["qwen3-30b-a3b"].parameters
        (4022468096, 30532122624)
        """
        return self.layers * self.layer + self.hidden + self.embeddings

    @property
    def layer(self) -> int:
        """Weights of one decoder layer."""
        norms = 2 * self.hidden + 2 * self.head_dim
        attention = sum(rows * columns for rows, columns in self._attention())
        one = 3 * self.hidden * self.inner
        forward = self.experts * (one + self.hidden) if self.experts else one
        return attention + forward + norms

    @property
    def embeddings(self) -> int:
        """Weights of the embedding and of an output layer of its own."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    def adapter(self, rank: int) -> int:
        """Return the weights of a LoRA on every linear layer, experts and router included.

        A matrix of m x n takes rank x (m + n).

        >>> SHAPES["qwen3-4b"].adapter(16), SHAPES["qwen3-30b-a3b"].adapter(32)
        (33030144, 1993015296)
        """
        pairs = [rows + columns for rows, columns in self._attention()]
        if self.experts:
            # Gate and up projection of an expert are one matrix there, to which PEFT gives twice the rank.
            one = 2 * (self.hidden + 2 * self.inner) + (self.inner + self.hidden)
            pairs += [self.experts * one, self.hidden + self.experts]
        else:
            pairs += [3 * (self.hidden + self.inner)]
        return self.layers * rank * sum(pairs)

    def cache(self, tokens: int) -> int:
        """Return the bytes of keys and values of so many tokens in bf16.

        >>> SHAPES["qwen3-4b"].cache(1), SHAPES["qwen3-30b-a3b"].cache(1)
        (147456, 98304)
        """
        return 2 * self.layers * self.kv_heads * self.head_dim * 2 * tokens

    def _attention(self) -> list[tuple[int, int]]:
        wide, narrow = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return [(self.hidden, wide), (self.hidden, narrow), (self.hidden, narrow), (wide, self.hidden)]


SHAPES = {
    "qwen3-0.6b": Shape(28, 1024, 16, 8, 128, 3072, 151936),
    "qwen3-4b": Shape(36, 2560, 32, 8, 128, 9728, 151936),
    "qwen3-30b-a3b": Shape(48, 2048, 32, 4, 128, 768, 151936, experts=128, active=8, tied=False),
}
"""Published shapes (the models' own configuration files)."""


@dataclass(frozen=True)
class Memory:
    """Bytes of one training step, by what they are for.

    Attributes:
        weights: The frozen base model in the trainer.
        adapter: LoRA weights in fp32, their gradients, and Adam's two moments: 16 bytes each.
        engine: Merged copies of the adapted weights that the sampler reads; none where a server samples.
        cache: Keys and values of the episodes in flight; none likewise.
        activations: What the backward pass keeps, and a tile of the logits.
        gathered: Of a model divided among processes, what each has whole at one time.
    """

    weights: int
    adapter: int
    engine: int
    cache: int
    activations: int
    gathered: int = 0

    @property
    def total(self) -> int:
        """Everything at once: sampling and learning take turns, but what they hold is not given back."""
        return self.weights + self.adapter + self.engine + self.cache + self.activations + self.gathered


def step_memory(shape: Shape, section: Training, episode_tokens: int) -> Memory:
    """Return what one step takes on one device.

    Activations with gradient checkpointing: one residual stream a layer, all of one layer while it is
    computed again and as much for the gradients that go back through it, a tile of the logits, and the
    gradient of the last hidden states in fp32. Without it: all of every layer. Attention is taken to keep no
    matrix of tokens x tokens. PEFT adds up the first weight of a layer's experts with its adapter before they
    are used; that sum has a gradient of its size. (Measured steps are in docs/gpu.md.)

    Where the model is divided (FSDP) each process keeps its part of weights and adapter, and has whole the
    layer that is computed, the next one, and the embedding and output layers.

    Args:
        shape: The model.
        section: Precision, rank, micro-batch, episodes in flight, processes, sampler.
        episode_tokens: Longest episode, prompt included.

    >>> memory = step_memory(SHAPES["qwen3-4b"], Training(bf16=True, lora_rank=16, micro_batch=1,
    ...                      gradient_checkpointing=True, concurrency=16), 8192)
    >>> [round(part / GIB, 1) for part in (memory.weights, memory.adapter, memory.cache, memory.activations)]
    [7.5, 0.5, 18.0, 3.5]
    """
    size = 2 if section.bf16 else 4
    rows = section.micro_batch or section.tasks_per_iteration * section.group_size // section.processes
    parts = section.processes if section.shard else 1
    elsewhere = section.sampler == "server"
    tokens = rows * episode_tokens
    inner = shape.inner * max(1, shape.active)
    wide = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    layer = tokens * size * (6 * shape.hidden + 2 * wide + 3 * inner)
    residual = tokens * size * shape.hidden * shape.layers
    kept = residual + layer * (2 if section.gradient_checkpointing else 1 + shape.layers)
    # Gate and up projection are one weight.
    experts = shape.experts * 2 * shape.hidden * shape.inner * size
    tile = min(tokens, TILE[0]) * min(shape.vocabulary, TILE[1]) * size
    logits = tile + tokens * shape.hidden * (size + 4)
    return Memory(
        weights=shape.parameters * size // parts,
        adapter=16 * shape.adapter(section.lora_rank) // parts,
        engine=0 if elsewhere else shape.parameters * size,
        cache=0 if elsewhere else shape.cache(section.concurrency * episode_tokens) * size // 2,
        activations=kept + logits + 2 * experts,
        gathered=(2 * shape.layer + shape.embeddings) * size if section.shard else 0,
    )


def server_memory(shape: Shape, section: Training, episode_tokens: int, devices: int) -> Memory:
    """Return what a server takes on each of its devices, all layers divided among them (tensor parallel).

    vLLM keeps room for an adapter beside the weights, in bf16 and at twice the rank for a mixture.

    Args:
        shape: The model.
        section: Precision, rank, episodes in flight.
        episode_tokens: Longest episode, prompt included.
        devices: How many there are.
    """
    size = 2 if section.bf16 else 4
    rank = section.lora_rank * (2 if shape.experts else 1)
    in_flight = section.concurrency * section.processes
    return Memory(
        weights=shape.parameters * size // devices,
        adapter=shape.adapter(rank) * size // devices,
        engine=0,
        cache=shape.cache(in_flight * episode_tokens) * size // 2 // devices,
        activations=0,
    )


def preset_names() -> list[str]:
    """Return the names of the presets that come with the package.

    >>> preset_names()
    ['qwen3-30b-a3b-8gpu', 'qwen3-4b-1gpu', 'tiny-cpu']
    """
    names = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_preset(name: str, **overrides: Any) -> Training:
    """Return the training section of a preset.

    Args:
        name: One of `preset_names()`.
        overrides: Fields that replace the preset's.

    Raises:
        InputError: There is no such preset, or an override is not a usable value.

    >>> load_preset("qwen3-4b-1gpu", seed=7).group_size
    16
    """
    if name not in preset_names():
        raise InputError(f"there is no training preset {name!r}: choose one of {', '.join(preset_names())}.")
    text = _folder().joinpath(f"{name}.toml").read_text(encoding="utf-8")
    try:
        return Training.model_validate({**tomllib.loads(text)["training"], **overrides})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"training setting '{where}' is not usable: {first['msg']}.") from error


def _folder() -> Traversable:
    return files("trace_assets").joinpath("training").joinpath("presets")


CPU, ONE, EIGHT = "tiny-cpu", "qwen3-4b-1gpu", "qwen3-30b-a3b-8gpu"
USABLE = 0.9
"""Share of a device's memory: the arithmetic counts neither fragments nor the work space of kernels."""
FEWEST = 4
"""Episodes in flight below which sampling is not worth a GPU's time."""


@dataclass(frozen=True)
class Choice:
    """A preset, and what it takes on this machine.

    Attributes:
        name: Of the preset.
        section: Its settings; episodes in flight are fewer than the preset's where memory asks for it.
        gib: What a device that trains needs; None where the model's shape is not known, or on a CPU.
        fits: Whether that is there; None where it is not known.
        words: Why this one, in a sentence.
    """

    name: str
    section: Training
    gib: float | None
    fits: bool | None
    words: str


def choose_preset(
    shape: Shape | None, devices: Sequence[Accelerator], wanted: str = "", tokens: int = EPISODE_TOKENS
) -> Choice:
    """Return the preset that suits a model on these devices.

    Args:
        shape: The model; None where it is not known.
        devices: What is there; none stands for a CPU.
        wanted: A preset to take whatever is there; empty chooses one.
        tokens: Longest episode, prompt included.

    Raises:
        InputError: There is no preset of the wanted name.

    >>> from trace_assets.training.presets import SHAPES
    >>> choose_preset(SHAPES["qwen3-4b"], [Accelerator("NVIDIA H100", 80.0)]).name
    'qwen3-4b-1gpu'
    >>> choose_preset(SHAPES["qwen3-4b"], []).name
    'tiny-cpu'
    >>> choose_preset(SHAPES["qwen3-30b-a3b"], [Accelerator("NVIDIA H100", 80.0)] * 8).name
    'qwen3-30b-a3b-8gpu'
    """
    if wanted and wanted not in preset_names():
        raise InputError(f"there is no preset '{wanted}': choose one of {', '.join(preset_names())}.")
    if not devices and wanted in ("", CPU):
        return Choice(CPU, load_preset(CPU), None, None, "there is no GPU here: figures for a CPU")
    if wanted == CPU:
        return Choice(CPU, load_preset(CPU), None, None, "as you asked")
    least = min((one.gib for one in devices), default=0.0)
    whole = _on_one(shape, least, tokens)
    if wanted == ONE or (not wanted and (whole.fits is not False or len(devices) < 8)):
        return whole
    return _on_eight(shape, devices, tokens)


def _on_one(shape: Shape | None, gib: float, tokens: int) -> Choice:
    section = load_preset(ONE)
    if shape is None:
        return Choice(ONE, section, None, None, "the model's shape is not known here")
    need = step_memory(shape, section, tokens).total / GIB
    while need > USABLE * gib and section.concurrency > FEWEST:
        section = section.model_copy(update={"concurrency": section.concurrency // 2})
        need = step_memory(shape, section, tokens).total / GIB
    fits = need <= USABLE * gib
    words = f"{need:.0f} GiB by arithmetic with {section.concurrency} episodes in flight, of {gib:.0f} GiB"
    return Choice(ONE, section, need, fits, words if fits else f"{words}: too little")


def _on_eight(shape: Shape | None, devices: Sequence[Accelerator], tokens: int) -> Choice:
    section = load_preset(EIGHT)
    if shape is None:
        return Choice(EIGHT, section, None, None, "the model's shape is not known here")
    least = min((one.gib for one in devices), default=0.0)
    serving = len(section.sampler_gpus.split(","))
    training = step_memory(shape, section, tokens).total
    need = max(training, server_memory(shape, section, tokens, serving).total) / GIB
    fits = need <= USABLE * least and len(devices) >= section.processes + serving
    words = f"{need:.0f} GiB a device by arithmetic, of {least:.0f} GiB on each of {len(devices)}"
    return Choice(EIGHT, section, need, fits, words if fits else f"{words}: too little")


def read_shape(folder: Path) -> Shape | None:
    """Return the shape of a decoder in a Hugging Face folder; None where its configuration does not say.

    Args:
        folder: With a `config.json`.
    """
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        said = {**said, **said.get("text_config", {})}
        heads, experts = int(said["num_attention_heads"]), int(said.get("num_experts") or 0)
        return Shape(
            layers=int(said["num_hidden_layers"]),
            hidden=int(said["hidden_size"]),
            heads=heads,
            kv_heads=int(said.get("num_key_value_heads") or heads),
            head_dim=int(said.get("head_dim") or said["hidden_size"] // heads),
            inner=int(said["moe_intermediate_size"] if experts else said["intermediate_size"]),
            vocabulary=int(said["vocab_size"]),
            experts=experts,
            active=int(said.get("num_experts_per_tok") or 0) if experts else 0,
            tied=bool(said.get("tie_word_embeddings", False)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
