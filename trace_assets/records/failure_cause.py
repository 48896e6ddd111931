"""Why one run failed: the party, the message that decided it, and the capability that was missing."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Record
from trace_assets.records.trajectory import Fault


class FailureCause(Record):
    """Row of the table `failure_causes`: one a trajectory that did not pass."""

    table: ClassVar[str] = "failure_causes"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id",)

    trajectory_id: str
    target: str
    task_id: str
    party: Fault
    """Whose repair alone would have made this run pass."""
    decisive_message: int | None = None
    """Index of the message that could not be undone, or that the other side acted on; null where the cause
    is an absence up to the end."""
    capability: str | None = None
    """Capability id of what the agent lacked; null for other parties' faults, and where nothing is known."""
    words: str = ""
    """The cause in one sentence."""
    confidence: Literal["high", "medium", "low"] = "low"
    source: Literal["rule", "model"] = "rule"
    rule: str = ""
    """What decided: a rule of the triage, or the family of the detector that labelled."""
    repaired: bool | None = None
    """Whether the run passes once this is repaired and the rest replayed; null where that was not tried."""
