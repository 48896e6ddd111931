"""Where lineage is kept: edges that are only ever added, and the versions that are in the store now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import polars as pl

from trace_assets.records import LineageEdge, LineageMember, LineageNode, Record
from trace_assets.records.table import polars_schema
from trace_assets.store.content import text_version
from trace_assets.store.tables import Store


@dataclass(frozen=True, order=True)
class Node:
    """One version of one thing; see `LineageEdge` for the kinds."""

    kind: str
    id: str
    version: str


@dataclass(frozen=True)
class Input:
    """What something was made from; see `LineageEdge`."""

    node: Node
    role: str
    direct: bool = True


@dataclass
class Made:
    """What one materialization made, and from what.

    Attributes:
        inputs: Each thing made, with its inputs.
        members: Rows of `lineage_members`: trajectories and labels that entered.
    """

    inputs: dict[Node, list[Input]] = field(default_factory=dict)
    members: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=polars_schema(LineageMember)))

    def add(self, node: Node, inputs: Iterable[Input]) -> None:
        """Note a thing that was made and its inputs; one that was noted before gets further inputs."""
        self.inputs.setdefault(node, []).extend(inputs)


def row_version(row: Record) -> str:
    """Return the content version of one row, volatile columns left out."""
    return text_version(row.model_dump_json(exclude=set(row.volatile)))


def keep(store: Store, asset: str, partition: str, made: Made) -> None:
    """Store what a materialization made.

    The same edges again keep the time of the first; edges of another content come beside the old ones. What
    the asset's partition held before is no longer in the store.

    Args:
        store: Where to.
        asset: Name of the asset.
        partition: Its partition, empty for one without.
        made: What it made.
    """
    place = f"{asset}.{partition}" if partition else asset
    store.write(
        [LineageNode(kind=node.kind, id=node.id, version=node.version) for node in made.inputs],
        LineageNode,
        place,
    )
    now = datetime.now(UTC)
    edges = [
        LineageEdge(
            kind=node.kind,
            id=node.id,
            version=node.version,
            input_kind=one.node.kind,
            input_id=one.node.id,
            input_version=one.node.version,
            role=one.role,
            direct=one.direct,
            recorded_at=now,
        )
        for node, inputs in made.inputs.items()
        for one in inputs
    ]
    if made.members.height:
        things = sorted(f"{node.kind} {node.id} {node.version}" for node in made.inputs)
        name = f"{asset}-{text_version(*things)}"
        if not store.has(LineageMember, name):
            store.write_frame(made.members.sort(list(LineageMember.key)), LineageMember, name)
    if edges:
        name = f"{asset}-{_fingerprint(edges)}"
        if not store.has(LineageEdge, name):
            store.write(edges, LineageEdge, name)


def _fingerprint(edges: Sequence[LineageEdge]) -> str:
    return text_version(*sorted(row_version(edge) for edge in edges))
