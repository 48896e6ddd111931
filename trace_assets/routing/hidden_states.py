"""A text as the base model sees it: pooled hidden states of the first user message."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trace_assets.errors import InputError, require_extra
from trace_assets.progress import progress

POOLING = "mean-embedding+mean-middle+mean-last+end-last"
"""What `HiddenStates.features` concatenates; stored with a router, so that it is never mixed up."""

_SILENT_EXTRA = "train"


def chat_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of a conversation that consists of one user message, up to the model's turn."""
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    # Not verbose: callers deal with what is longer than the context, so no warning of it.
    return list(tokenizer(rendered, add_special_tokens=False, verbose=False)["input_ids"])


def load_tokenizer(base_dir: Path) -> Any:
    """Load the tokenizer of a Hugging Face folder.

    Raises:
        InputError: The folder has no usable tokenizer, or no chat template.
        Unavailable: transformers is not installed.
    """
    require_extra("transformers", _SILENT_EXTRA, "routing")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(base_dir))
    except (OSError, ValueError) as error:
        raise InputError(f"no tokenizer can be loaded from '{base_dir}': {error}") from error
    # A folder without tokenizer files can yield an empty tokenizer without any error.
    if len(tokenizer) == 0 or tokenizer.chat_template is None:
        raise InputError(
            f"'{base_dir}' has {'no chat template' if len(tokenizer) else 'an empty tokenizer'}: "
            "save the model's tokenizer, chat template included, into that folder."
        )
    return tokenizer


def load_model(base_dir: Path, *, head: bool) -> Any:
    """Load a Hugging Face folder for reading, float32 on a CPU, its own precision on a GPU.

    Args:
        base_dir: The folder.
        head: With the language-model head (for logits) or without (for hidden states).

    Raises:
        InputError: The folder is not a model.
        Unavailable: torch or transformers is not installed.
    """
    require_extra("torch", _SILENT_EXTRA, "routing")
    require_extra("transformers", _SILENT_EXTRA, "routing")
    import torch
    from transformers import AutoModel, AutoModelForCausalLM
    from transformers.utils import logging

    # A bar for each shard would be drawn over ours.
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    kind = AutoModelForCausalLM if head else AutoModel
    gpu = torch.cuda.is_available()
    try:
        model = kind.from_pretrained(str(base_dir), dtype="auto" if gpu else torch.float32)
    except (OSError, ValueError) as error:
        raise InputError(f"'{base_dir}' is not a model that transformers can load: {error}") from error
    finally:
        if shown:
            logging.enable_progress_bar()
    return model.eval().to("cuda" if gpu else "cpu")


def base_fingerprint(base_dir: Path) -> str:
    """Return a hash of the weights, configuration, tokenizer and chat template in a model folder.

    Raises:
        InputError: There is no configuration in the folder.
    """
    if not (base_dir / "config.json").is_file():
        raise InputError(f"'{base_dir}' is not a model folder: it holds no config.json.")
    digest = hashlib.sha256()
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    for path in sorted([*(base_dir / name for name in names), *base_dir.glob("*.safetensors")]):
        if path.is_file():
            with path.open("rb") as file:
                digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


class HiddenStates:
    """Reads texts with the base model and pools what it thinks of them.

    The features are the means over tokens of the embeddings, of the middle layer and of the last layer,
    and the last layer at the end of the prompt, where the model is about to answer. The embeddings' mean is
    a bag of words: a small model's upper layers may keep only what it learned to act on.
    """

    def __init__(self, base_dir: Path, *, batch_tokens: int = 4096) -> None:
        """Load the model.

        Args:
            base_dir: Any Hugging Face folder of a causal language model with a chat template.
            batch_tokens: Padded tokens a forward pass at most (one longer text still is a pass).
        """
        self.tokenizer = load_tokenizer(base_dir)
        self.model = load_model(base_dir, head=False)
        self.batch_tokens = batch_tokens
        limit = getattr(self.model.config, "max_position_embeddings", None)
        self.max_tokens = int(limit) if limit else 2048

    def features(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return one row of features a text.

        Args:
            texts: First user messages. Text beyond the model's context is not read.

        Returns:
            Shape (len(texts), 4 x hidden size).
        """
        import torch

        width = 4 * int(self.model.config.hidden_size)
        out = np.zeros((len(texts), width), dtype=np.float32)
        ids = [chat_ids(self.tokenizer, text)[: self.max_tokens] for text in texts]
        with progress("reading tasks", len(texts)) as bar, torch.inference_mode():
            for batch in self._batches([len(row) for row in ids]):
                longest = max(len(ids[index]) for index in batch)
                tokens = torch.zeros((len(batch), longest), dtype=torch.long, device=self.model.device)
                mask = torch.zeros_like(tokens)
                for row, index in enumerate(batch):
                    tokens[row, : len(ids[index])] = torch.tensor(ids[index], device=tokens.device)
                    mask[row, : len(ids[index])] = 1
                states = self.model(
                    input_ids=tokens, attention_mask=mask, output_hidden_states=True, use_cache=False
                ).hidden_states
                weight = (mask / mask.sum(1, keepdim=True)).unsqueeze(-1)
                layers = (states[0], states[len(states) // 2], states[-1])
                parts = [(layer.float() * weight).sum(1) for layer in layers]
                ends = mask.sum(1) - 1
                parts.append(states[-1].float()[torch.arange(len(batch), device=ends.device), ends])
                out[batch] = torch.cat(parts, 1).cpu().numpy()
                bar.advance(len(batch))
        return out

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        batches: list[list[int]] = []
        for index in sorted(range(len(lengths)), key=lambda item: lengths[item]):
            # Sorted by length, so the newest is the longest: it decides the padding.
            if batches and (len(batches[-1]) + 1) * lengths[index] <= self.batch_tokens:
                batches[-1].append(index)
            else:
                batches.append([index])
        return batches
