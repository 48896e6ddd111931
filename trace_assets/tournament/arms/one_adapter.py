"""One LoRA trained by GRPO on a target of an arm's own, at our rollouts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from trace_assets.errors import require_extra
from trace_assets.resources.policy import base_checkpoint, base_folder
from trace_assets.targets.protocol import Target
from trace_assets.tournament.arms.protocol import Made, PlayedWorld, metered


def refusal(world: PlayedWorld) -> str:
    """Say why no such adapter can be trained in a world, empty where it can."""
    if why := world.unfunded:
        return why
    if world.study.settings.training.processes > 1:
        return "training takes several processes (training.processes), and this arm takes one"
    return ""


def play(
    world: PlayedWorld,
    name: str,
    folder: Path,
    target: Callable[[], AbstractContextManager[Target]],
) -> Made:
    """Train the adapter, once, and play the test tasks with it.

    Args:
        world: The world.
        name: The arm's.
        folder: Of the arm. An interrupted training goes on from its checkpoints.
        target: Opens what is trained on. Its validation tasks choose the checkpoint.
    """
    require_extra("torch", "train", f"the arm {name}")
    from trace_assets.training.checkpoints import adapter_id

    path = folder / "adapter"
    meter = metered(folder, lambda: _train(world, name, path, target))
    rows = world.on_test(name, folder, adapter_id(path), adapter=path)
    return Made(rows, meter.spent(len(rows)))


def _train(
    world: PlayedWorld, name: str, folder: Path, target: Callable[[], AbstractContextManager[Target]]
) -> dict[str, float]:
    """Train the adapter into its folder, and return the rollouts that it took."""
    from trace_assets.training.grpo import train_adapter

    study = world.study
    with target() as opened:
        adapter, curve = train_adapter(
            name=name,
            kind="joint",
            capability_id=None,
            environment_id=None,
            target=opened,
            base_dir=base_folder(study),
            base_id=base_checkpoint(study).base_id,
            section=study.settings.training,
            folder=folder,
            rollout_budget=world.budget,
        )
    looked = sum(point.validation_n or 0 for point in curve)
    return {
        "training": float(adapter.rollouts),
        "checkpoint looks": float(2 * adapter.validation_n + looked),
    }
