"""One adapter for several capabilities: trained in all their environments at once, or in one after another.

What adapters that act together are compared with: it needs no router and no sum, and one capability may undo
what another has taught.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from trace_assets.errors import InputError
from trace_assets.records import Adapter, TrainingPoint
from trace_assets.settings import Training
from trace_assets.store.content import text_version
from trace_assets.targets.mixture import Mixture
from trace_assets.targets.protocol import Target

JOINT = "joint"
SEQUENTIAL = "sequential"
PHASES = "phases"
"""Folder beside a sequence's last adapter, with those that it went through."""

OnPoint = Callable[[TrainingPoint], None]


def train_joint(
    environments: Mapping[str, Target],
    base_dir: Path | str,
    base_id: str,
    section: Training,
    folder: Path,
    *,
    rollout_budget: int,
    environment_id: str | None = None,
    path: str | None = None,
    on_point: OnPoint | None = None,
) -> tuple[Adapter, list[TrainingPoint]]:
    """Train one adapter in several environments at once: each iteration plays as many tasks of each.

    Args:
        environments: Capability to its environment.
        base_dir: Folder of the base model.
        base_id: Its content hash.
        section: The training settings.
        folder: Where the PEFT folder shall be.
        rollout_budget: Training episodes in all.
        environment_id: What stands for the environments in the record; None takes their versions.
        path: What the record shall say of where the folder is.
        on_point: Told of each iteration.

    Returns:
        The adapter, whose figures are over held-out tasks of all environments, and the curve.

    Raises:
        InputError: There are fewer than two environments, or as `train_adapter`.
        Unavailable: As `train_adapter`.
    """
    from trace_assets.training.grpo import train_adapter

    if len(environments) < 2:
        raise InputError(f"one adapter for several environments takes two or more, not {len(environments)}.")
    return train_adapter(
        name=JOINT,
        kind="joint",
        capability_id=None,
        environment_id=environment_id,
        target=Mixture(JOINT, [environments[name] for name in sorted(environments)]),
        base_dir=base_dir,
        base_id=base_id,
        section=section,
        folder=folder,
        rollout_budget=rollout_budget,
        path=path,
        on_point=on_point,
    )


def train_sequential(
    environments: Mapping[str, Target],
    base_dir: Path | str,
    base_id: str,
    section: Training,
    folder: Path,
    *,
    rollout_budget: int,
    environment_ids: Mapping[str, str] | None = None,
    path: str | None = None,
    on_point: OnPoint | None = None,
) -> tuple[Adapter, list[TrainingPoint]]:
    """Train one adapter in one environment after another, each from where the one before it ended.

    Args:
        environments: Capability to its environment, in the order in which they are gone through.
        base_dir: Folder of the base model.
        base_id: Its content hash.
        section: The training settings.
        folder: Where the PEFT folder shall be; the adapters on the way lie beside it.
        rollout_budget: Training episodes in all, divided equally.
        environment_ids: Capability to what stands for its environment in the record; None takes versions.
        path: What the record shall say of where the folder is.
        on_point: Told of each iteration.

    Returns:
        The last adapter, whose figures are over held-out tasks of the last environment alone, with the
        rollouts of the whole sequence; and the curve through all of it.

    Raises:
        InputError: There are fewer than two environments, or as `train_adapter`.
        Unavailable: As `train_adapter`.
    """
    from trace_assets.training.grpo import train_adapter

    if len(environments) < 2:
        raise InputError(f"a sequence of environments takes two or more, not {len(environments)}.")
    batch = section.tasks_per_iteration * section.group_size
    each = rollout_budget // len(environments) // batch * batch
    last, curve, start = None, list[TrainingPoint](), None
    for place, (name, target) in enumerate(environments.items(), 1):
        ends = place == len(environments)
        gone, spent = len(curve), sum(point.rollouts or batch for point in curve)

        def tell(point: TrainingPoint, gone: int = gone) -> None:
            if on_point:
                on_point(point.model_copy(update={"iteration": gone + point.iteration}))

        where = folder if ends else folder.parent / f"{folder.name}-{PHASES}" / f"{place}"
        last, own = train_adapter(
            name=SEQUENTIAL,
            kind="sequential",
            capability_id=None,
            environment_id=(environment_ids or {}).get(name),
            target=target,
            base_dir=base_dir,
            base_id=base_id,
            section=section,
            folder=where,
            rollout_budget=rollout_budget - spent if ends else each,
            path=path if ends else None,
            on_point=tell,
            start=start,
        )
        curve += [point.model_copy(update={"iteration": gone + point.iteration}) for point in own]
        start = where
    assert last is not None
    summed = {
        "iterations": len(curve),
        "best_iteration": len(curve) - last.iterations + last.best_iteration,
        "rollouts": sum(point.rollouts or batch for point in curve),
        "environment_id": text_version(*environment_ids.values()) if environment_ids else None,
    }
    return last.model_copy(update=summed), curve
