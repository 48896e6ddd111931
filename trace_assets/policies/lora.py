"""Weights with an adapter merged in: W + scale * B A, from a PEFT folder or from a model in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_assets.errors import InputError, require_extra
from trace_assets.policies.token_policy import give_back

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Weights = Mapping[str, "torch.Tensor"]
"""State of a plain Hugging Face model, by parameter name."""


def load_model(folder: Path, dtype: str = "float32", device: str = "cpu") -> PreTrainedModel:
    """Load a causal language model for reading.

    Args:
        folder: The model.
        dtype: `float32`, `bfloat16`...; `auto` is float32 on a CPU and the model's own on a GPU.
        device: Where it shall be.

    Raises:
        Unavailable: torch or transformers are not installed.
        InputError: The folder holds no model.
    """
    require_extra("torch", "train", "Running a model here")
    require_extra("transformers", "train", "Running a model here")
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    wanted: Any = "float32" if dtype == "auto" and device == "cpu" else dtype
    if wanted != "auto" and not isinstance(wanted := getattr(torch, wanted, None), torch.dtype):
        raise InputError(f"'{dtype}' is no precision to compute in: take float32, bfloat16 or auto.")
    logging.disable_progress_bar()  # a bar for reading a file would draw over ours
    give_back()
    try:
        model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=wanted)
    except (OSError, ValueError) as error:
        raise InputError(f"no model can be loaded from '{folder}': {error}.") from error
    return model.eval().to(device)


def merge_folder(model: PreTrainedModel, folder: Path) -> Merged:
    """Return the model's weights with a stored adapter merged in; the model stays as it is.

    Raises:
        InputError: The folder holds no PEFT adapter, or one of another model.
    """
    import copy

    from peft import PeftModel

    if not (Path(folder) / "adapter_config.json").is_file():
        raise InputError(f"there is no adapter in '{folder}': adapter_config.json is missing.")
    # Other modules around the same weights: PEFT puts its layers between modules and changes no weight.
    shell = copy.deepcopy(model, {id(value): value for value in model.parameters()})
    try:
        return Merged(PeftModel.from_pretrained(shell, str(folder)))
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"the adapter in '{folder}' does not fit the base model: {error}.") from error


def merge_live(model: Any) -> Merged:
    """Return the weights of a model in training, its active LoRA adapters merged in.

    The model is only read.

    Args:
        model: A PEFT model, or a plain Hugging Face model.
    """
    return Merged(model)


class Merged(Mapping[str, "torch.Tensor"]):
    """Weights by name, each merged when it is asked for and not kept: a large model is never there twice.

    The sum is made in fp32 and rounded once, to the weight's precision. Costs one small matrix product for
    an adapted layer.

    Args:
        model: A PEFT model, or a plain one.
    """

    def __init__(self, model: Any) -> None:
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        modules = dict(plain.named_modules())
        self._parts: dict[str, tuple[torch.Tensor, list[Any]]] = {}
        for name, value in plain.state_dict().items():
            if ".lora_" in name:
                continue
            owner, dot, leaf = name.rpartition(".")
            layers = []
            # Experts are parameters of one module, which PEFT wraps once for each: wrappers in wrappers.
            while owner.endswith(".base_layer"):
                owner = owner.removesuffix(".base_layer")
                layer = modules[owner]
                if leaf == getattr(layer, "parameter_name", "weight") and not layer.disable_adapters:
                    layers.append(layer)
            self._parts[owner + dot + leaf] = value, layers

    def __getitem__(self, name: str) -> torch.Tensor:
        import torch

        value, layers = self._parts[name]
        with torch.no_grad():
            total = None
            for layer in layers:
                for adapter in layer.active_adapters:
                    if adapter in layer.lora_A or adapter in getattr(layer, "lora_embedding_A", ()):
                        total = value.float() if total is None else total
                        total = total + layer.get_delta_weight(adapter).float()
            return value.detach() if total is None else total.to(value.dtype)

    def digest(self) -> str:
        """Return a content hash of the present adapter, or of all weights where there is none.

        Names, scales and factors: they say what is added to the base model, and are a hundredth of it.
        """
        state: dict[str, torch.Tensor] = {}
        for name, (_, layers) in self._parts.items():
            for layer in layers:
                for adapter in layer.active_adapters:
                    for factor, value in layer.state_dict().items():
                        if f".{adapter}." in factor and ".base_layer." not in f".{factor}":
                            state[f"{name}/{layer.scaling.get(adapter)}/{factor}"] = value
        return digest(state or self)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


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
