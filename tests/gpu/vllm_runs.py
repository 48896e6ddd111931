"""What the three ways of running vLLM have in common: is it there, how fast, does it say what trains."""

from __future__ import annotations

import gc
import importlib.util
import re
import time
from pathlib import Path
from typing import Any

from tests.gpu.results import Asked, Skip
from tests.gpu.scores import score, tell, trainers_model
from tests.gpu.talk import Length, TalkTarget


def need_vllm(asked: Asked, command: bool = False) -> None:
    """Skip the part where vLLM is missing, or its program where that is what runs."""
    from trace_assets.errors import Unavailable
    from trace_assets.system.vllm import find_vllm

    if importlib.util.find_spec("vllm") is None:
        raise Skip("vLLM is not installed in this interpreter")
    if command:
        try:
            find_vllm()
        except Unavailable as error:
            raise Skip(str(error)) from None
    if asked.device == "cpu" and not asked.rehearse:
        raise Skip("torch sees no GPU")


def arguments(asked: Asked, share: float) -> tuple[str, ...]:
    """Return vLLM's arguments here: CUDA graphs are left on; on a CPU, where nothing is compiled, off."""
    if asked.device == "cpu":
        return ("--enforce-eager", "--max-model-len", "512")
    return ("--max-model-len", "4096", "--gpu-memory-utilization", f"{share:g}")


def target_of(asked: Asked) -> TalkTarget:
    """Return the episodes that are played: those of `throughput`."""
    return TalkTarget(Length(24, 2, 8) if asked.rehearse else Length(1024, 4, 256))


def timed(asked: Asked, what: str, policy: Any, in_flight: int, adapter: str | None = None) -> list[Any]:
    """Play so many episodes at once, tell the speed, and return the traces."""
    from trace_assets.training.episodes import Player

    target = target_of(asked)
    count = 4 if asked.rehearse else in_flight
    with Player(
        target, policy, seed=in_flight, max_turns=target.length.turns, concurrency=in_flight, adapter=adapter
    ) as player:
        began = time.perf_counter()
        played = player.play(list(target.tasks("test"))[:count], f"{in_flight} in flight")
        seconds = time.perf_counter() - began
    traces = [one.tokens for one in played if one.tokens and 1 in one.tokens.mask]
    if not traces:
        raise RuntimeError(f"no episode: {played[0].trajectory.error}")
    sampled = sum(sum(trace.mask) for trace in traces)
    note = f"{sampled:,} sampled, {sum(len(trace.ids) for trace in traces):,} in all, {seconds:.1f} s"
    asked.row(f"{what}, {in_flight} in flight", sampled / seconds, "tokens/s", note)
    return traces


def against_trainer(
    asked: Asked, what: str, traces: list[Any], folder: Path, adapter: Path, dtype: str
) -> None:
    """Tell how far vLLM's log-probabilities lie from the trainer's, with the adapter and without it."""
    import torch

    few = traces[:16]
    model = trainers_model(folder, adapter, dtype, asked.device)
    sampled = [value for one in few for value, own in zip(one.logprobs, one.mask, strict=True) if own]
    tell(asked, f"{what}: vLLM and trainer, {dtype}", sampled, score(model, few, dtype)[0])
    with model.disable_adapter():
        tell(
            asked,
            f"{what}: vLLM, and the trainer without its adapter",
            sampled,
            score(model, few, dtype)[0],
            False,
        )
    del model
    gc.collect()
    if asked.device == "cuda":
        torch.cuda.empty_cache()


def graphs(asked: Asked, what: str, log: str) -> None:
    """Tell what vLLM's log says of CUDA graphs and of its cache."""
    said = r"Using FlashAttention version \S+|Graph capturing finished[^\n]*|GPU KV cache size[^\n]*"
    for line in dict.fromkeys(re.findall(said + r"|torch\.compile took [^\n]*", log)):
        asked.row(f"{what}: its log", line[:100])
    if asked.device == "cuda" and "raph captur" not in log:
        asked.row(f"{what}: CUDA graphs", "not captured", note="nothing of it in the log")
