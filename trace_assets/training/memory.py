"""How much accelerator memory a training step takes, from a model's shape; arithmetic, not a measurement."""

from __future__ import annotations

from dataclasses import dataclass

from trace_assets.settings import Training

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
    computed again, a tile of the logits, and the gradient of the last hidden states in fp32. Without it: all
    of every layer. Attention is taken to keep no matrix of tokens x tokens.

    Where the model is divided (FSDP) each process keeps its part of weights and adapter, and has whole the
    layer that is computed, the next one, the sum of the first with its adapter (PEFT makes that of the
    experts before they are used), and the embedding and output layers.

    Args:
        shape: The model.
        section: Precision, rank, micro-batch, episodes in flight, processes, sampler.
        episode_tokens: Longest episode, prompt included.

    >>> memory = step_memory(SHAPES["qwen3-4b"], Training(bf16=True, lora_rank=16, micro_batch=1,
    ...                      gradient_checkpointing=True, concurrency=16), 8192)
    >>> [round(part / GIB, 1) for part in (memory.weights, memory.adapter, memory.cache, memory.activations)]
    [7.5, 0.5, 18.0, 2.6]
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
    kept = residual + layer if section.gradient_checkpointing else residual + shape.layers * layer
    tile = min(tokens, TILE[0]) * min(shape.vocabulary, TILE[1]) * size
    logits = tile + tokens * shape.hidden * (size + 4)
    return Memory(
        weights=shape.parameters * size // parts,
        adapter=16 * shape.adapter(section.lora_rank) // parts,
        engine=0 if elsewhere else shape.parameters * size,
        cache=0 if elsewhere else shape.cache(section.concurrency * episode_tokens) * size // 2,
        activations=kept + logits,
        gathered=(3 * shape.layer + shape.embeddings) * size if section.shard else 0,
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
