"""The paper's router: the base model names the adapter itself, by the logits of one label token.

The model reads the task and one line per capability plus "none", and the answer is a single constrained
token: the log-probabilities of the label tokens alone decide. It asks nothing of training data, and
everything of the base model: a model that cannot follow such a question gives one constant answer.
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trace_assets.errors import InputError, require_extra
from trace_assets.records import NO_ADAPTER, Capability, CapabilitySpec, Route, Task
from trace_assets.routing.logistic import softmax
from trace_assets.routing.router import all_choices, opening, to_routes
from trace_assets.store.content import text_version
from trace_assets.system.progress import progress

NAME = "label_logits"

LABELS = string.ascii_uppercase + string.digits
"""Label tokens in the order in which the choices take them."""

_LINE = 240
_QUESTION = (
    "A customer's request is quoted below. Some specialists each have one extra skill.\n"
    "Which one skill does the request need most? If none of them is needed, say so.\n"
)


def option_lines(capabilities: Sequence[CapabilitySpec | Capability]) -> dict[str, str]:
    """Return choice -> the one line that describes it, `none` last."""
    lines = {
        item.capability_id: " ".join(f"{item.name}: {item.description}".split())[:_LINE]
        for item in capabilities
    }
    return {**lines, NO_ADAPTER: "none of these skills is needed"}


def label_prompt(text: str, options: Mapping[str, str]) -> str:
    """Return the question that is put to the model as one user message.

    Args:
        text: First user message of the task.
        options: Choice -> its line, in label order.

    >>> print(label_prompt("Cancel K1.", {"cancel": "look first", "none": "no skill"}).splitlines()[-3])
    A) look first
    """
    lines = [f"{label}) {line}" for label, line in zip(LABELS, options.values(), strict=False)]
    return f"{_QUESTION}\nRequest: {text}\n\n" + "\n".join(lines) + "\nAnswer with one letter only."


def label_tokens(tokenizer: Any, n: int) -> list[int]:
    """Return the token ids of the first `n` labels.

    Raises:
        InputError: There are more choices than labels, or a label is not one token of this tokenizer.
    """
    if n > len(LABELS):
        raise InputError(f"label-logit routing tells at most {len(LABELS)} choices apart, not {n}.")
    tokens: list[int] = []
    for label in LABELS[:n]:
        ids = tokenizer(label, add_special_tokens=False)["input_ids"]
        if len(ids) != 1 or ids[0] in tokens:
            raise InputError(
                f"label '{label}' is not one token of its own in this tokenizer, "
                "so label-logit routing cannot be used: set routing.router=classifier."
            )
        tokens.append(int(ids[0]))
    return tokens


class LabelLogitRouter:
    """Routes by the base model's own answer; nothing is fitted or calibrated."""

    def __init__(self, base_dir: Path, options: Mapping[str, str], *, batch_size: int = 16) -> None:
        """Prepare a router; weights are read at the first question.

        Args:
            base_dir: Hugging Face folder of the base model.
            options: Choice -> its line, as from `option_lines`.
            batch_size: Tasks a forward pass.

        Raises:
            InputError: The folder has no usable tokenizer, or not enough single-token labels.
        """
        self.base_dir = base_dir
        self.choices = all_choices(list(options))
        self.options = {name: options.get(name, NO_ADAPTER) for name in self.choices}
        self.tokenizer = load_tokenizer(base_dir)
        self.tokens = label_tokens(self.tokenizer, len(self.choices))
        self.batch_size = batch_size
        self._model: Any = None

    @property
    def name(self) -> str:
        """`label_logits`."""
        return NAME

    @property
    def version(self) -> str:
        """Content hash of the model, the question and the options."""
        return text_version(base_fingerprint(self.base_dir), _QUESTION, json.dumps(self.options))

    def log_probabilities(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the log-probability of each label token as the next token, over the whole vocabulary.

        Args:
            texts: First user messages.

        Returns:
            Shape (len(texts), number of choices).

        Raises:
            InputError: A question is longer than the model's context.
        """
        import torch

        if self._model is None and texts:
            self._model = load_model(self.base_dir, head=True)
        out = np.zeros((len(texts), len(self.choices)))
        with progress("asking the base model", len(texts)) as bar, torch.inference_mode():
            for start in range(0, len(texts), self.batch_size):
                rows = [self._ids(text) for text in texts[start : start + self.batch_size]]
                longest = max(len(row) for row in rows)
                tokens = torch.zeros((len(rows), longest), dtype=torch.long)
                mask = torch.zeros_like(tokens)
                for number, row in enumerate(rows):
                    # Left-padded, so that every row's answer comes at the last position.
                    tokens[number, longest - len(row) :] = torch.tensor(row)
                    mask[number, longest - len(row) :] = 1
                positions = (mask.cumsum(1) - 1).clamp(min=0)
                device = self._model.device
                logits = self._model(
                    input_ids=tokens.to(device),
                    attention_mask=mask.to(device),
                    position_ids=positions.to(device),
                    logits_to_keep=1,
                    use_cache=False,
                ).logits[:, -1]
                scores = torch.log_softmax(logits.float(), dim=-1)[:, self.tokens]
                out[start : start + len(rows)] = scores.cpu().numpy()
                bar.advance(len(rows))
        return out

    def _ids(self, text: str) -> list[int]:
        ids = chat_ids(self.tokenizer, label_prompt(text, self.options))
        limit = getattr(self._model.config, "max_position_embeddings", None)
        if limit and len(ids) > int(limit):
            raise InputError(
                f"the routing question has {len(ids)} tokens and the model's context {limit}: "
                "shorten the capabilities' descriptions or set routing.router=classifier."
            )
        return ids

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """Return for each text the label tokens' probabilities, normalized among themselves."""
        if not texts:
            return []
        rows = softmax(self.log_probabilities(texts))
        return [dict(zip(self.choices, map(float, row), strict=True)) for row in rows]

    def route(self, tasks: Sequence[Task]) -> list[Route]:
        """Return one route for each task, in order.

        Raises:
            InputError: A task has no text, or a question is longer than the model's context.
        """
        rows = self.probabilities([opening(task) for task in tasks])
        return to_routes(NAME, [task.task_id for task in tasks], rows)


# A text as the base model sees it: pooled hidden states of the first user message.


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
