"""Files that came through a watched folder: what was taken of them, and what was put aside."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from trace_assets.records.base import Record

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
