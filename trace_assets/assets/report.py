"""The page a person reads."""

from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.stages.report import write_report
from trace_assets.stages.result import StageResult
from trace_assets.study import Study


@stage_asset(
    group="report",
    records=(),
    deps=[
        "evaluation",
        "routing",
        "adapter_validation",
        "mixed_adapter",
        "pilot",
        "adapter",
        "learnability",
        "environment_audit",
        "selected_capabilities",
    ],
    kinds=("html",),
)
def report(study: Study) -> StageResult:
    """One self-contained HTML page: what is lacking, what was taught, what was gained, what it cost."""
    return write_report(study)
