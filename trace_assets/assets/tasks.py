"""Tasks and the base policy: where everything starts."""

from trace_assets.orchestration.instance import TASK_BATCH
from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import BaseCheckpoint, Task, ToldTask
from trace_assets.stages.base_model import write_base_model
from trace_assets.stages.result import StageResult
from trace_assets.stages.tasks import write_tasks
from trace_assets.study import Study


@stage_asset(
    group="rollouts", records=(Task, ToldTask), deps=["config/targets"], partitions=TASK_BATCH, light=True
)
def tasks(study: Study, batch: str, again: bool) -> StageResult:
    """What an agent is asked to do: the live target's tasks by split, or those that were ingested."""
    return write_tasks(study, batch, again)


@stage_asset(
    group="rollouts",
    records=(BaseCheckpoint,),
    deps=["config/base_model", "config/targets"],
    checks={"pass_rate_in_band": "The base model fails often enough to learn from, and not always."},
    kinds=("pytorch", "huggingface"),
    pool="gpu",
    tags={"door": "loop"},
)
def base_model(study: Study) -> StageResult:
    """The policy that is diagnosed and adapted: the tiny agent trained from scratch, or a model folder."""
    return write_base_model(study)
