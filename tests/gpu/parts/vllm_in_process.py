"""vLLM's engine inside this process, with CUDA graphs, as rollouts and evaluation use it."""

from __future__ import annotations

import asyncio
import time

from tests.gpu.results import Asked
from tests.gpu.shapes import model_folder, random_adapter
from tests.gpu.vllm_runs import against_trainer, arguments, graphs, need_vllm, timed


def run(asked: Asked) -> None:
    """Play with and without an adapter in one engine, and compare with the trainer."""
    need_vllm(asked)
    from trace_assets.policies.vllm_engine import VllmPolicy

    for name, seconds in (("qwen3-0.6b", 60.0), ("qwen3-4b", 90.0)):
        if not asked.enough(seconds, name):
            continue
        with asked.trying(name):
            folder = model_folder(asked, name)
            dtype = "float32" if asked.device == "cpu" else "bfloat16"
            adapter = random_adapter(folder, asked.scratch / f"{folder.name}-lora", asked.device)
            began = time.perf_counter()
            policy = VllmPolicy(
                folder,
                adapters={"a": adapter},
                max_new_tokens=192,
                dtype=dtype,
                max_num_seqs=256,
                extra=arguments(asked, 0.6),
            )
            try:
                asked.row(f"{name}: engine starts", time.perf_counter() - began, "s", dtype)
                graphs(asked, name, policy._host.log.read_text(errors="replace"))
                timed(asked, f"{name}: warm", policy, 8, "a")
                timed(asked, f"{name}: base model", policy, 128)
                for in_flight in (16, 128, 256):
                    traces = timed(asked, f"{name}: adapter", policy, in_flight, "a")
            finally:
                asyncio.run(policy.close())
            against_trainer(asked, name, traces, folder, adapter, dtype)
