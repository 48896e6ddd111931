"""A model divided among the processes that train it: each holds a part of every weight.

torch's FSDP2 (`fully_shard`) is called here and not through accelerate, which divides on accelerators only
and trains the whole model on a CPU without a word: like this one code runs on both, over NCCL or gloo.

Importing this module loads torch: do it where training starts, not before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from trace_assets.errors import InputError
from trace_assets.training.checkpoints import WEIGHTS, load_lora, lora_tensors
from trace_assets.training.trainer import LiveRowTrainer


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
    """Return this process's part of a whole tensor that all have, divided as another one is, if it is."""
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
    """Put what `optimizer_state` has returned into an optimizer; each process its part."""
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


# The trainer of a model that is divided among processes.


class DividedTrainer(LiveRowTrainer):
    """`LiveRowTrainer` whose model is divided among all processes before anything is computed.

    Its checkpoints hold whole tensors in the files of an undivided one, so a run that was killed may go on
    either way.

    Args:
        keywords: For `LiveRowTrainer`.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        divide(self.model, self.args.device)
        # Evaluation mode is what accelerate does to a model of one process: mixed precision, and no DDP.
        self.accelerator.prepare_model(self.model, device_placement=False, evaluation_mode=True)
        self.model._is_accelerate_prepared = True

    def _move_model_to_device(self, model: Any, device: torch.device) -> None:
        """Leave the model in the host's memory: whole it may not fit, and `divide` moves layer by layer."""

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the adapter of a checkpoint; every process has a part of it, one writes."""
        tensors = lora_tensors(self.model)
        if self.args.should_save:
            self._save(output_dir, tensors)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load_lora(self.model, load_file(Path(resume_from_checkpoint) / WEIGHTS))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        state = optimizer_state(self.optimizer, keep=self.args.should_save)
        if self.args.should_save:
            torch.save(state, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        optimizer, scheduler = (
            torch.load(Path(checkpoint) / name, map_location="cpu", weights_only=True)
            for name in (OPTIMIZER_NAME, SCHEDULER_NAME)
        )
        load_optimizer_state(self.optimizer, optimizer)
        self.lr_scheduler.load_state_dict(scheduler)
