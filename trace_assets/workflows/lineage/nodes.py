"""How things in the store are named in lineage: kind, name and version, read off the tables as they are."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from trace_assets.records import (
    Adapter,
    BaseCheckpoint,
    Capability,
    CapabilitySpec,
    CheckRow,
    ContractRow,
    Contrast,
    Environment,
    EnvironmentCheck,
    Evaluation,
    Label,
    LineageMember,
    MessageRow,
    Route,
    SelectedCapability,
    Split,
    TrajectoryHead,
    Triage,
)
from trace_assets.records.table import polars_schema
from trace_assets.store.content import text_version
from trace_assets.store.history import Input, Node, row_version
from trace_assets.store.warehouse import Warehouse
from trace_assets.study import Study


def trajectories_of(study: Study, batch: str) -> Node:
    """Return a batch of trajectories, in the version that it was written in."""
    versions = (study.store.version(record, batch) or "" for record in (MessageRow, CheckRow, TrajectoryHead))
    return Node("trajectories", batch, text_version(*versions))


def triage_of(study: Study, batch: str) -> Node:
    """Return the outcomes of a batch."""
    return Node("triage", batch, study.store.version(Triage, batch) or "")


def labels_of(study: Study, batch: str) -> Node:
    """Return the labels of a batch."""
    return Node("labels", batch, study.store.version(Label, batch) or "")


def batches_by_target(study: Study) -> dict[str, list[str]]:
    """Return the task batches in which each target has trajectories."""
    found: dict[str, list[str]] = {}
    for batch in study.store.partitions(Triage):
        for target in study.store.frame(Triage, batch)["target"].unique().sort():
            found.setdefault(target, []).append(batch)
    return found


def capabilities(study: Study) -> dict[str, Node]:
    """Return the candidates by id."""
    rows = study.store.read(Capability)
    return {row.capability_id: Node("capability", row.capability_id, row_version(row)) for row in rows}


def contrasts(study: Study) -> dict[str, tuple[str, Node]]:
    """Return target and row of each contrast by capability."""
    rows = study.store.read(Contrast)
    return {
        row.capability_id: (row.target, Node("contrast", row.capability_id, row_version(row))) for row in rows
    }


def selections(study: Study) -> dict[str, Node]:
    """Return the decisions by capability."""
    rows = study.store.read(SelectedCapability)
    return {row.capability_id: Node("selection", row.capability_id, row_version(row)) for row in rows}


def specs(study: Study) -> dict[str, Node]:
    """Return the specs by capability."""
    rows = study.store.read(CapabilitySpec)
    return {row.capability_id: Node("spec", row.capability_id, row_version(row)) for row in rows}


def contracts(study: Study) -> dict[str, Node]:
    """Return the contracts by target."""
    return {
        row.target: Node("contract", row.target, row.fingerprint) for row in study.store.read(ContractRow)
    }


def environments(study: Study) -> dict[str, Node]:
    """Return the environments by capability."""
    rows = study.store.read(Environment)
    return {row.capability_id: Node("environment", row.capability_id, row.environment_id) for row in rows}


def base(study: Study) -> list[Input]:
    """Return the base model as an input."""
    rows = study.store.read(BaseCheckpoint)
    return [Input(Node("base_model", "base", row.base_id), "base model") for row in rows]


def adapter(row: Adapter) -> Node:
    """Return an adapter."""
    return Node("adapter", row.name, row.adapter_id)


def some(nodes: Iterable[Node | None], role: str, *, direct: bool = True) -> list[Input]:
    """Return those of the nodes that exist, as inputs of one role."""
    return [Input(node, role, direct) for node in nodes if node is not None]


def audit_of(study: Study, capability: str) -> Node | None:
    """Return the audit of a capability's environment, None when there is none."""
    version = study.store.version(EnvironmentCheck, capability)
    return Node("audit", capability, version) if version else None


def evaluation_of(study: Study, split: Split) -> Node:
    """Return the evaluation on one split."""
    return Node("evaluation", split, study.store.version(Evaluation, split) or "")


def routings(study: Study) -> dict[str, Node]:
    """Return the routers that have decided."""
    version = study.store.version(Route) or ""
    names = study.store.frame(Route)["router"].unique().sort()
    return {router: Node("routing", router, version) for router in names}


def query(study: Study, sql: str, parameters: dict[str, object] | None = None) -> pl.DataFrame:
    """Run one query over the study's tables."""
    with Warehouse(study.home) as warehouse:
        return warehouse.query(sql, parameters)


def members(kind: str, rows: pl.DataFrame, nodes: Iterable[Node]) -> pl.DataFrame:
    """Return rows as `lineage_members`, each with the version of the thing that it entered.

    Args:
        kind: Kind of the things.
        rows: All columns but `kind` and `version`; rows of things that were not made are left out.
        nodes: The things made.
    """
    schema = polars_schema(LineageMember)
    known = pl.DataFrame(
        [(node.id, node.version) for node in nodes],
        schema={"id": pl.String(), "version": pl.String()},
        orient="row",
    )
    joined = rows.join(known, on="id", how="inner").with_columns(pl.lit(kind).alias("kind"))
    return joined.select(pl.col(name).cast(dtype) for name, dtype in schema.items())
