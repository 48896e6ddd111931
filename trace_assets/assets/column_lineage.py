"""From which columns each column comes: declared once, shown by Dagster column by column.

Only columns of an asset's main table are named, on both sides. Messages and checks lie in tables of their own
beside `trajectories`, so what is read from them is shown as coming from `trajectories.trajectory_id`.
"""

from __future__ import annotations

from collections.abc import Mapping

import dagster as dg

Sources = tuple[str, ...]
"""Columns as `asset.column`."""

_JUDGED: Sources = ("labels.label", "triage.outcome", "triage.fault")
_OVER_TASKS: Sources = (*_JUDGED, "triage.task_id")
_READ: Sources = ("trajectories.trajectory_id", "trajectories.success")
_TAUGHT: Sources = ("capability_spec.detector", "capability_spec.detector_args", "target_contract.contract")
_AUDITED: Sources = ("environment.source", "target_contract.contract", "base_model.base_id")
_TRAINED: Sources = ("environment.source", "base_model.base_id")
_DECIDED: Sources = (
    "contrast.gap",
    "contrast.coverage",
    "contrast.q_value",
    "contrast.alpha",
    "contrast.n_failed_relevant",
    "contrast.n_passed_relevant",
    *_JUDGED,
)
_ROUTED: Sources = (
    "tasks.instruction",
    "labels.label",
    "triage.outcome",
    "adapter.name",
    "adapter.validation_before",
    "adapter.validation_after_low",
    "adapter_validation.verdict",
    "base_model.base_id",
)
_PLAYED: Sources = ("routing.choice", "adapter.adapter_id", "mixed_adapter.adapter_id", "base_model.base_id")

COLUMN_SOURCES: Mapping[str, Mapping[str, Sources]] = {
    "triage": {
        "trajectory_id": ("trajectories.trajectory_id",),
        "target": ("trajectories.target",),
        "task_id": ("trajectories.task_id",),
        "outcome": ("trajectories.success",),
        "*": ("trajectories.success", "trajectories.fault", "trajectories.stop"),
    },
    "capability_dictionary": {
        "target": ("trajectories.target",),
        "*": (*_READ, "triage.outcome", "triage.fault"),
    },
    "labels": {
        "trajectory_id": ("trajectories.trajectory_id",),
        "capability_id": ("capability_dictionary.capability_id",),
        "labeller": ("capability_dictionary.analyst",),
        "*": (
            "trajectories.trajectory_id",
            "capability_dictionary.description",
            "capability_dictionary.detector",
            "capability_dictionary.detector_args",
        ),
    },
    "contrast": {
        "capability_id": ("labels.capability_id",),
        "target": ("triage.target",),
        "er_failed": _JUDGED,
        "er_passed": ("labels.label", "triage.outcome"),
        "gap": _JUDGED,
        "coverage": _JUDGED,
        "n_failed": ("triage.outcome", "triage.fault"),
        "n_passed": ("triage.outcome",),
        "n_passed_relevant": ("labels.label", "triage.outcome"),
        "n_passed_lacking": ("labels.label", "triage.outcome"),
        "alpha": ("labels.label", "labels.labelling_pass"),
        "*": _OVER_TASKS,
    },
    "selected_capabilities": {
        "capability_id": ("contrast.capability_id",),
        "target": ("contrast.target",),
        "name": ("capability_dictionary.name",),
        "marginal_coverage": _JUDGED,
        "*": _DECIDED,
    },
    "capability_spec": {
        "capability_id": ("selected_capabilities.capability_id", "selected_capabilities.kept"),
        "target": ("capability_dictionary.target",),
        "name": ("capability_dictionary.name",),
        "description": ("capability_dictionary.description",),
        "detector": ("capability_dictionary.detector",),
        "detector_args": ("capability_dictionary.detector_args",),
    },
    "target_contract": {
        "target": ("trajectories.target",),
        "n_trajectories": ("trajectories.trajectory_id",),
        "*": _READ,
    },
    "environment": {
        "capability_id": ("capability_spec.capability_id",),
        "target": ("capability_spec.target",),
        "*": _TAUGHT,
    },
    "environment_audit": {
        "environment_id": ("environment.environment_id",),
        "capability_id": ("environment.capability_id",),
        "*": _AUDITED,
    },
    "adapter": {
        "name": ("environment.capability_id",),
        "capability_id": ("environment.capability_id",),
        "environment_id": ("environment.environment_id",),
        "base_id": ("base_model.base_id",),
        "*": _TRAINED,
    },
    "pilot": {
        "capability_id": ("environment.capability_id",),
        "environment_id": ("environment.environment_id",),
        "*": (*_TRAINED, "capability_spec.detector", "capability_spec.detector_args"),
    },
    "learnability": {
        "capability_id": ("environment.capability_id",),
        "environment_id": ("environment.environment_id",),
        "adapter_id": ("adapter.adapter_id",),
        "*": ("environment_audit.environment_id", "adapter.adapter_id"),
    },
    "mixed_adapter": {"base_id": ("base_model.base_id",), "*": ("base_model.base_id",)},
    "adapter_validation": {
        "adapter": ("adapter.name",),
        "own_skills": ("tasks.tags", "labels.label", "triage.outcome"),
        "*": ("adapter.adapter_id", "base_model.base_id", "tasks.task_id", "tasks.tags"),
    },
    "routing": {"task_id": ("tasks.task_id",), "*": _ROUTED},
    "evaluation": {
        "task_id": ("routing.task_id",),
        "adapter": ("routing.choice", "adapter.name"),
        "*": _PLAYED,
    },
}
"""Asset to column to what it is made from; `*` stands for the columns that are not named."""


def column_lineage(asset: str, columns: list[str]) -> dg.TableColumnLineage | None:
    """Return the lineage of an asset's columns; None where none is declared.

    Args:
        asset: Asset name.
        columns: The columns of its main table.
    """
    declared = COLUMN_SOURCES.get(asset)
    if declared is None:
        return None
    others = declared.get("*", ())
    found = {column: declared.get(column, others) for column in columns}
    return dg.TableColumnLineage(
        deps_by_column={
            column: [_dependency(source) for source in sources]
            for column, sources in found.items()
            if sources
        }
    )


def _dependency(source: str) -> dg.TableColumnDep:
    asset, _, column = source.rpartition(".")
    return dg.TableColumnDep(asset_key=dg.AssetKey(asset.split("/")), column_name=column)
