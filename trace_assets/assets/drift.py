"""Whether what a new batch shows is still what was known."""

from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import Drift
from trace_assets.stages.drift import write_drift
from trace_assets.stages.result import StageResult
from trace_assets.study import Study


@stage_asset(
    group="diagnosis",
    records=(Drift,),
    deps=["labels", "triage", "capability_dictionary", "config/contrast"],
    checks={
        "no_drift": "In the newest batch of each target no capability's gap or coverage differs from earlier "
        "batches by more than chance. Warns, and stops nothing."
    },
    kinds=("parquet", "duckdb"),
    light=True,
)
def drift(study: Study) -> StageResult:
    """Gap and coverage in the newest batch of each watched target against all earlier batches."""
    return write_drift(study)
