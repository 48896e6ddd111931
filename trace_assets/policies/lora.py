"""Weights with an adapter merged in: W + scale * B A, from a PEFT folder or from a model in training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_assets.errors import InputError, require_extra

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Weights = dict[str, "torch.Tensor"]
"""State of a plain Hugging Face model, by parameter name."""


def load_model(folder: Path) -> PreTrainedModel:
    """Load a causal language model in fp32 for reading.

    Raises:
        Unavailable: torch or transformers are not installed.
        InputError: The folder holds no model.
    """
    require_extra("torch", "train", "Running a model here")
    require_extra("transformers", "train", "Running a model here")
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()  # a bar for reading a file would draw over ours
    try:
        model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    except (OSError, ValueError) as error:
        raise InputError(f"no model can be loaded from '{folder}': {error}.") from error
    return model.eval()


def merge_folder(model: PreTrainedModel, folder: Path) -> Weights:
    """Return the model's weights with a stored adapter merged in; the model stays as it is.

    Raises:
        InputError: The folder holds no PEFT adapter, or one of another model.
    """
    import copy

    from peft import PeftModel

    if not (Path(folder) / "adapter_config.json").is_file():
        raise InputError(f"there is no adapter in '{folder}': adapter_config.json is missing.")
    try:
        adapted = PeftModel.from_pretrained(copy.deepcopy(model), str(folder))
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"the adapter in '{folder}' does not fit the base model: {error}.") from error
    return dict(adapted.merge_and_unload().state_dict())


def merge_live(model: Any) -> Weights:
    """Return the weights of a model in training, its active LoRA adapters merged in.

    The model is only read. Costs one small matrix product an adapted layer.

    Args:
        model: A PEFT model, or a plain Hugging Face model.
    """
    import torch

    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    modules = dict(plain.named_modules())
    weights: Weights = {}
    with torch.no_grad():
        for name, value in plain.state_dict().items():
            if ".lora_" in name:
                continue
            owner, dot, leaf = name.rpartition(".")
            # Experts are parameters of one module, which PEFT wraps once for each: wrappers in wrappers.
            while owner.endswith(".base_layer"):
                owner = owner.removesuffix(".base_layer")
                layer = modules[owner]
                if leaf == getattr(layer, "parameter_name", "weight") and not layer.disable_adapters:
                    for adapter in layer.active_adapters:
                        if adapter in layer.lora_A or adapter in getattr(layer, "lora_embedding_A", ()):
                            value = value + layer.get_delta_weight(adapter).to(value.dtype)
            weights[owner + dot + leaf] = value.detach()
    return weights


def digest(weights: Weights) -> str:
    """Return a content hash of weights."""
    import hashlib

    import torch

    state = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name].detach().cpu().contiguous()
        state.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        state.update(value.flatten().view(torch.uint8).numpy().data)
    return state.hexdigest()[:16]
