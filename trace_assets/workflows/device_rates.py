"""What a device does in a second, by its published rates and arithmetic, for episodes of a known size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_assets.system.machine import Accelerator
from trace_assets.training.presets import Shape

RATES = {
    "A100": (312.0, 2.0),
    "H100": (989.0, 3.35),
    "H200": (989.0, 4.8),
    "B200": (2250.0, 8.0),
    "L40S": (362.0, 0.864),
    "A10": (125.0, 0.6),
    "L4": (121.0, 0.3),
    "RTX 4090": (165.0, 1.01),
}
"""Part of a device's name -> dense bf16 TFLOP/s and TB/s of memory, as NVIDIA's data sheets give them. The
first part that occurs counts."""
DECODING = (0.25, 0.6)
"""Share of the memory's rate that decoding reaches: an assumption, from poor to good."""
COMPUTING = (0.15, 0.4)
"""Share of the arithmetic rate that reading prompts and training reach: likewise."""


@dataclass(frozen=True)
class Episode:
    """Tokens of one episode, on average.

    Attributes:
        turns: The agent's messages.
        written: Tokens that the agent writes.
        context: Tokens of the whole conversation at its end, policy and tools included.
        user_read: Tokens that a simulated user's server is sent.
        user_written: Tokens that it writes.
        source: Where this is known from.
    """

    turns: float
    written: float
    context: float
    user_read: float
    user_written: float
    source: str


@dataclass(frozen=True)
class Rate:
    """What a device does, by arithmetic: seconds for an episode, least and most."""

    playing: tuple[float, float]
    learning: tuple[float, float]
    device: str


def rate_of(
    shape: Shape | None, devices: Sequence[Accelerator], concurrency: int, episode: Episode
) -> Rate | None:
    """Return the arithmetic for one device.

    A decoding step reads all active weights once and the keys and values of every conversation; a prompt
    costs 2 operations a weight and token, learning 6 (forward, backward through a frozen model, and the
    forward pass that checkpointing repeats).
    """
    known = next(
        ((name, rates) for one in devices[:1] for name, rates in RATES.items() if name in one.name), None
    )
    if shape is None or known is None:
        return None
    flops, bandwidth = known[1][0] * 1e12, known[1][1] * 1e12
    active = active_parameters(shape)
    step_bytes = 2 * active + concurrency * shape.cache(round(episode.context / 2))
    decoding = episode.written / concurrency * step_bytes / bandwidth
    reading = 2 * active * episode.context / flops
    learning = 6 * active * episode.context / flops
    return Rate(
        (
            decoding / DECODING[1] + reading / COMPUTING[1],
            decoding / DECODING[0] + reading / COMPUTING[0],
        ),
        (learning / COMPUTING[1], learning / COMPUTING[0]),
        devices[0].name,
    )


def active_parameters(shape: Shape) -> int:
    """Return the weights that a token goes through.

    >>> from trace_assets.training.presets import SHAPES
    >>> round(active_parameters(SHAPES["qwen3-30b-a3b"]) / 1e9, 1)
    3.4
    """
    if not shape.experts:
        return shape.parameters
    idle = shape.layers * (shape.experts - shape.active) * 3 * shape.hidden * shape.inner
    return shape.parameters - idle
