"""Seeded sampling that does not depend on who else is in the batch.

Every token of a conversation has a uniform number of its own, a hash of the conversation's seed and the
token's position; the token is where the cumulative distribution passes that number. Nothing is drawn from a
shared stream, so a conversation repeats whatever the batch, and however it is resumed.
"""

from __future__ import annotations

import gc
import hashlib
import sys
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def turn_seed(seed: int, conversation: int, turn: int) -> int:
    """Return the seed, below 2^31, of one reply of a conversation, for samplers that take one a request.

    Args:
        seed: The policy's.
        conversation: The conversation's.
        turn: Replies before this one.

    >>> turn_seed(0, 1, 0) == turn_seed(0, 1, 0) != turn_seed(0, 1, 1)
    True
    """
    text = f"{seed}:{conversation}:{turn}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def uniforms(seeds: npt.NDArray[np.uint64], positions: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return one number in [0, 1) for each (seed, position), by two rounds of SplitMix64.

    Args:
        seeds: Shape [n].
        positions: Shape [n].

    Returns:
        Shape [n], float64 with 53 random bits.

    Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

    >>> a, b = uniforms(np.array([7, 7], np.uint64), np.array([0, 1], np.uint64))
    >>> bool(0 <= a < 1), bool(a != b)
    (True, True)
    """
    with np.errstate(over="ignore"):
        state = _splitmix(seeds) + (positions + np.uint64(1)) * _GOLDEN
        bits: npt.NDArray[np.uint64] = _splitmix(state) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def _splitmix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX1
    state = (state ^ (state >> np.uint64(27))) * _MIX2
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def choose(
    logits: torch.Tensor, temperature: float, drawn: npt.NDArray[np.float64]
) -> tuple[list[int], list[float]]:
    """Choose one token a row.

    Args:
        logits: Shape [n, vocabulary].
        temperature: 0 takes the likeliest token.
        drawn: Uniform numbers, shape [n]; not used at temperature 0.

    Returns:
        Token ids, and their log-probabilities at this temperature (at 1 for temperature 0).
    """
    import torch

    logits = logits.float()
    if temperature <= 0:
        chosen = logits.argmax(dim=-1, keepdim=True)
        logprobs = torch.log_softmax(logits, dim=-1)
        return chosen[:, 0].tolist(), logprobs.gather(1, chosen)[:, 0].tolist()
    probabilities = torch.softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)
    below = probabilities.cumsum(dim=-1)
    total = below[:, -1:]
    # In fp32 a number just below 1 is 1: kept under the total, it cannot fall behind the last possible token.
    point = torch.from_numpy(drawn).to(below)[:, None] * total
    point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))
    chosen = torch.searchsorted(below, point, right=True).clamp_(max=logits.shape[-1] - 1)
    picked = probabilities.gather(1, chosen)
    return chosen[:, 0].tolist(), picked.log()[:, 0].tolist()


def accelerator() -> str:
    """Return the present GPU's name for torch where there is one, else that of the CPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def give_back() -> None:
    """Hand the memory of models that are gone back to the GPU, for whatever comes next in any process.

    A trainer refers to itself, and so holds its model until somebody looks; torch keeps what is free.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()
