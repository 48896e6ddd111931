"""Where each task is sent."""

from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import Route, RouterScore, RoutingTrial
from trace_assets.stages.result import StageResult
from trace_assets.stages.routing import write_routing, write_trials
from trace_assets.study import Study


@stage_asset(
    group="routing",
    records=(RoutingTrial,),
    deps=["curriculum", "labels", "triage", "tasks", "config/targets"],
    light=True,
)
def routing_trials(study: Study) -> StageResult:
    """A firewall: what the live target's discovery trials lacked, which is all that routers are fitted on."""
    return write_trials(study)


@stage_asset(
    group="routing",
    records=(Route, RouterScore),
    deps=[
        "adapter",
        "adapter_validation",
        "curriculum",
        "routing_trials",
        "base_model",
        "config/routing",
        "config/targets",
    ],
    checks={"label_logits_asked": "The base model's context could hold the question of the second router."},
    kinds=("parquet", "pytorch"),
)
def routing(study: Study) -> StageResult:
    """The choice of adapter for every test task, by a classifier and by label logits, "none" included."""
    return write_routing(study)
