from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")

from trace_assets.policies.transformers_engine import TransformersPolicy  # noqa: E402
from trace_assets.settings import Training  # noqa: E402
from trace_assets.training.checkpoints import lora_config, write_adapter  # noqa: E402
from trace_assets.training.validation import Parity, adapter_parity  # noqa: E402

pytestmark = pytest.mark.train


def adapter(base: Path, folder: Path, strength: float, seed: int = 0) -> Path:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora_config(Training()))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(0, strength)
    write_adapter(model, folder, "base")
    return folder


def compare(words: ModuleType, base: Path, said: Path, served: Path | None) -> Parity:
    target = words.WordTarget()
    adapters = {"a": served} if served else {}
    policy = TransformersPolicy(base, adapters=adapters, max_new_tokens=3)
    name = "a" if served else None
    return adapter_parity(
        target, target.tasks("validation"), policy, name, base_dir=base, folder=said, max_turns=2
    )


def test_the_adapter_that_is_served_is_the_one_that_was_trained(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    folder = adapter(base, tmp_path / "a", 0.3)
    parity = compare(words, base, folder, folder)
    assert parity.problem is None
    assert parity.max_difference < 1e-4
    assert parity.effect > 0.1
    assert parity.tokens >= parity.episodes == 50


def test_an_engine_that_leaves_the_adapter_out_is_caught(
    words: ModuleType, base: Path, tmp_path: Path
) -> None:
    parity = compare(words, base, adapter(base, tmp_path / "a", 0.3), None)
    assert parity.problem is not None and "without the adapter" in parity.problem


def test_an_engine_with_other_weights_is_caught(words: ModuleType, base: Path, tmp_path: Path) -> None:
    one, other = adapter(base, tmp_path / "a", 0.3), adapter(base, tmp_path / "b", 0.3, seed=1)
    parity = compare(words, base, one, other)
    assert parity.problem is not None and "other weights" in parity.problem


def test_an_adapter_that_does_nothing_is_caught(words: ModuleType, base: Path, tmp_path: Path) -> None:
    folder = adapter(base, tmp_path / "a", 0.0)
    parity = compare(words, base, folder, folder)
    assert parity.effect == 0
    assert parity.problem is not None and "does nothing" in parity.problem
