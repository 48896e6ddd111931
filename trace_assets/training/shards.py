"""A model divided among the processes that train it: each holds a part of every weight.

torch's FSDP2 (`fully_shard`) is called here and not through accelerate, which divides on accelerators only
and trains the whole model on a CPU without a word: like this one code runs on both, over NCCL or gloo.

Importing this module loads torch: do it where training starts, not before.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from trace_assets.errors import InputError


def divide(model: Any, device: torch.device) -> None:
    """Divide a model, in place, among all processes; every one of them calls this with the same model.

    A decoder layer is gathered whole when it is computed and given back after it. What is outside the layers
    (embedding, last norm, output layer, and what they share) is kept whole from the forward pass to the end
    of the backward pass. Gradients are averaged over the processes, as DDP does.

    Args:
        model: A `PeftModel` in the host's memory; a layer goes to the device when it is divided.
        device: Where this process computes.

    Raises:
        InputError: The model's class does not say what its layers are.
    """
    base = model.get_base_model()
    named = set(getattr(base, "_no_split_modules", None) or ())
    layers = [module for module in base.modules() if type(module).__name__ in named]
    if not layers:
        raise InputError(
            f"training.shard cannot divide a {type(base).__name__}: transformers does not say which of its "
            "modules are layers; take training.shard back."
        )
    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    for value in model.parameters():
        if value.requires_grad:  # drawn at random in each process; the parts must be those of one draw
            torch.distributed.broadcast(value.data, 0)
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def whole(value: Any) -> Any:
    """Return a divided tensor whole, and anything else as it is; every process must ask, in one order."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def part_of(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return this process's part of a whole tensor that all have, divided as another one is, if it is.

    Args:
        value: The tensor.
        like: A tensor of its shape.
    """
    if not isinstance(like, DTensor):
        return value
    # All have read the same: nothing needs to be sent.
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def optimizer_state(optimizer: Any, keep: bool) -> dict[str, Any]:
    """Return an optimizer's `state_dict` with every tensor whole and in the host's memory.

    That is what one process saves that has the whole model, so a run may be taken up divided or not. Every
    process must ask.

    Args:
        optimizer: torch's, or accelerate's around it.
        keep: Whether this process wants it; otherwise it helps, keeps no tensor, and the result is empty.
    """
    state: dict[str, Any] = optimizer.state_dict()
    gathered: dict[int, dict[str, Any]] = {}
    for index, moments in state["state"].items():
        for name, value in moments.items():
            found = whole(value)
            if keep:
                host = found.cpu() if isinstance(found, torch.Tensor) else found
                gathered.setdefault(index, {})[name] = host
    return {**state, "state": gathered} if keep else {}


def load_optimizer_state(optimizer: Any, state: dict[str, Any]) -> None:
    """Put what `optimizer_state` has returned into an optimizer; each process its part.

    Args:
        optimizer: Of the same weights in the same order.
        state: What was saved.
    """
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    divided = {
        index: {
            name: part_of(value, weights[index])
            if isinstance(value, torch.Tensor) and value.shape == weights[index].shape
            else value
            for name, value in moments.items()
        }
        for index, moments in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": divided})
