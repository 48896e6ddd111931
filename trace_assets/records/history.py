"""What every stage cost."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from trace_assets.records.base import Record


class LedgerEntry(Record):
    """Row of the table `ledger`: one materialization, or one kind of spending inside it."""

    table: ClassVar[str] = "ledger"
    key: ClassVar[tuple[str, ...]] = ("recorded_at", "asset", "partition", "kind")
    restored_by: ClassVar[str] = ""

    recorded_at: datetime
    stage: str
    asset: str
    partition: str = ""
    kind: str
    """`wall`, `cpu`, `rollouts`, `prompt_tokens`, `completion_tokens`, `gpu`."""
    quantity: float
    unit: str
    cost_usd: float = 0.0
    run_id: str = ""


# What was made from what: recorded by each stage when it has made something, never inferred later.


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


class MadeWith(Record):
    """Row of the table `made_with`: one setting that an item with finished work was made with."""

    table: ClassVar[str] = "made_with"
    key: ClassVar[tuple[str, ...]] = ("asset", "partition", "setting")

    asset: str
    """What was made, such as `trajectories`."""
    partition: str
    """Which of it: a task batch or capability; empty where the asset has no partitions."""
    setting: str
    """Its name, such as `rollouts.temperature`; `base_model` is the content of the base model."""
    value: str
    """Its value as JSON."""


# Files that came through a watched folder: what was taken of them, and what was put aside.


ArrivalKind = Literal["tasks", "trajectories"]


class Arrival(Record):
    """Row of the table `arrivals`: a batch that a file became. Content that is here is never taken again."""

    table: ClassVar[str] = "arrivals"
    key: ClassVar[tuple[str, ...]] = ("content_hash", "task_batch")
    volatile: ClassVar[frozenset[str]] = frozenset({"taken_at"})
    restored_by: ClassVar[str] = ""

    content_hash: str
    """SHA-256 of the file's bytes."""
    kind: ArrivalKind
    file: str
    """The file's name as it was found."""
    task_batch: str
    """Partition that it became; empty when everything in it was known already."""
    n_taken: int
    """Tasks or trajectories that were new."""
    n_refused: int
    """Rows that were put aside, each with its reason in `quarantine`."""
    taken_at: datetime

    @property
    def sentence(self) -> str:
        """What came of the file, for a person."""
        became = f"batch {self.task_batch}" if self.task_batch else "nothing that was not known"
        return f"{self.file}: {self.n_taken} {self.kind} as {became}, {self.n_refused} rows refused."


class Quarantined(Record):
    """Row of the table `quarantine`: a file, or a row of one, that could not be used, and why."""

    table: ClassVar[str] = "quarantine"
    key: ClassVar[tuple[str, ...]] = ("content_hash", "position", "reason")
    volatile: ClassVar[frozenset[str]] = frozenset({"quarantined_at"})
    restored_by: ClassVar[str] = ""

    content_hash: str
    """SHA-256 of the file's bytes."""
    kind: ArrivalKind
    file: str
    """The file's name as it was found."""
    position: str = ""
    """Where in it, such as `line 7`; empty when the whole file was put aside."""
    reason: str
    """One sentence: what is wrong and how to mend it."""
    kept_at: str
    """Where the file (or the refused rows) lies now, relative to the home; empty when it was not moved."""
    quarantined_at: datetime

    @property
    def sentence(self) -> str:
        """What was put aside and why, for a person."""
        place = f"{self.file}, {self.position}" if self.position else self.file
        return f"{place}: {self.reason}"
