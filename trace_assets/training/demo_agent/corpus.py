"""Demonstrations as batches of tokens, endless and resumable at any pool."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trace_assets.targets.embedded.demonstrations import demonstrations
from trace_assets.training.demo_agent.tokenizer import GENERATION_PROMPT, render

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from trace_assets.targets.embedded.generator import DeskName


BATCH = 16
POOL_BATCHES = 40
"""Batches in a pool: within one, demonstrations of like length share a batch."""


@dataclass
class Batch:
    """Demonstrations of like length, padded on the right: causal attention never looks at the padding.

    Attributes:
        ids: (batch, length) token ids.
        learn: (batch, length) true where the token is the assistant's own.
    """

    ids: torch.Tensor
    learn: torch.Tensor


def corpus_texts(seed: int, count: int) -> Iterator[str]:
    """Render some demonstrations, for the tokenizer to take its pieces from: desk `a` has every word."""
    for demonstration in demonstrations(seed, -1, count):
        yield "".join(render(message) for message in demonstration.messages)


def own_tokens(ids: list[int], tokenizer: PreTrainedTokenizerBase) -> list[bool]:
    """Tell which tokens of a rendered conversation are the assistant's own, end-of-turn tokens included."""
    start, role = tokenizer.encode(GENERATION_PROMPT)
    end = tokenizer.eos_token_id
    own, result, before = False, [], -1
    for token in ids:
        result.append(own)
        own = (own and token != end) or (before == start and token == role)
        before = token
    return result


def batches(
    seed: int, pool: int, tokenizer: PreTrainedTokenizerBase, desk: DeskName = "a", hints: bool = False
) -> list[Batch]:
    """Return the batches of one pool, in a shuffled order that seed and pool decide."""
    texts = [
        "".join(render(message) for message in item.messages)
        for item in demonstrations(seed, pool, BATCH * POOL_BATCHES, desk, hints)
    ]
    rows = [(ids, own_tokens(ids, tokenizer)) for ids in tokenizer(texts)["input_ids"]]
    rows.sort(key=lambda row: len(row[0]))
    result = [_pad(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
    random.Random(f"{seed}/{pool}/order").shuffle(result)
    return result


def _pad(rows: list[tuple[list[int], list[bool]]]) -> Batch:
    import torch

    length = max(len(ids) for ids, _ in rows)
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    learn = torch.zeros((len(rows), length), dtype=torch.bool)
    for number, (row, own) in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        learn[number, : len(row)] = torch.tensor(own)
    return Batch(ids=ids, learn=learn)
