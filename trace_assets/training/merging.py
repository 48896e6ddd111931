"""Several adapters merged into one set of weights: the alternative that routing is compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from trace_assets.errors import InputError, require_extra
from trace_assets.store.content import text_version
from trace_assets.training.checkpoints import adapter_id, write_adapter

Merge = Literal["linear", "ties", "dare_linear", "dare_ties"]
"""As PEFT's `add_weighted_adapter` names them: the mean of the factors; trimmed, with signs elected (TIES,
Yadav et al. 2023); dropped at random and rescaled (DARE, Yu et al. 2024) before either."""
WEIGHTS: Mapping[Merge, Literal["mean", "sum"]] = {
    "linear": "mean",
    "dare_linear": "mean",
    "ties": "sum",
    "dare_ties": "sum",
}
"""What each adapter weighs: 1 / n, or 1 where the method itself takes a mean over those that agree."""


def merge_adapters(
    base_dir: Path,
    adapters: Mapping[str, Path],
    method: Merge,
    folder: Path,
    *,
    density: float = 0.5,
    seed: int = 0,
) -> tuple[str, Path]:
    """Merge adapters into one PEFT folder; what was merged before is only looked up.

    Args:
        base_dir: Hugging Face folder of their base model.
        adapters: Name -> PEFT folder, two or more of one rank.
        method: How.
        folder: Holds the merged adapters, one folder each.
        density: Share of the values that `ties` and `dare_*` keep.
        seed: Of what DARE drops.

    Returns:
        The merged adapter's id and its folder.

    Raises:
        InputError: There are fewer than two, or PEFT cannot merge them this way.
        Unavailable: The train extra is missing.
    """
    if len(adapters) < 2:
        raise InputError(f"merging by {method} takes two adapters or more, not {len(adapters)}.")
    ids = [f"{name}={adapter_id(path)}" for name, path in sorted(adapters.items())]
    made = folder / f"{method}-{text_version(method, str(density), str(seed), *ids)}"
    if made.is_dir():
        return adapter_id(made), made
    require_extra("peft", "train", "merging adapters")
    import torch
    from peft import PeftModel

    from trace_assets.policies.lora import load_model

    (first, path), *others = sorted(adapters.items())
    model = PeftModel.from_pretrained(load_model(base_dir), str(path), adapter_name=first)
    for name, path in others:
        model.load_adapter(str(path), adapter_name=name)
    weight = 1.0 / len(adapters) if WEIGHTS[method] == "mean" else 1.0
    extra = {} if method == "linear" else {"density": density}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            model.add_weighted_adapter(
                sorted(adapters), [weight] * len(adapters), "default", combination_type=method, **extra
            )
        except ValueError as error:
            raise InputError(
                f"PEFT cannot merge {', '.join(sorted(adapters))} by {method} ({error}); leave it out of "
                "evaluation.merges."
            ) from error
    for name in sorted(adapters):
        model.delete_adapter(name)
    model.set_adapter("default")
    folder.mkdir(parents=True, exist_ok=True)
    return write_adapter(model, made, _base_of(adapters[first])), made


def _base_of(folder: Path) -> str:
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    return str(config.get("base_model_name_or_path") or "base")
