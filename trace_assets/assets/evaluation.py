"""What was gained, and what was harmed."""

from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import ArmSummary, Evaluation, NoHarm, RouterRegret
from trace_assets.stages.evaluation import validate_adapters, write_evaluation
from trace_assets.stages.result import StageResult
from trace_assets.study import Study


@stage_asset(
    group="evaluation",
    records=(NoHarm, Evaluation),
    parts={Evaluation: "validation"},
    deps=[
        "adapter",
        "curriculum",
        "routing_trials",
        "base_model",
        "config/evaluation",
        "config/targets",
    ],
    checks={
        "no_harm": "No adapter makes other skills worse. One that does, and is not shown to help its own "
        "skills, is no choice of the router. Stops what follows when no adapter is left."
    },
    blocking=["no_harm"],
    kinds=("parquet", "pytorch"),
    pool="gpu",
)
def adapter_validation(study: Study) -> StageResult:
    """Every adapter on the validation tasks: what it does to the skills it was not trained for."""
    return validate_adapters(study)


@stage_asset(
    group="evaluation",
    records=(Evaluation, ArmSummary, RouterRegret),
    parts={Evaluation: "test"},
    deps=[
        "routing",
        "adapter",
        "curriculum",
        "mixed_adapter",
        "adapter_validation",
        "base_model",
        "config/evaluation",
        "config/targets",
    ],
    checks={
        "test_split_opened_once": "One configuration alone was ever shown the test tasks.",
        "routed_better_than_base": "The interval of routed minus base lies above 0.",
    },
    kinds=("parquet", "pytorch"),
    pool="gpu",
)
def evaluation(study: Study) -> StageResult:
    """Every arm on the test split, with paired intervals against the base model."""
    return write_evaluation(study)
