"""A pilot and one LoRA adapter a capability, what was foretold of it, and the arm it is compared with."""

from collections.abc import Callable

import dagster as dg

from trace_assets.orchestration.pages import show_on
from trace_assets.orchestration.instance import CAPABILITY
from trace_assets.orchestration.remote.launcher import elsewhere
from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import Adapter, Learnability, Lesson, Pilot, PilotPoint, TrainingPoint
from trace_assets.stages.curriculum import write_curriculum
from trace_assets.stages.learnability import write_learnability
from trace_assets.stages.pilot import write_pilot
from trace_assets.stages.result import StageResult
from trace_assets.stages.training import MIXED, train_capability, train_mixed
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
            **{
                name: value
                for name in ("entropy", "grad_norm", "sampler_kl", "outside_clip")
                if (value := getattr(point, name)) is not None
            },
        }
        partition = context.partition_key if context.has_partition_key else None
        context.log_event(dg.AssetObservation(context.asset_key, partition=partition, metadata=metadata))

    return observe


CHECKS = {
    "adapter_trained": "On held-out seeds the adapter's interval lies above the base model's rate.",
    "adapter_parity": "The engine that serves the adapter and the trainer give the same log-probabilities.",
    "training_sound": "Sampler mismatch, clipping, entropy, dead groups and gradients are in bounds.",
}


@stage_asset(
    group="training",
    records=(Pilot, PilotPoint),
    deps=[
        "capability_spec",
        "environment",
        "environment_verdict",
        "base_model",
        "config/training",
        "config/targets",
    ],
    partitions=CAPABILITY,
    checks={"pilot_transfers": "In a small training the target's pass rate rises with the reward."},
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def pilot(study: Study, capability: str) -> StageResult:
    """A small share of the training run, made beforehand to see whether the target gains with the reward.

    A firewall: only its decision enters the version, so other figures train nothing anew.
    """
    return write_pilot(study, capability)


@stage_asset(
    group="training",
    records=(Adapter, TrainingPoint),
    deps=["environment", "environment_verdict", "pilot", "base_model", "config/training"],
    partitions=CAPABILITY,
    checks=CHECKS | {"rewards_recomputed": "A sample of its rewards is the same in fresh sandboxes."},
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface", "docker"),
    pool="gpu",
)
def adapter(study: Study, capability: str, context: dg.AssetExecutionContext) -> StageResult:
    """A LoRA adapter trained with GRPO in the capability's environment, best checkpoint on held-out seeds.

    How the sandbox is set up is no part of it: the audit has shown that the environment runs there.
    """
    return train_capability(study, capability, _curve(context), elsewhere(study, context))


@stage_asset(
    group="training",
    records=(Learnability,),
    deps=["environment", "environment_audit", "adapter", "config/training", "config/rollouts"],
    partitions=CAPABILITY,
    checks={
        "dead_groups_foretold": "As many groups had no gradient as the audit foretold, within 10 points.",
        "sandbox_share": "At most a tenth of the training time went into the sandbox.",
    },
    light=True,
)
def learnability(study: Study, capability: str, context: dg.AssetExecutionContext) -> StageResult:
    """What the base policy's rollouts foretold of training, beside what training showed."""
    result = write_learnability(study, capability)
    show_on(context, "adapter", capability, result)
    return result


@stage_asset(
    group="training",
    records=(Lesson,),
    deps=["environment_verdict", "pilot", "selected_capabilities", "config/targets"],
    light=True,
)
def curriculum(study: Study) -> StageResult:
    """A firewall: the kept capabilities that are taught; their environment and pilot speak for it."""
    return write_curriculum(study)


@stage_asset(
    group="training",
    records=(Adapter, TrainingPoint),
    deps=["curriculum", "base_model", "config/training", "config/targets"],
    parts={Adapter: MIXED, TrainingPoint: MIXED},
    checks=CHECKS,
    blocking=["adapter_parity"],
    kinds=("pytorch", "huggingface"),
    pool="gpu",
)
def mixed_adapter(study: Study, context: dg.AssetExecutionContext) -> StageResult:
    """GRPO on the target itself with the same total rollouts: what the adapters are compared with."""
    return train_mixed(study, _curve(context), elsewhere(study, context))
