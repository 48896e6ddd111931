"""What saves memory on large models, tried on a small one: bf16 and gradient checkpointing."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trace_assets.records import Adapter, TrainingPoint

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from trace_assets.training.trainer import LiveRowTrainer  # noqa: E402
from trace_assets.training.validation import readings  # noqa: E402

pytestmark = pytest.mark.train


def train(
    words: ModuleType, base: Path, folder: Path, **changes: Any
) -> tuple[Adapter, list[TrainingPoint], Any]:
    short = {"iterations": 3, "validate_every": 3, "validation_episodes": 10}
    section = words.SECTION.model_copy(update={**short, **changes})
    return (*words.train(base, folder, section=section), section)


def test_bf16_trains_and_stays_within_what_the_monitors_allow(
    words: ModuleType, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[Any] = set()
    step = LiveRowTrainer.training_step

    def look(trainer: Any, model: Any, *rest: Any, **more: Any) -> Any:
        seen.update((value.dtype, value.requires_grad) for value in model.parameters())
        return step(trainer, model, *rest, **more)

    monkeypatch.setattr(LiveRowTrainer, "training_step", look)
    _, points, section = train(words, base, tmp_path / "half", bf16=True, iterations=8, validate_every=4)
    assert seen == {(torch.bfloat16, False), (torch.float32, True)}, "weights in bf16, LoRA in fp32"
    differences = [point.sampler_difference for point in points if point.sampler_difference is not None]
    # Above what fp32 shows: the trainer's arithmetic is another one indeed; the sampler's is fp32.
    assert 1e-4 < max(differences) < 0.2
    assert all(one.sound for one in readings(points, section) if one.name in ("sampler_kl", "outside_clip"))
    assert points[-1].success_rate > points[0].success_rate


@pytest.mark.ci
def test_gradient_checkpointing_changes_memory_and_nothing_else(
    words: ModuleType, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP

    computed: list[bool] = []
    forward = Qwen3MLP.forward

    def counted(layer: Any, states: Any) -> Any:
        computed.append(layer.training)
        return forward(layer, states)

    monkeypatch.setattr(Qwen3MLP, "forward", counted)
    plain, _, _ = train(words, base, tmp_path / "plain")
    once = sum(computed)
    computed.clear()
    spared, points, _ = train(words, base, tmp_path / "spared", gradient_checkpointing=True)
    assert once > 0 and sum(computed) == 2 * once, "nothing was computed anew for the gradient"
    assert any(point.grad_norm for point in points)
    assert spared.adapter_id == plain.adapter_id
