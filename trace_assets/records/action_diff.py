"""What a failed run should have done and did: one write that is missing, too much, or other than expected."""

from __future__ import annotations

from typing import ClassVar, Literal

from trace_assets.records.base import Json, Record


class ActionDiff(Record):
    """Row of the table `action_diffs`. From the ground truth: never shown to anybody who labels."""

    table: ClassVar[str] = "action_diffs"
    key: ClassVar[tuple[str, ...]] = ("trajectory_id", "number")

    trajectory_id: str
    number: int
    """Counts the rows of a trajectory from 0: missed and altered ones in the expected order, then surplus."""
    target: str
    task_id: str
    policy: str
    """Who acted: a model or program name."""
    kind: Literal["missed", "surplus", "altered"]
    """`missed`: expected and not done; `surplus`: done and not expected; `altered`: with other arguments."""
    tool: str
    expected_arguments: Json = {}
    """Empty for surplus ones."""
    arguments: Json = {}
    """As called; empty for missed ones."""
    changed: tuple[str, ...] = ()
    """Arguments that differ, for altered ones."""
    message: int | None = None
    """Index of the call; null for missed ones."""
    refused: int = 0
    """For missed ones: how often the very call was made and refused by the tool."""
