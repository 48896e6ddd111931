"""What a training step takes at the presets' lengths, beside the arithmetic of `training/presets.py`.

A step of the product's trainer on rows of a given length, without a sampler: a dense model with the settings
of its preset, and a mixture of experts of the size that TRACE trains, LoRA on its experts included.
"""

from __future__ import annotations

import gc
import random
import time
import warnings
from pathlib import Path
from typing import Any

from tests.gpu.results import Asked
from tests.gpu.shapes import adapted, make_model, shape_of, tokenizer
from tests.gpu.watch import peak, reset_peak, settle
from trace_assets.settings import Training
from trace_assets.training.presets import GIB, Shape, load_preset, step_memory

PRESET_TOKENS = 8192
"""Of the longest episode in the tables of docs/training.md."""


def run(asked: Asked) -> None:
    """Take a step with each model; the mixture's experts are looked at one by one first."""
    common: dict[str, Any] = {"bf16": True, "gradient_checkpointing": True, "lora_rank": 16, "lora_alpha": 16}
    with asked.trying("experts"):
        _experts(asked, common)
    cases = (
        ("qwen3-4b", 30, load_preset("qwen3-4b-1gpu", sampler="server"), PRESET_TOKENS),
        ("qwen3-30b-a3b", 70, Training(**common, micro_batch=1, sampler="server"), PRESET_TOKENS),
        ("qwen3-30b-a3b", 30, Training(**common, micro_batch=1, sampler="server"), PRESET_TOKENS // 4),
    )
    for name, seconds, section, tokens in cases:
        what = f"{name}, {section.micro_batch} x {tokens:,} tokens"
        if asked.enough(seconds, what):
            with asked.trying(what):
                _step(asked, name, section, 64 if asked.rehearse else tokens)
        gc.collect()
        if asked.device == "cuda":
            import torch

            torch.cuda.empty_cache()


def _step(asked: Asked, name: str, section: Training, tokens: int) -> None:
    """Make two training steps on random rows, and compare the second one's memory with the arithmetic."""
    import torch

    shape = shape_of(asked, name)
    rows = 2 * section.micro_batch
    own = section.model_copy(
        update={
            "tasks_per_iteration": 1,
            "group_size": rows,
            "iterations": 2,
            "processes": 1,
            "save_every": 99,
        }
    )
    began = time.perf_counter()
    model = make_model(shape, asked.device, torch.bfloat16)
    made = time.perf_counter() - began
    trainer = _trainer(asked, model, own, shape, tokens)
    del model
    settle()
    resident = torch.cuda.memory_allocated() if asked.device == "cuda" else 0
    times: list[float] = []
    step = trainer.training_step

    def timed(*arguments: Any) -> Any:
        settle()
        start = time.perf_counter()
        loss = step(*arguments)
        settle()
        times.append(time.perf_counter() - start)
        return loss

    trainer.training_step = timed
    reset_peak()
    trainer.train()
    settle()
    highest = peak()
    what = f"{name}, {section.micro_batch} x {tokens:,} tokens"
    expected = step_memory(shape, section, tokens)
    asked.row(
        f"{what}: a forward and backward pass", min(times), "s",
        f"{section.micro_batch * tokens / min(times):,.0f} tokens/s; made in {made:.0f} s",
    )  # fmt: skip
    losses = [log["loss"] for log in trainer.state.log_history if "loss" in log]
    norms = [log["grad_norm"] for log in trainer.state.log_history if "grad_norm" in log]
    finite = all(abs(value) < float("inf") for value in (*losses, *norms))
    asked.row(f"{what}: loss and gradient are numbers", finite, note=f"gradient norm {norms[-1]:.3g}")
    if not finite:
        raise RuntimeError(f"loss {losses}, gradient norm {norms}")
    if asked.device == "cuda":
        weights = expected.weights + expected.adapter // 4
        asked.row(
            f"{what}: model and adapter", resident / GIB, "GiB",
            f"arithmetic {weights / GIB:.1f}: weights {expected.weights / GIB:.1f} in bf16, LoRA in fp32",
        )  # fmt: skip
        asked.row(
            f"{what}: peak of a step", highest / GIB, "GiB",
            f"arithmetic {expected.total / GIB:.1f}: weights {expected.weights / GIB:.1f}, adapter, gradient "
            f"and moments {expected.adapter / GIB:.1f}, activations {expected.activations / GIB:.1f}",
        )  # fmt: skip
        asked.row(f"{what}: reserved by the allocator", torch.cuda.max_memory_reserved() / GIB, "GiB")
        torch.cuda.reset_peak_memory_stats()


def _trainer(asked: Asked, model: Any, section: Training, shape: Shape, tokens: int) -> Any:
    """Return the product's trainer around a model, fed with rows of one length."""
    import tempfile

    from datasets import Dataset
    from transformers.trainer_utils import SaveStrategy

    from trace_assets.training.checkpoints import lora_config
    from trace_assets.training.plan import Plan
    from trace_assets.training.trainer import LiveRowTrainer, grpo_config

    batch = section.tasks_per_iteration * section.group_size
    plan = Plan(
        iterations=section.iterations,
        tasks_per_iteration=section.tasks_per_iteration,
        group_size=section.group_size,
        schedule=(),
    )
    rng = random.Random(0)
    prompt = tokens // 8

    def rows(prompts: Any, trainer: Any) -> dict[str, list[Any]]:
        drawn = [[rng.randrange(shape.vocabulary) for _ in range(tokens)] for _ in range(batch)]
        return {
            "prompt_ids": [row[:prompt] for row in drawn],
            "completion_ids": [row[prompt:] for row in drawn],
            "logprobs": [[-1.0] * (tokens - prompt) for _ in drawn],
            "env_mask": [[place % 4 == 0 for place in range(tokens - prompt)] for _ in drawn],
            "episode_reward": [float(number % 2) for number in range(batch)],
        }

    def reward(episode_reward: list[float], **_: Any) -> list[float]:
        return episode_reward

    config = grpo_config(section, plan, Path(tempfile.mkdtemp(dir=asked.scratch)))
    config.save_strategy = SaveStrategy.NO  # a checkpoint of the mixture's adapter has 12 GB
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LiveRowTrainer(
            on_log=lambda logs: None,
            warmup=0,
            model=model,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [str(index) for index in range(section.iterations)]}),
            processing_class=tokenizer(),
            peft_config=lora_config(section),
            rollout_func=rows,
        )


def _experts(asked: Asked, common: dict[str, Any]) -> None:
    """Two layers of the mixture: who is routed to learns, and merged weights say what unmerged ones do."""
    from dataclasses import replace

    import torch

    from trace_assets.policies.lora import merge_live

    shape = shape_of(asked, "qwen3-30b-a3b")
    shape = replace(shape, layers=2, vocabulary=min(shape.vocabulary, 4096))
    section = Training(**common)
    model = adapted(make_model(shape, asked.device, torch.bfloat16), section, 0.02).eval()
    routed: list[set[int]] = []

    def note(module: Any, arguments: Any, keywords: Any) -> None:
        given = [*arguments, *keywords.values()]
        index = next(
            value for value in given if isinstance(value, torch.Tensor) and not value.is_floating_point()
        )
        # The last token has no loss: an expert that is routed to by it alone learns nothing.
        routed.append(set(index.reshape(-1, index.shape[-1])[:-1].flatten().tolist()))

    layers = model.get_base_model().model.layers
    hooks = [layer.mlp.experts.register_forward_pre_hook(note, with_kwargs=True) for layer in layers]
    ids = torch.randint(0, shape.vocabulary, (1, 24), device=asked.device)
    with torch.autocast(asked.device, dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    for hook in hooks:
        hook.remove()
    asked.row(
        "experts: loss of the mixture is a number", bool(torch.isfinite(loss)), note=f"{loss.item():.2f}"
    )
    wrong, counted = 0, 0
    for number, layer in enumerate(layers):
        reached = _experts_with_gradient(layer.mlp.experts, shape.experts)
        for name, found in reached.items():
            counted += len(routed[number])
            wrong += len(found ^ routed[number])
            asked.row(
                f"experts: layer {number}, {name}: experts with a gradient", len(found),
                note=f"{len(routed[number])} of {shape.experts} were routed to",
            )  # fmt: skip
    if wrong or not counted:
        raise RuntimeError(f"{wrong} experts have a gradient and were not routed to, or the other way round")
    for dtype in ("bfloat16", "float32"):
        precision = getattr(torch, dtype)
        exact = model if dtype == "bfloat16" else model.float()
        half = torch.autocast(asked.device, dtype=torch.bfloat16, enabled=dtype == "bfloat16")
        with torch.inference_mode(), half:
            plain = exact(input_ids=ids).logits.float()
            merged = make_model(shape, asked.device, precision, seed=7)
            merged.load_state_dict(dict(merge_live(exact)))
            apart = (merged(input_ids=ids).logits.float() - plain).abs()
            with exact.disable_adapter():
                effect = (exact(input_ids=ids).logits.float() - plain).abs()
        asked.row(
            f"experts {dtype}: merged and unmerged differ by", float(apart.median()),
            note=f"logits, median; the adapter moves {float(effect.median()):.2g}; largest "
            f"{float(apart.max()):.2g}, where rounding sends a token to another expert",
        )  # fmt: skip
        if dtype == "float32" and not float(apart.median()) < 1e-3 * float(effect.median()):
            raise RuntimeError(f"merged and unmerged differ by {float(apart.median()):.3g} in float32")


def _experts_with_gradient(module: Any, experts: int) -> dict[str, set[int]]:
    """Return the experts whose second factor has a gradient, by the weight that is adapted."""
    found: dict[str, set[int]] = {}
    while hasattr(module, "parameter_name"):  # one wrapper in another
        gradient = module.lora_B["default"].weight.grad
        each = gradient.reshape(gradient.shape[0], -1, experts).abs().amax(dim=(0, 1))
        found[module.parameter_name] = {int(number) for number in each.nonzero()[:, 0]}
        module = module.base_layer
    return found
