"""The stages `adapter` and `mixed_adapter`: a LoRA adapter a capability, and the arm it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trace_assets.errors import require_extra
from trace_assets.records import Adapter, CapabilitySpec, TrainingPoint
from trace_assets.report.exhibits.teaching import adapter_exhibit
from trace_assets.stages.base_model import base_checkpoint, base_folder
from trace_assets.stages.curriculum import read_verdict, taught
from trace_assets.stages.result import StageCheck, StageResult
from trace_assets.stages.synthesis import read_environment, training_target
from trace_assets.store.content import text_version
from trace_assets.study import Study

if TYPE_CHECKING:
    from trace_assets.training.parity import Parity

OnPoint = Callable[[TrainingPoint], None]

MIXED = "mixed"
PARITY_TASKS = 16
"""Episodes on which engine and trainer are compared."""


def train_capability(study: Study, capability_id: str, on_point: OnPoint | None = None) -> StageResult:
    """Train one capability's adapter in its environment; one that its audit rejected trains nothing.

    Args:
        study: The study.
        capability_id: A kept capability.
        on_point: Told of each iteration as it is made.
    """
    verdict = read_verdict(study, capability_id)
    if not verdict.accepted:
        version = _write(study, [], [], capability_id)
        detail = f"refused: its environment was rejected ({'; '.join(verdict.reasons)})."
        return StageResult(
            version, 0, {"refused": True}, checks=(StageCheck("adapter_trained", False, detail, "warning"),)
        )
    require_extra("torch", "train", "training an adapter")
    from trace_assets.training.grpo import train_adapter

    environment, base = read_environment(study, capability_id), base_checkpoint(study)
    key = text_version(environment.environment_id, base.base_id, study.settings.training.fingerprint())
    folder = study.home.models / "adapters" / f"{capability_id}-{key}"
    with training_target(study, environment) as target:
        adapter, curve = train_adapter(
            name=capability_id,
            kind="capability",
            capability_id=capability_id,
            environment_id=environment.environment_id,
            target=target,
            base_dir=base_folder(study),
            base_id=base.base_id,
            section=study.settings.training,
            folder=folder,
            on_point=on_point,
            path=study.home.relative(folder),
        )
    return _result(study, adapter, curve, capability_id)


def train_mixed(study: Study, on_point: OnPoint | None = None) -> StageResult:
    """Train on the target itself with as many rollouts as all capabilities' adapters together.

    The comparison that a capability adapter has to stand: it is reported whether or not it wins.
    """
    section = study.settings.training
    wanted = taught(study)
    if not section.mixed_arm or not wanted:
        return StageResult(_write(study, [], [], MIXED), 0, {"refused": True})
    require_extra("torch", "train", "training an adapter")
    from trace_assets.training.grpo import train_adapter

    base = base_checkpoint(study)
    budget = len(wanted) * section.iterations * section.tasks_per_iteration * section.group_size
    key = text_version(study.target.version, base.base_id, section.fingerprint(), str(budget))
    folder = study.home.models / "adapters" / f"{MIXED}-{key}"
    adapter, curve = train_adapter(
        name=MIXED,
        kind="mixed",
        capability_id=None,
        environment_id=None,
        target=study.target,
        base_dir=base_folder(study),
        base_id=base.base_id,
        section=section,
        folder=folder,
        on_point=on_point,
        rollout_budget=budget,
        path=study.home.relative(folder),
    )
    return _result(study, adapter, curve, MIXED)


def _write(study: Study, adapters: list[Adapter], curve: list[TrainingPoint], partition: str) -> str:
    study.store.write(curve, TrainingPoint, partition)
    return study.store.write(adapters, Adapter, partition)


def _result(study: Study, adapter: Adapter, curve: list[TrainingPoint], partition: str) -> StageResult:
    from trace_assets.evaluation.harm import acceptance

    version = _write(study, [adapter], curve, partition)
    judged = acceptance(adapter)
    agreement = _parity(study, adapter)
    return StageResult(
        version,
        1,
        {
            "adapter_id": adapter.adapter_id,
            "validation_before": adapter.validation_before,
            "validation_after": adapter.validation_after,
            "validation_n": adapter.validation_n,
            **({"reward": curve[-1].reward_mean, "success_rate": curve[-1].success_rate} if curve else {}),
            "pass_rate": adapter.validation_after,
            "gain": adapter.validation_after - adapter.validation_before,
            "n": adapter.validation_n,
            "accepted": judged.accepted,
        },
        pages=adapter_exhibit(adapter, curve, _name(study, adapter)).pages,
        checks=(
            StageCheck("adapter_trained", judged.accepted, f"{judged.reason}.", "warning"),
            StageCheck("adapter_parity", agreement.problem is None, agreement.sentence),
        ),
        spent={("rollouts", "episodes"): float(adapter.rollouts)},
    )


def _name(study: Study, adapter: Adapter) -> str:
    names = {spec.capability_id: spec.name for spec in study.store.read(CapabilitySpec)}
    return names.get(adapter.name, "GRPO on the target itself" if adapter.kind == "mixed" else adapter.name)


def _parity(study: Study, adapter: Adapter) -> Parity:
    """Compare the engine that will serve the adapter with the trainer, on a few of the target's tasks."""
    from trace_assets.policies.transformers_engine import TransformersPolicy
    from trace_assets.training.parity import adapter_parity

    section, folder = study.settings.training, study.home.path / adapter.path
    engine = TransformersPolicy(
        base_folder(study),
        adapters={adapter.name: folder},
        temperature=section.temperature,
        max_new_tokens=section.max_new_tokens,
    )
    return adapter_parity(
        study.target,
        list(study.target.tasks("validation"))[:PARITY_TASKS],
        engine,
        adapter.name,
        base_dir=base_folder(study),
        folder=folder,
        max_turns=section.max_turns,
        temperature=section.temperature,
    )


def read_adapters(study: Study) -> list[Adapter]:
    """Return the adapters of what is taught, and the mixed arm's, that were trained on the base model."""
    kept, base = taught(study), base_checkpoint(study)
    return [
        adapter
        for adapter in study.store.read(Adapter)
        if adapter.base_id == base.base_id and (adapter.kind == "mixed" or adapter.capability_id in kept)
    ]
