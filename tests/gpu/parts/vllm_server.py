"""vLLM as a server with CUDA graphs: adapters while it runs, LoRA on experts, and a training on it."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

from tests.gpu.results import Asked
from tests.gpu.shapes import adapted, model_folder, random_adapter, shape_of
from tests.gpu.talk import TalkTarget
from tests.gpu.vllm_runs import against_trainer, arguments, graphs, need_vllm, target_of, timed
from tests.gpu.watch import Watch
from trace_assets.settings import Training
from trace_assets.training.presets import GIB


def run(asked: Asked) -> None:
    """Serve a dense model and a mixture, then train on a server that the training starts itself."""
    need_vllm(asked, command=True)
    for name, seconds in (("qwen3-4b", 120.0), ("mixture", 100.0)):
        if asked.device == "cpu" and name == "mixture" and not asked.cases:
            asked.row("mixture", "skipped", note="vLLM's CPU build has no LoRA on experts")
        elif asked.enough(seconds, name):
            with asked.trying(name):
                _serve(asked, name)
    for name, seconds in (("qwen3-4b", 200.0), ("qwen3-0.6b", 110.0)):
        if asked.enough(seconds, f"training of {name} on a server"):
            with asked.trying(f"training of {name} on a server"):
                train_with(asked, "server", name)


def _serve(asked: Asked, name: str) -> None:
    """Start a server as a training would, hand adapters over, play, and compare with the trainer."""
    from trace_assets.policies.lora import load_model
    from trace_assets.serving.server import ModelServer
    from trace_assets.system.machine import free_port
    from trace_assets.system.vllm import Launch, find_vllm
    from trace_assets.training.sampler import FOR_EXPERTS
    from trace_assets.training.server_sampler import ServerSampler

    folder = model_folder(asked, name)
    mixture = bool(shape_of(asked, name).experts)
    dtype = "float32" if asked.device == "cpu" else "bfloat16"
    adapter = random_adapter(folder, asked.scratch / f"{folder.name}-lora", asked.device)
    launch = Launch(
        str(folder),
        "base",
        port=free_port(),
        dtype=dtype,
        max_num_seqs=256,
        tool_parser="",
        lora_rank=32 if mixture else 16,
        logprobs_mode="processed_logprobs",
        extra=(*(FOR_EXPERTS if mixture else ()), *arguments(asked, 0.6)),
    )
    log = asked.scratch / f"{folder.name}-server.log"
    log.unlink(missing_ok=True)
    began = time.perf_counter()
    with ModelServer(launch, log, command=find_vllm(), start_seconds=max(60.0, asked.left - 20)):
        asked.row(f"{name}: server starts", time.perf_counter() - began, "s", dtype)
        graphs(asked, name, log.read_text(errors="replace"))
        sampler = ServerSampler(folder, [launch.base_url], asked.scratch / "uploads", max_new_tokens=192)
        model = adapted(
            load_model(folder, "bfloat16", "cpu" if asked.device == "cpu" else "cuda"),
            Training(lora_rank=16, lora_alpha=16),
            0.02,
        )
        _swap(asked, name, sampler, model)
        del model
        timed(asked, f"{name}: warm", sampler, 8)
        for in_flight in (16, 128, 256):
            traces = timed(asked, f"{name}: server", sampler, in_flight)
        sampler.release()
        asyncio.run(sampler.close())
    against_trainer(asked, name, traces, folder, adapter, dtype)


def _swap(asked: Asked, name: str, sampler: Any, model: Any) -> None:
    """Hand over three adapters; the last is the one that the folder holds."""
    import torch

    weights = [value for key, value in model.named_parameters() if ".lora_B." in key]
    times = []
    for factor in (1.5, 2.0, 1 / 3.0):
        with torch.no_grad():
            for value in weights:
                value.mul_(factor)
        began = time.perf_counter()
        sampler.load_weights(model)
        times.append(time.perf_counter() - began)
    asked.row(
        f"{name}: an adapter to the server", min(times), "s",
        f"written, loaded, the one before taken back; the first, with its trial, {times[0]:.1f} s",
    )  # fmt: skip


def train_with(asked: Asked, sampler: str, name: str, share: float = 0.35) -> None:
    """Train for two iterations with vLLM beside the trainer on one device; tell times and mismatch."""
    from trace_assets.policies.vllm_engine import VllmPolicy
    from trace_assets.training.grpo import train_adapter
    from trace_assets.training.server_sampler import ServerSampler

    folder, target = model_folder(asked, name), target_of(asked)
    toy = asked.rehearse
    section = Training(
        sampler=sampler,
        sampler_arguments=arguments(asked, share),
        bf16=asked.device == "cuda",
        gradient_checkpointing=True,
        lora_rank=16,
        lora_alpha=16,
        learning_rate=1e-4,
        iterations=2,
        tasks_per_iteration=2 if toy else 8,
        group_size=4 if toy else 8,
        micro_batch=4 if toy else 8,
        concurrency=8 if toy else 128,
        max_turns=target.length.turns,
        max_new_tokens=192,
        validate_every=99,
        validation_seeds=8,
        validation_episodes=8,
        save_every=99,
    )
    out = asked.scratch / f"{folder.name}-{sampler}"
    shutil.rmtree(out, ignore_errors=True)
    what = f"{name}, training with the sampler '{sampler}'"
    began = time.perf_counter()
    watch = Watch(
        tell=lambda done, seconds: asked.row(
            f"{what}: {done}", seconds, "s", f"{time.perf_counter() - began:.0f} s after the start"
        )
    )
    with watch.on(ServerSampler if sampler == "server" else VllmPolicy):
        points = _train(train_adapter, name, target, folder, section, out)
    whole = time.perf_counter() - began
    sampling, learning, loading = watch.sampling, watch.learning, watch.loading
    asked.row(f"{what}: whole", whole, "s", "two iterations, starts and held-out episodes")
    iteration = (sampling.seconds + learning.seconds) / len(points) + loading.seconds / loading.times
    each = sampling.read // max(1, section.tasks_per_iteration * section.group_size * len(points))
    asked.row(
        f"{what}: iteration", iteration / 60, "min",
        f"{section.tasks_per_iteration} x {section.group_size} episodes of {each:,} tokens",
    )  # fmt: skip
    if asked.device == "cuda":
        asked.row(f"{what}: peak while learning", learning.peak / GIB, "GiB", "the trainer's own tensors")
    asked.row(f"{what}: sampler", sampling.tokens / sampling.seconds, "tokens/s")
    asked.row(f"{what}: trainer", learning.tokens / learning.seconds, "tokens/s")
    asked.row(
        f"{what}: adapter to the sampler", loading.seconds / loading.times, "s", f"{loading.times} times"
    )
    for point in points:
        asked.row(
            f"{what}: KL(sampler, trainer), iteration {point.iteration}", point.sampler_kl, "nats a token",
            f"largest difference {point.sampler_difference or 0:.2g}, gradient {point.grad_norm or 0:.2g}",
        )  # fmt: skip


def _train(
    train_adapter: Any, name: str, target: TalkTarget, folder: Path, section: Training, out: Path
) -> list[Any]:
    from trace_assets.training.plan import Job

    _, points = train_adapter(name, "capability", target, Job(folder, name, section, out))
    return list(points)
