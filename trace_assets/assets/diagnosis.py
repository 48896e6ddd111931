"""From trajectories to the capabilities worth teaching."""

import dagster as dg

from trace_assets.orchestration.instance import CAPABILITY, TASK_BATCH
from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import (
    Agreement,
    BatchCapability,
    Capability,
    CapabilitySpec,
    Consensus,
    Contrast,
    Label,
    LabelLeak,
    PolicyContrast,
    Proposal,
    SelectedCapability,
    ShownTranscript,
    Stability,
    SuspectTask,
)
from trace_assets.stages import diagnosis, discovery, leak
from trace_assets.stages import labels as labels_stage
from trace_assets.stages import policy_contrast as policy_stage
from trace_assets.stages import stability as stability_stage
from trace_assets.stages import suspect_tasks as suspects
from trace_assets.stages.batch_capabilities import write_batch_capabilities
from trace_assets.stages.result import StageResult
from trace_assets.study import Study


@stage_asset(
    group="diagnosis",
    records=(SuspectTask,),
    deps=["tasks", "trajectories", "config/triage"],
)
def suspect_tasks(study: Study) -> StageResult:
    """Tasks whose ground truth is doubtful, with the evidence; those that are wrong are put aside."""
    return suspects.write_suspects(study)


@stage_asset(
    group="diagnosis",
    records=(Capability, Proposal),
    deps=["trajectories", "triage", "suspect_tasks", "config/discovery"],
    checks={"discovery_complete": "Every discovery pass was read, and the proposals were merged."},
    blocking=["discovery_complete"],
    unfinished=["discovery_complete"],
)
def capability_dictionary(study: Study) -> StageResult:
    """Candidate capabilities: what failures seem to lack, each with its proposals."""
    return discovery.discover(study)


@stage_asset(
    group="diagnosis",
    records=(BatchCapability,),
    deps=["trajectories", "capability_dictionary"],
    partitions=TASK_BATCH,
    light=True,
)
def batch_capabilities(study: Study, batch: str) -> StageResult:
    """What a batch is labelled with: a firewall, so that a longer dictionary leaves old labels alone."""
    return write_batch_capabilities(study, batch)


@stage_asset(
    group="diagnosis",
    records=(Label, ShownTranscript),
    deps=["trajectories", "batch_capabilities", "config/labels"],
    partitions=TASK_BATCH,
    checks={"labels_complete": "Every trajectory has a label for every candidate, labeller and pass."},
    blocking=["labels_complete"],
    unfinished=["labels_complete"],
)
def labels(study: Study, batch: str) -> StageResult:
    """NA, PRESENT or LACKING for every trajectory and candidate, given blind to the outcome."""
    return labels_stage.label_batch(study, batch)


@stage_asset(
    group="diagnosis",
    records=(LabelLeak,),
    deps=["trajectories", "triage"],
    checks={
        "labels_blind": "The outcome cannot be told from what labellers see beside the agent's own behaviour."
    },
)
def label_leak(study: Study) -> StageResult:
    """The leak meter: how well a small classifier tells the outcome from what labellers are shown."""
    return leak.write_leak(study)


@stage_asset(
    group="diagnosis",
    records=(Contrast, Agreement, Consensus),
    deps=["labels", "triage", "suspect_tasks", "capability_dictionary", "config/contrast"],
    checks={
        "contrast_not_empty": "No candidate has ER+ of exactly 0 with ten relevant successes: its labels "
        "may follow the outcome. Stops the selection where a model labelled, warns where detectors did."
    },
    blocking=["contrast_not_empty"],
    kinds=("parquet", "duckdb"),
    light=True,
)
def contrast(study: Study) -> StageResult:
    """Error rates on failures and successes, contrastive gap and coverage, with intervals and q values."""
    return diagnosis.estimate_contrast(study)


@stage_asset(
    group="diagnosis",
    records=(SelectedCapability,),
    deps=[
        *("contrast", "labels", "triage", "suspect_tasks", "capability_dictionary"),
        *("config/selection", "config/targets"),
    ],
    light=True,
)
def selected_capabilities(study: Study, context: dg.AssetExecutionContext) -> StageResult:
    """The decision on every candidate with its reason; kept ones become partitions."""
    result = diagnosis.select_capabilities(study)
    wanted, name = set(diagnosis.kept_capabilities(study)), str(CAPABILITY.name)
    known = set(context.instance.get_dynamic_partitions(name))
    if wanted - known:
        context.instance.add_dynamic_partitions(name, sorted(wanted - known))
    for dropped in sorted(known - wanted):
        context.instance.delete_dynamic_partition(name, dropped)
    return result


@stage_asset(
    group="diagnosis",
    records=(CapabilitySpec,),
    deps=["selected_capabilities", "capability_dictionary"],
    partitions=CAPABILITY,
    light=True,
)
def capability_spec(study: Study, capability: str) -> StageResult:
    """The firewall: all that one capability's environment and adapter may depend on."""
    return diagnosis.write_spec(study, capability)


@stage_asset(
    group="diagnosis",
    records=(Stability,),
    deps=[
        *("selected_capabilities", "trajectories", "labels", "triage", "suspect_tasks"),
        "capability_dictionary",
        *("config/discovery", "config/contrast", "config/selection", "config/stability"),
    ],
)
def stability(study: Study) -> StageResult:
    """The diagnosis repeated on resampled tasks and on shuffled outcomes: selection probability and null."""
    return stability_stage.estimate_stability(study)


@stage_asset(
    group="diagnosis",
    records=(PolicyContrast,),
    deps=[
        *("trajectories", "labels", "triage", "suspect_tasks", "capability_dictionary"),
        "config/contrast",
    ],
    light=True,
)
def policy_contrast(study: Study) -> StageResult:
    """Every two policies that were tried on the same tasks: what the stronger one lacks less, and more."""
    return policy_stage.contrast_policies(study)
