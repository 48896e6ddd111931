"""A LoRA adapter as a folder: ordinary PEFT files, written whole or not at all, named by their content."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trace_assets.errors import InputError
from trace_assets.settings import Training
from trace_assets.store.home import replace_folder

if TYPE_CHECKING:
    from peft import LoraConfig

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files that decide what the adapter does, as PEFT and vLLM read them."""


def lora_config(section: Training) -> LoraConfig:
    """Return the LoRA that the settings ask for: every linear layer, no dropout, B = 0 at the start."""
    from peft import LoraConfig

    return LoraConfig(
        r=section.lora_rank,
        lora_alpha=section.lora_alpha,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def lora_tensors(model: Any) -> dict[str, Any]:
    """Return a model's LoRA by the model's own names, whole and in the host's memory.

    Of a model that is divided among processes every process must ask: each holds a part.

    Args:
        model: A `PeftModel`.
    """
    from trace_assets.training.shards import whole

    return {
        name: whole(value.detach()).cpu() for name, value in model.state_dict().items() if "lora_" in name
    }


def lora_state(model: Any) -> dict[str, Any]:
    """Return what `lora_tensors` does, by PEFT's names: as in an adapter's file, and for `load_lora`."""
    from peft import get_peft_model_state_dict

    found = get_peft_model_state_dict(model, state_dict=lora_tensors(model), save_embedding_layers=False)
    return {name: value.contiguous() for name, value in found.items()}


def load_lora(model: Any, weights: dict[str, Any]) -> None:
    """Put weights, as `lora_state` returns them, into a LoRA; each process its part of a divided one."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict

    from trace_assets.training.shards import part_of

    present = get_peft_model_state_dict(model, save_embedding_layers=False)
    set_peft_model_state_dict(model, {name: part_of(value, present[name]) for name, value in weights.items()})


def write_adapter(model: Any, folder: Path, base_name: str, tensors: dict[str, Any] | None = None) -> str:
    """Write the active LoRA of a PEFT model, replacing the folder in one step.

    PEFT's own configuration names the local folder of the base model and lists layers in the order of a set:
    both are made the same on every machine, so that equal weights have equal names.

    Args:
        model: A `PeftModel`.
        folder: Where the adapter shall be.
        base_name: Name of the base model to write into the configuration.
        tensors: What `lora_tensors` has returned where the model is divided among processes, of which one
            writes; None asks the model.

    Returns:
        The adapter's id, as `adapter_id` gives it.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model.save_pretrained(str(partial), save_embedding_layers=False, state_dict=tensors)
    for path in partial.iterdir():
        if path.name not in (CONFIG, WEIGHTS):
            path.unlink()
    config = json.loads((partial / CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = base_name
    # Every linear layer was asked for, so the layers' last names say it all, as in adapters found elsewhere.
    config["target_modules"] = sorted({layer.rpartition(".")[2] for layer in config["target_modules"]})
    if config.get("target_parameters"):  # the experts of a mixture, which are no modules of their own
        config["target_parameters"] = sorted(config["target_parameters"])
    (partial / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    replace_folder(partial, folder)
    return adapter_id(folder)


def adapts_experts(folder: Path) -> bool:
    """Say whether an adapter moves a mixture's experts, which PEFT writes as one matrix a layer.

    vLLM expects a matrix an expert unless it is told.
    """
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return bool(config.get("target_parameters"))


def adapter_id(folder: Path) -> str:
    """Return the content hash of an adapter: 16 hexadecimal digits over its configuration and weights.

    Raises:
        InputError: The folder is not a PEFT adapter.
    """
    digest = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        path = folder / name
        if not path.is_file():
            raise InputError(f"{folder} is not a PEFT adapter: it has no {name}; train it again.")
        digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
