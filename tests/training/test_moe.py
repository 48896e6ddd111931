"""LoRA on a mixture of experts: what is trained is what acts, and what is written is what is read."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from trace_assets.policies.lora import merge_folder, merge_live  # noqa: E402
from trace_assets.settings import Training  # noqa: E402
from trace_assets.training.checkpoints import lora_config, write_adapter  # noqa: E402

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def models() -> tuple[Any, Any]:
    """A mixture of four experts, and the same with a LoRA that moves it."""
    import copy

    from peft import get_peft_model
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=64,
        moe_intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
        mlp_only_layers=[],
    )
    plain = Qwen3MoeForCausalLM(config).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(copy.deepcopy(plain), lora_config(Training(lora_rank=4))).eval()
    with torch.no_grad():
        for name, value in adapted.named_parameters():
            if ".lora_" in name:
                value.normal_(0, 0.1)
    return plain, adapted


def logits(model: Any, weights: dict[str, Any] | None = None) -> Any:
    ids = torch.arange(18).reshape(2, 9)
    with torch.no_grad():
        if weights is None:
            return model(ids).logits
        return torch.func.functional_call(model, weights, (ids,)).logits


def test_experts_and_router_are_among_what_is_trained(models: tuple[Any, Any]) -> None:
    trained = {name for name, value in models[1].named_parameters() if value.requires_grad}
    assert any(".experts." in name for name in trained)
    assert any(".gate." in name for name in trained)
    assert any(".q_proj." in name for name in trained)


def test_the_engine_acts_with_the_experts_that_are_trained(models: tuple[Any, Any]) -> None:
    plain, adapted = models
    weights = dict(merge_live(adapted))
    assert set(weights) == set(plain.state_dict())
    assert (logits(plain) - logits(adapted)).abs().max() > 0.05
    assert torch.allclose(logits(plain, weights), logits(adapted), atol=1e-5)
    experts = [name for name in weights if ".experts." in name]
    without = {**weights, **{name: plain.state_dict()[name] for name in experts}}
    assert (logits(plain, without) - logits(adapted)).abs().max() > 1e-3, "the test would not see the experts"


def test_a_written_mixture_is_the_one_that_was_trained(models: tuple[Any, Any], tmp_path: Path) -> None:
    plain, adapted = models
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        identity = write_adapter(adapted, tmp_path / "adapter", "base")
        assert identity == write_adapter(adapted, tmp_path / "again", "base")
        weights = dict(merge_folder(plain, tmp_path / "adapter"))
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert config["target_parameters"] == sorted(config["target_parameters"])
    assert torch.allclose(logits(plain, weights), logits(adapted), atol=1e-5)
