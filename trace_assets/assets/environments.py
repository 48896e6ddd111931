"""One environment a kept capability, and its audit."""

import dagster as dg

from trace_assets.orchestration.pages import show_on
from trace_assets.orchestration.instance import CAPABILITY
from trace_assets.orchestration.sandbox_check import tell_when_stale
from trace_assets.orchestration.dagster_asset import stage_asset
from trace_assets.records import (
    ContractRow,
    Environment,
    EnvironmentCheck,
    EnvironmentVerdict,
    EnvironmentVersion,
    SeedOutcome,
)
from trace_assets.stages import synthesis
from trace_assets.stages.contract import write_contracts
from trace_assets.stages.curriculum import write_verdict
from trace_assets.stages.environments import write_capability_environment
from trace_assets.stages.result import StageResult
from trace_assets.study import Study


@stage_asset(
    group="synthesis",
    records=(ContractRow,),
    deps=["trajectories", "config/targets"],
    checks={"every_target_has_one": "Each target with trajectories has a contract."},
)
def target_contract(study: Study) -> StageResult:
    """What every environment is held to: each target's tools, shapes and wording, never its code."""
    return write_contracts(study)


@stage_asset(
    group="synthesis",
    records=(Environment, EnvironmentVersion),
    deps=["capability_spec", "target_contract", "config/synthesis"],
    partitions=CAPABILITY,
    checks={"environment_written": "A writer fits the capability."},
    kinds=("parquet", "python"),
    light=True,
)
def environment(study: Study, capability: str) -> StageResult:
    """A module that teaches one capability: tools, reset, step, verdict and oracle."""
    return write_capability_environment(study, capability)


@stage_asset(
    group="synthesis",
    records=(EnvironmentCheck, SeedOutcome),
    deps=[
        "environment",
        "target_contract",
        "base_model",
        "config/synthesis",
        "config/sandbox",
        "config/rollouts",
    ],
    partitions=CAPABILITY,
    checks={"environment_accepted": "No required check of the audit failed; a rejected one trains nothing."},
    kinds=("parquet", "docker"),
    pool="gpu",
)
def environment_audit(study: Study, capability: str, context: dg.AssetExecutionContext) -> StageResult:
    """Whether the environment can be trusted: run only in the sandbox, attacked, and played by the base."""
    result = synthesis.audit_environment(study, capability)
    show_on(context, "environment", capability, result)
    tell_when_stale(context.instance, study, capability)
    return result


@stage_asset(
    group="synthesis",
    records=(EnvironmentVerdict,),
    deps=["environment", "environment_audit", "config/training"],
    partitions=CAPABILITY,
    checks={"no_override": "No rejected environment is trained on by an override in the settings."},
    light=True,
)
def environment_verdict(study: Study, capability: str) -> StageResult:
    """A firewall: whether the environment was accepted, and all that training may know of its audit."""
    return write_verdict(study, capability)
