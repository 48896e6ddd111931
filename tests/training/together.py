"""A training in several processes: the program that each of them runs, and how tests start it.

What to train is in the file that `TOGETHER` names; what the process that speaks has to say goes beside it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.training import word_target
from trace_assets.errors import TraceError
from trace_assets.records import Adapter, Task, TrainingPoint
from trace_assets.settings import Training
from trace_assets.training.distributed import launch_command

ROOT = Path(__file__).resolve().parents[2]
SECTION = word_target.SECTION.model_copy(
    update={"tasks_per_iteration": 4, "iterations": 4, "validate_every": 2, "save_every": 2}
)


Trained = tuple[Adapter, list[TrainingPoint], Path]
"""An adapter, its curve and its folder."""


class Half(word_target.WordTarget):
    """Two words are never judged different, so their groups are dead."""

    def episode(self, task: Task, *, seed: int) -> word_target.WordEpisode:
        episode = super().episode(task, seed=seed)
        if task.payload["word"] in ("red", "blue"):
            episode.word = "never said"
        return episode


def start(
    base: Path, folder: Path, section: Training, *, target: str = "words", die: tuple[int, int] = (-1, 0)
) -> subprocess.Popen[str]:
    """Start a training in as many processes as the section says, in a group of their own.

    Args:
        base: The base model.
        folder: Where the adapter shall be.
        section: The training settings.
        target: `words`, or `half` for `Half`.
        die: Number of a process that kills itself, and the iteration in which it does.
    """
    asked = folder.with_name(f"{folder.name}.asked.json")
    asked.write_text(
        json.dumps(
            {
                "base": str(base),
                "folder": str(folder),
                "section": section.model_dump(mode="json"),
                "target": target,
                "die": die,
            }
        )
    )
    return subprocess.Popen(
        launch_command(section, sys.executable, "tests.training.together"),
        cwd=ROOT,
        env={**os.environ, "TOGETHER": str(asked), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ends(process: subprocess.Popen[str]) -> bool:
    """Wait until nobody of a training's group is there any more; tell whether that came to be."""
    until = time.monotonic() + 600
    while time.monotonic() < until:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def finish(
    process: subprocess.Popen[str], folder: Path, held: float = 1.0
) -> tuple[Adapter, list[TrainingPoint], list[int]]:
    """Wait for a training, and return the adapter, its curve, and the iterations that were told.

    Args:
        process: What `start` has returned.
        folder: As there.
        held: Share of the model's weights that the first process should have held.
    """
    error = process.communicate(timeout=900)[1]
    assert process.returncode == 0, error
    said = json.loads(folder.with_name(f"{folder.name}.said.json").read_text())
    assert said["held"] and all(abs(share - held) < 0.02 for share in said["held"]), said["held"]
    points = [TrainingPoint.model_validate(point) for point in said["points"]]
    return Adapter.model_validate(said["adapter"]), points, said["told"]


def alone(base: Path, folder: Path, section: Training, target: Any, *, several: bool = False) -> Trained:
    """Train in this process what a section says, of one process unless `several`."""
    if not several:
        section = section.model_copy(update={"processes": 1, "shard": False})
    adapter, points = word_target.train(base, folder, target=target, section=section)
    return adapter, points, folder


def of_two(section: Training, **more: Any) -> Training:
    """Return a section for two processes."""
    return section.model_copy(update={"processes": 2, "launcher": "pipes", **more})


def same(pair: Trained, single: Trained, rounding: float = 1e-4) -> None:
    """Check that two trainings are one up to rounding: decisions equal, sums and weights nearly."""
    ours, theirs = pair[0], single[0]
    apart = {"adapter_id": "", "seconds": 0.0}
    assert ours.model_copy(update=apart) == theirs.model_copy(update=apart)
    assert len(pair[1]) == len(single[1])
    for one, other in zip(pair[1], single[1], strict=True):
        for name in ("reward_mean", "reward_std", "success_rate", "n", "dead_groups", "rollouts"):
            assert getattr(one, name) == getattr(other, name), name
        assert (one.redrawn_groups, one.validation_rate) == (other.redrawn_groups, other.validation_rate)
        assert one.learning_rate == other.learning_rate
        assert one.grad_norm == pytest.approx(other.grad_norm, rel=1e-3)
        assert one.loss == pytest.approx(other.loss, abs=1e-3)
    weights, others = (load_file(trained[2] / "adapter_model.safetensors") for trained in (pair, single))
    assert weights.keys() == others.keys()
    assert max(float(value.abs().max()) for value in weights.values()) > 0.01
    # Adam moves a weight by the learning rate, 0.02, whatever its gradient: one of rounding alone may differ.
    for name, value in weights.items():
        assert float((value - others[name]).abs().mean()) < rounding, name


def write_mixture(folder: Path) -> Path:
    """Write a mixture of four experts taught as the word model is, with its tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen3MoeConfig, Qwen3MoeForCausalLM

    word_target.write_base(folder)
    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
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
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    model = Qwen3MoeForCausalLM(config)
    word_target.teach(model)
    model.save_pretrained(folder)
    return folder


def main() -> int:
    """Train as one of several; the exit code is that of the error."""
    path, rank = Path(os.environ["TOGETHER"]), int(os.environ.get("RANK", "0"))
    asked: dict[str, Any] = json.loads(path.read_text())
    section, told = Training.model_validate(asked["section"]), list[int]()
    target = Half() if asked["target"] == "half" else word_target.WordTarget()
    _die_in(*asked["die"], rank)
    held = _held()
    try:
        adapter, points = word_target.train(
            Path(asked["base"]),
            Path(asked["folder"]),
            target=target,
            section=section,
            on_point=lambda point: told.append(point.iteration),
        )
    except TraceError as error:
        said = path.with_name(path.name.replace(".asked.", f".failed-{rank}."))
        said.write_text(str(error))
        return error.exit_code
    if rank == 0:
        said = {
            "adapter": adapter.model_dump(mode="json"),
            "points": [point.model_dump(mode="json") for point in points],
            "told": told,
            "held": held,
        }
        path.with_name(path.name.replace(".asked.", ".said.")).write_text(json.dumps(said))
    return 0


def _held() -> list[float]:
    """Note at each backward pass which share of the model's weights this process holds."""
    from torch.distributed.tensor import DTensor

    from trace_assets.training.trainer import LiveRowTrainer

    held, step = list[float](), LiveRowTrainer.training_step

    def noting(trainer: LiveRowTrainer, model: Any, inputs: Any, items: Any = None) -> Any:
        weights = list(trainer.model.parameters())
        parts = [value.to_local() if isinstance(value, DTensor) else value for value in weights]
        held.append(sum(part.numel() for part in parts) / sum(value.numel() for value in weights))
        return step(trainer, model, inputs, items)

    LiveRowTrainer.training_step = noting  # type: ignore[method-assign]
    return held


def _die_in(rank: int, iteration: int, own: int) -> None:
    """Have this process kill itself in the middle of an iteration, after its episodes were played."""
    if rank != own:
        return
    from trace_assets.training.run import Run

    rollouts = Run._rollouts

    def deadly(run: Run, prompts: Any, trainer: Any) -> Any:
        played = rollouts(run, prompts, trainer)
        if trainer.state.global_step + 1 == iteration:
            os.kill(os.getpid(), signal.SIGKILL)
        return played

    Run._rollouts = deadly  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
