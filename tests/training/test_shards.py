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
from trace_assets.training.shards import divide  # noqa: E402

pytestmark = pytest.mark.train
HALF = 0.5
"""What each of two processes holds of a divided model."""


def section_on(server: PretendVllm, **changes: Any) -> Training:
    """Every gradient is clipped: their norms are 0.2 to 0.6."""
    asked = {"sampler": "server", "sampler_url": server.url, "save_every": 1, "iterations": 3}
    return together.SECTION.model_copy(update={**asked, "max_grad_norm": 0.1, **changes})


def killed_and_taken_up(base: Path, folder: Path, section: Training, then: Training) -> Trained:
    """Train in two processes until one is killed in the second iteration, and then go on."""
    killed = together.start(base, folder, section, die=(0, 2))
    error = killed.communicate(timeout=240)[1]
    assert killed.returncode == 137, error
    started = together.start(base, folder, then)
    adapter, points, told = together.finish(started, folder, HALF if then.shard else 1.0)
    assert told == [2, 3], "it did not go on from the checkpoint"
    return adapter, points, folder


def acts_with_what_is_trained(trained: Trained) -> bool:
    """The sampler was given all of the divided adapter: it says of tokens what the trainer says."""
    found = [point.sampler_difference for point in trained[1] if point.live_groups]
    return bool(found) and all(value is not None and value < 1e-3 for value in found)


def test_a_divided_training_is_the_undivided_one(base: Path, tmp_path: Path) -> None:
    with PretendVllm(base) as server:
        section = section_on(server)
        single = alone(base, tmp_path / "single" / "words", section, word_target.WordTarget())
        divided = of_two(section, shard=True)
        pair = killed_and_taken_up(base, tmp_path / "words", divided, divided)
    assert all(point.grad_norm and point.grad_norm > 0.15 for point in single[1]), "nothing was clipped"
    assert acts_with_what_is_trained(pair)
    same(pair, single)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"bf16": True, "gradient_checkpointing": True, "micro_batch": 8}],
    ids=["fp32", "bf16, checkpointing, two passes a step"],
)
def test_a_divided_mixture_is_the_undivided_one(changes: dict[str, Any], tmp_path: Path) -> None:
    base = together.write_mixture(tmp_path / "mixture")
    with PretendVllm(base) as server:
        section = section_on(server, **changes)
        single = alone(base, tmp_path / "single" / "words", section, word_target.WordTarget())
        divided = of_two(section, shard=True)
        pair = killed_and_taken_up(base, tmp_path / "words", divided, divided)
    assert "bf16" in changes or acts_with_what_is_trained(pair)
    same(pair, single, 1e-3 if changes else 1e-4)


@pytest.mark.slow
def test_a_killed_training_is_taken_up_divided_or_not(base: Path, tmp_path: Path) -> None:
    with PretendVllm(base) as server:
        whole = of_two(section_on(server))
        divided = of_two(whole, shard=True)
        folder = tmp_path / "never killed" / "words"
        folder.parent.mkdir()
        adapter, points, _ = together.finish(together.start(base, folder, divided), folder, HALF)
        reference = adapter, points, folder
        again, *others = (
            killed_and_taken_up(base, tmp_path / name, one, other)
            for name, one, other in (
                ("again", divided, divided),
                ("whole after divided", divided, whole),
                ("divided after whole", whole, divided),
            )
        )
    assert again[0].adapter_id == adapter.adapter_id, "not the same bit for bit"
    for other in others:
        same(other, reference)


def test_a_model_that_names_no_layers_is_refused() -> None:
    model = SimpleNamespace(get_base_model=lambda: torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match=r"training\.shard cannot divide a Linear"):
        divide(model, torch.device("cpu"))
