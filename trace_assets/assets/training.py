"""One LoRA adapter a capability, and the arm trained on the mixed target for comparison."""

from collections.abc import Callable

import dagster as dg

from trace_assets.assets.partitions import CAPABILITY
from trace_assets.assets.stage_asset import stage_asset
from trace_assets.records import Adapter, Lesson, TrainingPoint
from trace_assets.stages.curriculum import write_curriculum
from trace_assets.stages.result import StageResult
from trace_assets.stages.training import train_capability, train_mixed
from trace_assets.study import Study


def _curve(context: dg.AssetExecutionContext) -> Callable[[TrainingPoint], None]:
    """Return a listener that streams the learning curve to the asset's page while it is being trained."""

    def observe(point: TrainingPoint) -> None:
        metadata = {
            "iteration": point.iteration,
            "reward": point.reward_mean,
            "success_rate": point.success_rate,
            "dead_groups": point.dead_groups,
            "n": point.n,
        }
        partition = context.partition_key if context.has_partition_key else None
        context.log_event(dg.AssetObservation(context.asset_key, partition=partition, metadata=metadata))

    return observe


CHECKS = {
    "adapter_trained": "On held-out seeds the adapter's interval lies above the base model's rate.",
    "adapter_parity": "The engine that serves the adapter and the trainer give the same log-probabilities.",
}


@stage_asset(
    group="training",
    records=(Adapter, TrainingPoint),
    deps=["environment", "environment_verdict", "base_model", "config/training"],
    partitions=CAPABILITY,
    checks=CHECKS,
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def adapter(study: Study, capability: str, context: dg.AssetExecutionContext) -> StageResult:
    """A LoRA adapter trained with GRPO in the capability's environment, best checkpoint on held-out seeds.

    How the sandbox is set up is no part of it: the audit has shown that the environment runs there.
    """
    return train_capability(study, capability, _curve(context))


@stage_asset(
    group="training",
    records=(Lesson,),
    deps=["environment_verdict", "selected_capabilities", "config/targets"],
    light=True,
)
def curriculum(study: Study) -> StageResult:
    """A firewall: the kept capabilities whose environment was accepted, which are those that are taught."""
    return write_curriculum(study)


@stage_asset(
    group="training",
    records=(Adapter, TrainingPoint),
    deps=["curriculum", "base_model", "config/training", "config/targets"],
    checks=CHECKS,
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface"),
    pool="gpu",
)
def mixed_adapter(study: Study, context: dg.AssetExecutionContext) -> StageResult:
    """GRPO on the target itself with the same total rollouts: what the adapters are compared with."""
    return train_mixed(study, _curve(context))
