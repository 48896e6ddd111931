"""The arithmetic is that of the models as the libraries build them, without their weights."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.docs.memory import mixture_table, table
from trace_assets.training.presets import (
    EPISODE_TOKENS,
    GIB,
    SHAPES,
    Shape,
    load_preset,
    server_memory,
    step_memory,
)

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


@pytest.mark.train
@pytest.mark.parametrize(("name", "rank"), [("qwen3-0.6b", 8), ("qwen3-4b", 16), ("qwen3-30b-a3b", 32)])
def test_shapes_have_the_weights_that_transformers_and_peft_make(name: str, rank: int) -> None:
    torch = pytest.importorskip("torch")
    peft = pytest.importorskip("peft")
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _model(SHAPES[name])
        assert sum(value.numel() for value in model.parameters()) == SHAPES[name].parameters
        lora = peft.LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM")
        adapted = peft.get_peft_model(model, lora)
    trained = sum(value.numel() for value in adapted.parameters() if value.requires_grad)
    assert trained == SHAPES[name].adapter(rank)


def _model(shape: Shape) -> Any:
    import transformers

    common: dict[str, Any] = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "tie_word_embeddings": shape.tied,
    }
    if not shape.experts:
        return transformers.Qwen3ForCausalLM(
            transformers.Qwen3Config(intermediate_size=shape.inner, **common)
        )
    config = transformers.Qwen3MoeConfig(
        moe_intermediate_size=shape.inner,
        num_experts=shape.experts,
        num_experts_per_tok=shape.active,
        mlp_only_layers=[],
        **common,
    )
    return transformers.Qwen3MoeForCausalLM(config)


def test_the_preset_for_one_device_fits_one_and_the_mixture_does_not() -> None:
    section = load_preset("qwen3-4b-1gpu")
    assert step_memory(SHAPES["qwen3-4b"], section, EPISODE_TOKENS).total < 80 * GIB
    assert step_memory(SHAPES["qwen3-30b-a3b"], section, EPISODE_TOKENS).total > 80 * GIB


def test_the_preset_for_eight_devices_fits_them_and_not_undivided() -> None:
    section, shape = load_preset("qwen3-30b-a3b-8gpu"), SHAPES["qwen3-30b-a3b"]
    assert step_memory(shape, section, EPISODE_TOKENS).total < 0.9 * 80 * GIB
    assert server_memory(shape, section, EPISODE_TOKENS, 4).total < 0.9 * 80 * GIB
    whole = section.model_copy(update={"shard": False})
    assert step_memory(shape, whole, EPISODE_TOKENS).total > 0.9 * 80 * GIB


def test_what_is_divided_is_held_once_by_all_together() -> None:
    section, shape = load_preset("qwen3-30b-a3b-8gpu"), SHAPES["qwen3-30b-a3b"]
    divided = step_memory(shape, section, EPISODE_TOKENS)
    whole = step_memory(shape, section.model_copy(update={"shard": False}), EPISODE_TOKENS)
    assert section.processes * divided.weights == whole.weights
    assert section.processes * divided.adapter == whole.adapter
    assert divided.activations == whole.activations
    assert (divided.engine, divided.cache, whole.gathered) == (0, 0, 0)
    assert divided.gathered > 2 * whole.weights / shape.layers, "two layers, and what is in none"


def test_the_arithmetic_is_within_a_hundredth_of_what_a_device_took() -> None:
    """The peaks of `make gpu`, docs/gpu.md: tensors of a step on an H200."""
    dense = load_preset("qwen3-4b-1gpu", sampler="server")
    assert step_memory(SHAPES["qwen3-4b"], dense, 8192).total / GIB == pytest.approx(14.81, rel=0.01)
    mixture = dense.model_copy(update={"micro_batch": 1})
    assert step_memory(SHAPES["qwen3-30b-a3b"], mixture, 2048).total / GIB == pytest.approx(74.12, rel=0.01)


def test_checkpointing_and_smaller_batches_save_activations() -> None:
    section, shape = load_preset("qwen3-4b-1gpu"), SHAPES["qwen3-4b"]

    def activations(**changes: Any) -> int:
        return step_memory(shape, section.model_copy(update=changes), EPISODE_TOKENS).activations

    assert activations(gradient_checkpointing=False) > activations()
    assert activations(micro_batch=4) == pytest.approx(4 * activations(micro_batch=1), rel=0.1)
    assert activations(micro_batch=4) < 4 * activations(micro_batch=1), "a tile of the logits does not grow"


def test_the_page_shows_the_arithmetic() -> None:
    for name, made in (("memory", table()), ("mixture", mixture_table())):
        shown = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", PAGE.read_text(encoding="utf-8"), re.S)
        assert shown is not None and shown.group(1) == made, (
            "docs/training.md has other figures than `python -m trace_assets.training.presets` prints"
        )
