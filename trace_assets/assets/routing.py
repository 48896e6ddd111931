"""Where each task is sent."""

from trace_assets.assets.stage_asset import stage_asset
from trace_assets.records import Route, RouterScore
from trace_assets.stages.result import StageResult
from trace_assets.stages.routing import write_routing
from trace_assets.study import Study


@stage_asset(
    group="routing",
    records=(Route, RouterScore),
    deps=[
        "adapter",
        "adapter_validation",
        "labels",
        "triage",
        "tasks",
        "selected_capabilities",
        "base_model",
        "config/routing",
    ],
    checks={"label_logits_asked": "The base model's context could hold the question of the second router."},
    kinds=("parquet", "pytorch"),
)
def routing(study: Study) -> StageResult:
    """The choice of adapter for every test task, by a classifier and by label logits, "none" included."""
    return write_routing(study)
