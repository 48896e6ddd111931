"""Who plays the training's episodes: the engine of this package, a vLLM server, or vLLM in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trace_assets.errors import InputError
from trace_assets.serving.server import ModelServer
from trace_assets.settings import Training
from trace_assets.system.machine import free_port
from trace_assets.system.vllm import Launch, find_vllm
from trace_assets.training.distributed import ALONE, ProcessGroup

if TYPE_CHECKING:
    from trace_assets.training.run import TrainablePolicy


EAGER = ("--enforce-eager",)
"""On a CPU compiling kernels takes longer than it saves."""
FOR_EXPERTS = ("--enable-mixed-moe-lora-format",)
"""Has vLLM take experts' adapters in the form in which PEFT writes them."""
MOST_AT_ONCE = 256
"""Conversations that a server which is started here works on; further ones wait for their turn."""


@contextmanager
def open_sampler(
    base_dir: Path | str, section: Training, folder: Path, process_group: ProcessGroup = ALONE
) -> Iterator[TrainablePolicy]:
    """Open the policy that `training.sampler` names; what was started for it ends with the block.

    All draw from the same distribution with the same seeds. Their arithmetic differs in the last bits, and
    with it, once in a while, a sampled token: adapters are equal bit for bit only where the sampler is the
    same, and vLLM's also depends on which conversations share a batch.

    Args:
        base_dir: Hugging Face folder (or hub name) of the base model.
        section: The training settings.
        folder: For adapters on their way to a server, and the log of one that is started.
        process_group: The processes that train together: one server for all, an engine for each.

    Raises:
        InputError: The settings contradict each other, or a server does not take what it is given.
        Unavailable: A package, a program or a server is not there.
    """
    with ExitStack() as stack:
        if section.sampler == "server":
            policy = _on_servers(base_dir, section, folder, process_group, stack)
        elif section.sampler == "colocate":
            policy = _in_process(base_dir, section)
        else:
            policy = _of_this_package(base_dir, section)
        try:
            yield policy
        finally:
            asyncio.run(policy.close())


def _of_this_package(base_dir: Path | str, section: Training) -> TrainablePolicy:
    from trace_assets.policies.token_policy import accelerator
    from trace_assets.policies.transformers_engine import TransformersPolicy

    return TransformersPolicy(
        base_dir,
        temperature=section.temperature,
        max_new_tokens=section.max_new_tokens,
        # bf16 is emulated by most processors: on a CPU the trainer's alone is.
        dtype=_dtype(section) if accelerator() != "cpu" else "float32",
    )


def _in_process(base_dir: Path | str, section: Training) -> TrainablePolicy:
    from trace_assets.policies.vllm_engine import VllmPolicy

    if section.shard:
        raise InputError(
            "training.sampler = 'colocate' holds the whole model in every process, and training.shard says "
            "that it does not fit: take the sampler 'server'."
        )
    return VllmPolicy(
        base_dir,
        temperature=section.temperature,
        max_new_tokens=section.max_new_tokens,
        dtype=_dtype(section),
        max_num_seqs=min(section.concurrency, MOST_AT_ONCE),
        lora_rank=_highest_rank(base_dir, section),
        extra=_arguments(base_dir, section),
    )


def _on_servers(
    base_dir: Path | str, section: Training, folder: Path, process_group: ProcessGroup, stack: ExitStack
) -> TrainablePolicy:
    from trace_assets.training.server_sampler import ServerSampler

    urls = [url.strip().rstrip("/") for url in section.sampler_url.split(",") if url.strip()]
    started: list[ModelServer] = []

    def start() -> list[str]:
        folder.mkdir(parents=True, exist_ok=True)
        server = _server(base_dir, section, folder / "vllm.log")
        started.append(stack.enter_context(server))
        return [server.launch.base_url]

    policy = ServerSampler(
        base_dir,
        urls or process_group.once(start),
        folder,
        temperature=section.temperature,
        max_new_tokens=section.max_new_tokens,
        process_group=process_group,
        why_gone=lambda: started[0].why_gone() if started else "",
    )
    if urls:
        stack.callback(policy.release)
    return policy


def _server(base_dir: Path | str, section: Training, log: Path) -> ModelServer:
    """Return a server, not started, for this training alone."""
    launch = Launch(
        str(base_dir),
        "base",
        port=free_port(),
        dtype=_dtype(section),
        max_num_seqs=min(section.concurrency * section.processes, MOST_AT_ONCE),
        tool_parser="",
        lora_rank=_highest_rank(base_dir, section),
        logprobs_mode="processed_logprobs",
        gpus=section.sampler_gpus,
        extra=_arguments(base_dir, section),
    )
    command = find_vllm(section.sampler_command, "training.sampler_command", "set training.sampler_url")
    return ModelServer(launch, log, command=command)


def _dtype(section: Training) -> str:
    return "bfloat16" if section.bf16 else "float32"


def _arguments(base_dir: Path | str, section: Training) -> tuple[str, ...]:
    import torch

    eager = () if torch.cuda.is_available() else EAGER
    mixture = FOR_EXPERTS if _is_mixture(base_dir) else ()
    return (*eager, *mixture, *section.sampler_arguments)


def _highest_rank(base_dir: Path | str, section: Training) -> int:
    """Return the rank to make room for: PEFT doubles it for an expert's joint gate and up projection."""
    return section.lora_rank * (2 if _is_mixture(base_dir) else 1)


def _is_mixture(base_dir: Path | str) -> bool:
    from transformers import AutoConfig

    from trace_assets.policies.token_policy import is_mixture

    return is_mixture(AutoConfig.from_pretrained(str(base_dir)))
