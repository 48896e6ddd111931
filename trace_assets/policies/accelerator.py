"""The device that models are computed on."""

from __future__ import annotations

import gc
import sys


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
