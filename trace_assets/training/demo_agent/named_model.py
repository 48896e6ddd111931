"""A base model that is not trained here: what the records say of it."""

from __future__ import annotations

from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.records import BaseCheckpoint
from trace_assets.store.content import folder_version, text_version


def describe_model(path: str) -> BaseCheckpoint:
    """Describe a Hugging Face folder or a model on the hub. Its weights are not loaded.

    Args:
        path: Folder, or hub name such as `Qwen/Qwen3-0.6B`.

    Returns:
        The record: identity from the folder's content, or from hub name and commit; no pass rate.

    Raises:
        InputError: There is no such model, or it is no causal language model.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from trace_assets.training.demo_agent.tokenizer import load_tokenizer

    try:
        config = AutoConfig.from_pretrained(path)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError) as error:
        raise InputError(
            f"base_model.path '{path}' is no causal language model that can be loaded: {error}; name a "
            "Hugging Face folder or hub name."
        ) from error
    load_tokenizer(path)
    folder = Path(path)
    commit = getattr(config, "_commit_hash", None)
    return BaseCheckpoint(
        base_id=folder_version(folder) if folder.is_dir() else text_version(path, commit or ""),
        path=path,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        steps=0,
        pass_rate=None,
        pass_rate_low=None,
        pass_rate_high=None,
        n=0,
    )
