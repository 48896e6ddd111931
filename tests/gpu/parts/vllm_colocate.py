"""Trainer and vLLM in one process on one device: `training.sampler = "colocate"`."""

from __future__ import annotations

from tests.gpu.parts.vllm_server import train_with
from tests.gpu.results import Asked
from tests.gpu.vllm_runs import need_vllm


def run(asked: Asked) -> None:
    """Train for two iterations, a small model and then a larger one."""
    need_vllm(asked)
    for name, seconds, share in (("qwen3-0.6b", 90.0, 0.35), ("qwen3-4b", 150.0, 0.4)):
        if asked.enough(seconds, name):
            with asked.trying(name):
                train_with(asked, "colocate", name, share)
