"""Lineage as it is recorded: what each asset was made from, read off the tables right after its stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from trace_assets.errors import InputError
from trace_assets.records import LineageEdge, LineageMember, LineageNode
from trace_assets.store.history import Made, keep
from trace_assets.study import Study
from trace_assets.workflows.lineage import edges

RECORDERS: dict[str, Callable[[Study, str], Made]] = {
    "base_model": edges.made_base,
    "trajectories": edges.made_trajectories,
    "triage": edges.made_triage,
    "capability_dictionary": edges.made_dictionary,
    "labels": edges.made_labels,
    "contrast": edges.made_contrast,
    "selected_capabilities": edges.made_selection,
    "capability_spec": edges.made_spec,
    "target_contract": edges.made_contract,
    "environment": edges.made_environment,
    "environment_audit": edges.made_audit,
    "adapter": edges.made_adapter,
    "mixed_adapter": edges.made_adapter,
    "joint_adapters": edges.made_joint,
    "consolidated": edges.made_consolidated,
    "adapter_validation": edges.made_validation,
    "routing": edges.made_routing,
    "evaluation": edges.made_evaluation,
}
"""Asset to what tells what it was made from."""


TABLES = (LineageEdge, LineageMember, LineageNode)


def mend_lineage(study: Study, items: Iterable[tuple[str, str]]) -> list[str]:
    """Record the lineage of items again where records of it were lost or altered.

    Args:
        study: The study.
        items: Asset and partition of everything that was made.

    Returns:
        The names of the records that are lost for good: those of versions that are no longer in the store.
    """
    store = study.store
    if store.manifest is None:
        return []
    starts = tuple(store.manifest.name(store.folder / record.table) + "/" for record in TABLES)
    lost = store.manifest.problems(name for name in store.manifest.entries() if name.startswith(starts))
    if not lost:
        return []
    with store.manifest.removing(list(lost)):
        for name in lost:
            store.manifest.path(name).unlink(missing_ok=True)
    for asset, partition in items:
        with suppress(InputError):  # what it is read from is lost too: recorded when that is made again
            record_lineage(study, asset, partition)
    return sorted(set(lost) - set(store.manifest.entries()))


def record_lineage(study: Study, asset: str, partition: str = "") -> None:
    """Store what an asset (or one partition of it) has just been made from.

    Args:
        study: The study whose tables the stage has written.
        asset: Name of the asset; one that makes nothing out of trajectories is passed over.
        partition: Its partition, empty for one without.
    """
    if asset in RECORDERS:
        keep(study.store, asset, partition, RECORDERS[asset](study, partition))
