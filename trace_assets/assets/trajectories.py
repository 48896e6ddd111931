"""Trajectories of the base policy, and whose fault each failure is."""

from trace_assets.orchestration.instance import TASK_BATCH
from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import ActionDiff, CheckRow, MessageRow, ToolUse, TrajectoryHead, Triage
from trace_assets.stages.result import StageResult
from trace_assets.stages.trajectories import triage_batch, write_batch
from trace_assets.study import Study


@stage_asset(
    group="rollouts",
    records=(TrajectoryHead, MessageRow, CheckRow),
    deps=["tasks", "base_model", "config/rollouts", "config/targets"],
    partitions=TASK_BATCH,
    checks={"few_faults": "At most one episode in twenty broke and was not judged."},
    kinds=("parquet", "pytorch"),
    pool="gpu",
    together=True,
)
def trajectories(study: Study, batch: str, again: bool) -> StageResult:
    """Everything the base policy did on the discovery tasks, K trials each, or what was ingested.

    Finished episodes are not played again, nor replaced, unless the run says so: tag `trace/again` = `true`.
    """
    return write_batch(study, batch, again)


@stage_asset(
    group="diagnosis",
    records=(Triage, ActionDiff, ToolUse),
    deps=["tasks", "trajectories", "config/triage"],
    partitions=TASK_BATCH,
    checks={"triage_complete": "Every failure was looked at, by the rules and by the model if one is set."},
    blocking=["triage_complete"],
    unfinished=["triage_complete"],
)
def triage(study: Study, batch: str) -> StageResult:
    """To whom each failure is put down, and how it differs from what was expected."""
    return triage_batch(study, batch)
