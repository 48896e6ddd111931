"""What the trainer says of tokens that a sampler wrote, and how far the two lie apart."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.gpu.results import Asked

Scores = list[float]
MOST_KL = 0.01
"""Nats a token: what the monitors of a training allow."""


def trainers_model(folder: Path, adapter: Path, dtype: str, device: str) -> Any:
    """Return the model as the trainer holds it: weights in the precision, LoRA in fp32."""
    from peft import PeftModel

    from trace_assets.policies.lora import load_model

    return PeftModel.from_pretrained(load_model(folder, dtype, device), str(adapter)).eval()


def score(model: Any, traces: list[Any], dtype: str) -> tuple[Scores, list[bool]]:
    """Return the log-probability of every token that the policy wrote, and whether it is the likeliest."""
    import torch

    scores: Scores = []
    likeliest: list[bool] = []
    half = torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=dtype == "bfloat16")
    with torch.inference_mode(), half:
        for trace in traces:
            ids = torch.tensor([trace.ids], device=model.device)
            own = torch.tensor(trace.mask[1:], device=model.device, dtype=torch.bool)
            logits = model(input_ids=ids).logits[0, :-1][own].float()
            chosen = ids[0, 1:][own].unsqueeze(1)
            scores += logits.log_softmax(-1).gather(1, chosen)[:, 0].tolist()
            likeliest += (logits.argmax(-1, keepdim=True) == chosen)[:, 0].tolist()
    return scores, likeliest


def tell(asked: Asked, what: str, sampled: Scores, trained: Scores, judged: bool = True) -> None:
    pairs = list(zip(sampled, trained, strict=True))
    differences = [abs(a - b) for a, b in pairs]
    kl = fmean(math.expm1(b - a) - (b - a) for a, b in pairs)
    largest, mean = max(differences), fmean(differences)
    note = f"largest difference {largest:.2g} nats, mean {mean:.2g}, {len(pairs):,} tokens"
    asked.row(f"{what}: KL", kl, "nats a token", note)
    if judged and not kl < MOST_KL:
        asked.row(f"{what}: above what the monitors allow", True, note=f"{MOST_KL:g} nats a token")
    if judged and "float32" in what and not max(differences) < 5e-3:
        raise RuntimeError(f"{what}: one token differs by {max(differences):.3g} nats in float32")
