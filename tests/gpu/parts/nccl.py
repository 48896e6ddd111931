"""The model divided by FSDP2 and gradients summed by DDP, over NCCL, on the devices there are.

With one device there is a world of one: the calls are the same, and nothing is sent. With two or more, the
product's own training in several processes is compared with that of one.
"""

from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.gpu.results import Asked, Skip
from trace_assets.settings import Training
from trace_assets.system.machine import free_port


def run(asked: Asked) -> None:
    """A world of one in this process; then one of two, where there are two devices."""
    import torch

    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        os.environ.setdefault(name, "lo")  # all of it is on this machine, which may have no network
    devices = torch.cuda.device_count()
    if asked.device == "cpu" and not asked.rehearse:
        raise Skip("torch sees no GPU")
    asked.row("devices", devices)
    with asked.trying("a world of one"):
        _one(asked)
    with asked.trying("two processes"):
        if devices < 2 and not asked.rehearse:
            raise Skip(f"{devices} device: two processes need two")
        _several(asked, min(devices, 4) if devices > 1 else 2)


def _one(asked: Asked) -> None:
    """Two steps of Adam: undivided, under FSDP2 as the product divides, and under DDP."""
    import torch
    import torch.distributed
    from torch.nn.parallel import DistributedDataParallel

    from trace_assets.training.fsdp import divide, load_optimizer_state, optimizer_state

    backend = "cpu:gloo,cuda:nccl" if asked.device == "cuda" else "gloo"
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "RANK": "0",
        "WORLD_SIZE": "1",
    }
    torch.distributed.init_process_group(backend)
    try:
        device = torch.device(asked.device)
        plain = _model("cpu")
        divided, spread = copy.deepcopy(plain), copy.deepcopy(plain)
        whole, plain_optimizer = _steps(plain.to(device), device)
        divide(divided, torch.device("cuda:0") if asked.device == "cuda" else device)
        parts, optimizer = _steps(divided, device)
        _same(asked, "FSDP2 over NCCL, one process", whole, parts)
        state, other = optimizer_state(optimizer, keep=True), optimizer_state(plain_optimizer, keep=True)
        apart = max(
            float((one[name] - two[name]).abs().max())
            for one, two in zip(state["state"].values(), other["state"].values(), strict=True)
            for name in ("exp_avg", "exp_avg_sq")
        )
        load_optimizer_state(optimizer, other)
        asked.row("FSDP2: largest difference of Adam's moments", apart, note="gathered, and put back divided")
        wrapped = DistributedDataParallel(spread.to(device))
        found, _ = _steps(wrapped, device, spread)
        _same(asked, "DDP over NCCL, one process", whole, found)
    finally:
        torch.distributed.destroy_process_group()
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)


def _model(device: str) -> Any:
    """Return a small mixture of experts with a LoRA that changes it."""
    import torch

    from tests.gpu.shapes import TOYS, adapted, make_model

    section = Training(lora_rank=4, lora_alpha=8)
    return adapted(make_model(TOYS["qwen3-30b-a3b"], device, torch.float32), section, 0.1)


def _steps(model: Any, device: Any, inner: Any = None) -> tuple[dict[str, Any], Any]:
    """Take two steps of Adam on fixed tokens; return the LoRA, whole, and the optimizer."""
    import torch

    from trace_assets.training.checkpoints import lora_state

    optimizer = torch.optim.AdamW([value for value in model.parameters() if value.requires_grad], lr=1e-2)
    ids = torch.randint(0, 600, (4, 48), generator=torch.Generator().manual_seed(3)).to(device)
    model.train()
    for _ in range(2):
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_([value for value in model.parameters() if value.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return lora_state(inner or model), optimizer


def _same(asked: Asked, what: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    apart = max(float((one[name] - other[name]).abs().mean()) for name in one)
    moved = max(float(value.abs().max()) for value in one.values())
    asked.row(f"{what}: largest mean difference of a weight", apart, note=f"weights up to {moved:.2g}")
    if one.keys() != other.keys() or not apart < 1e-4:
        raise RuntimeError(f"{what}: another adapter than undivided, mean difference {apart:.3g}")


def _several(asked: Asked, processes: int) -> None:
    """Train the adapter of the words in several processes, spread and divided, and compare with one."""
    from tests.training import together, word_target
    from tests.training.pretend_vllm import PretendVllm

    backend = "NCCL" if asked.device == "cuda" else "gloo"
    with tempfile.TemporaryDirectory(dir=asked.scratch) as scratch:
        folder = Path(scratch)
        base = word_target.write_base(folder / "base")
        with PretendVllm(base) as server:
            section = together.SECTION.model_copy(
                update={"sampler": "server", "sampler_url": server.url, "save_every": 1, "iterations": 3}
            )
            single = together.alone(base, folder / "single" / "words", section, word_target.WordTarget())
            for shard in (False, True):
                kind = "FSDP2" if shard else "DDP"
                own = section.model_copy(update={"processes": processes, "launcher": "pipes", "shard": shard})
                made = folder / kind / "words"
                made.parent.mkdir()
                started = together.start(base, made, own)
                adapter, points, _ = together.finish(started, made, 1 / processes if shard else 1.0)
                together.same((adapter, points, made), single)
                asked.row(f"{kind} over {backend}, {processes} processes: the adapter of one process", True)
