"""A model divided between two processes trains the adapter that an undivided one does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from tests.training import together, word_target  # noqa: E402
from tests.training.pretend_vllm import PretendVllm  # noqa: E402
from tests.training.together import Trained, alone, of_two, same  # noqa: E402
from trace_assets.errors import InputError  # noqa: E402
from trace_assets.settings import Training  # noqa: E402
from trace_assets.training.fsdp import divide  # noqa: E402

pytestmark = pytest.mark.train
HALF = 0.5
"""What each of two processes holds of a divided model."""


def section_on(server: PretendVllm, **changes: Any) -> Training:
    """Every gradient is clipped: their norms are 0.2 to 0.6."""
    asked = {"sampler": "server", "sampler_url": server.url, "save_every": 1, "iterations": 3}
    return together.SECTION.model_copy(update={**asked, "max_grad_norm": 0.1, **changes})


def trained_by_two(base: Path, folder: Path, section: Training) -> Trained:
    folder.parent.mkdir()
    started = together.start(base, folder, section)
    adapter, points, _ = together.finish(started, folder, HALF if section.shard else 1.0)
    return adapter, points, folder


def killed_and_taken_up(base: Path, folder: Path, section: Training, then: Training) -> Trained:
    """Train in two processes until one is killed in the second iteration, and then go on."""
    folder.parent.mkdir(exist_ok=True)
    killed = together.start(base, folder, section, die=(0, 2))
    error = killed.communicate(timeout=900)[1]
    assert killed.returncode == 137, error
    started = together.start(base, folder, then)
    adapter, points, told = together.finish(started, folder, HALF if then.shard else 1.0)
    assert told == [2, 3], "it did not go on from the checkpoint"
    return adapter, points, folder


def acts_with_what_is_trained(trained: Trained) -> bool:
    """The sampler was given all of the divided adapter: it says of tokens what the trainer says."""
    found = [point.sampler_difference for point in trained[1] if point.live_groups]
    return bool(found) and all(value is not None and value < 1e-3 for value in found)


@pytest.mark.slow
def test_a_divided_training_is_the_undivided_one(base: Path, tmp_path: Path) -> None:
    with PretendVllm(base) as server:
        section = section_on(server)
        single = alone(base, tmp_path / "single" / "words", section, word_target.WordTarget())
        pair = trained_by_two(base, tmp_path / "divided" / "words", of_two(section, shard=True))
    assert all(point.grad_norm and point.grad_norm > 0.15 for point in single[1]), "nothing was clipped"
    assert acts_with_what_is_trained(pair)
    same(pair, single)


@pytest.mark.slow
def test_a_divided_mixture_is_the_undivided_one(tmp_path: Path) -> None:
    base = together.write_mixture(tmp_path / "mixture")
    with PretendVllm(base) as server:
        section = section_on(server)
        single = alone(base, tmp_path / "single" / "words", section, word_target.WordTarget())
        divided = of_two(section, shard=True)
        pair = killed_and_taken_up(base, tmp_path / "words", divided, divided)
    assert acts_with_what_is_trained(pair)
    same(pair, single)


@pytest.mark.slow
def test_precision_checkpointing_and_passes_change_nothing_between_divided_and_not(tmp_path: Path) -> None:
    """Compared with two undivided processes: against one, bf16 alone makes a thousandth of the gradient."""
    base = together.write_mixture(tmp_path / "mixture")
    with PretendVllm(base) as server:
        whole = of_two(section_on(server, bf16=True, gradient_checkpointing=True, micro_batch=8))
        folders = tmp_path / "whole" / "words", tmp_path / "divided" / "words"
        trained = [
            trained_by_two(base, folder, section)
            for folder, section in zip(folders, (whole, of_two(whole, shard=True)), strict=True)
        ]
    assert any(point.live_groups for point in trained[0][1]), "nothing was learnt"
    same(trained[1], trained[0], 1e-6)


@pytest.mark.slow
def test_a_killed_training_is_taken_up_divided_or_not(base: Path, tmp_path: Path) -> None:
    with PretendVllm(base) as server:
        whole = of_two(section_on(server))
        divided = of_two(whole, shard=True)
        reference = trained_by_two(base, tmp_path / "never killed" / "words", divided)
        again, *others = (
            killed_and_taken_up(base, tmp_path / name / "words", one, other)
            for name, one, other in (
                ("again", divided, divided),
                ("whole after divided", divided, whole),
                ("divided after whole", whole, divided),
            )
        )
    assert again[0].adapter_id == reference[0].adapter_id, "not the same bit for bit"
    for other in others:
        same(other, reference)


def test_a_model_that_names_no_layers_is_refused() -> None:
    model = SimpleNamespace(get_base_model=lambda: torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match=r"training\.shard cannot divide a Linear"):
        divide(model, torch.device("cpu"))
