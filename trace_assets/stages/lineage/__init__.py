"""Lineage as it is recorded: what each asset was made from, read off the tables right after its stage."""

from __future__ import annotations

from collections.abc import Callable

from trace_assets.stages.lineage import diagnosis, teaching
from trace_assets.store.lineage import Made, keep
from trace_assets.study import Study

RECORDERS: dict[str, Callable[[Study, str], Made]] = {
    "base_model": teaching.made_base,
    "trajectories": diagnosis.made_trajectories,
    "triage": diagnosis.made_triage,
    "capability_dictionary": diagnosis.made_dictionary,
    "labels": diagnosis.made_labels,
    "contrast": diagnosis.made_contrast,
    "selected_capabilities": diagnosis.made_selection,
    "capability_spec": diagnosis.made_spec,
    "target_contract": diagnosis.made_contract,
    "environment": teaching.made_environment,
    "environment_audit": teaching.made_audit,
    "adapter": teaching.made_adapter,
    "mixed_adapter": teaching.made_adapter,
    "adapter_validation": teaching.made_validation,
    "routing": teaching.made_routing,
    "evaluation": teaching.made_evaluation,
}
"""Asset to what tells what it was made from."""


def record_lineage(study: Study, asset: str, partition: str = "") -> None:
    """Store what an asset (or one partition of it) has just been made from.

    Args:
        study: The study whose tables the stage has written.
        asset: Name of the asset; one that makes nothing out of trajectories is passed over.
        partition: Its partition, empty for one without.
    """
    if asset in RECORDERS:
        keep(study.store, asset, partition, RECORDERS[asset](study, partition))
