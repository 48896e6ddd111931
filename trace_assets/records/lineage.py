"""What was made from what: recorded by each stage when it has made something, never inferred later."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from trace_assets.records.base import Record


class LineageEdge(Record):
    """Row of the table `lineage`: one thing was made from another, each in one version.

    Rows are only ever added, so the lineage of an adapter outlives the environment or contrast that it came
    from. An edge found again later keeps its first time; what an input was made from later does not count as
    an ancestor of what was made from it before (see the view `ancestors`).
    """

    table: ClassVar[str] = "lineage"
    key: ClassVar[tuple[str, ...]] = ("kind", "id", "version", "input_kind", "input_id", "input_version")
    volatile: ClassVar[frozenset[str]] = frozenset({"recorded_at"})

    kind: str
    """What was made: `labels`, `triage`, `capability`, `contrast`, `selection`, `spec`, `contract`,
    `environment`, `audit`, `adapter`, `routing` or `evaluation`."""
    id: str
    """Its name among its kind: a task batch, capability, target, router, split, or an adapter's name."""
    version: str
    """Its content; for environments and adapters their id."""
    input_kind: str
    """One of the kinds, or `trajectories`, `base_model`."""
    input_id: str
    input_version: str
    role: str
    """What the input was to it, in a word or two."""
    direct: bool = True
    """False where the input did not enter the content, but weighed in on a decision about it."""
    recorded_at: datetime


class LineageMember(Record):
    """Row of the table `lineage_members`: one trajectory, by one label, that entered something.

    An NA label of a success enters nothing and has no row.
    """

    table: ClassVar[str] = "lineage_members"
    key: ClassVar[tuple[str, ...]] = ("kind", "id", "version", "capability_id", "trajectory_id")

    kind: str
    """`contrast`, `contract` or `routing`."""
    id: str
    version: str
    capability_id: str
    """Whose label it entered by; empty where the trajectory itself was read."""
    trajectory_id: str
    outcome: str
    """Triage's outcome at that time."""
    label: str
    """The label, `mixed` where passes differ, empty where the trajectory itself was read."""
    relevant: bool
    """False for an NA label of a failure: it is in the denominator of coverage and nowhere else."""


class LineageNode(Record):
    """Row of the table `lineage_nodes`: the version of a thing that is in the store now."""

    table: ClassVar[str] = "lineage_nodes"
    key: ClassVar[tuple[str, ...]] = ("kind", "id")

    kind: str
    id: str
    version: str
