"""How often a tool was called by an agent, and how often it refused."""

from __future__ import annotations

from typing import ClassVar

from trace_assets.records.base import Record


class ToolUse(Record):
    """Row of the table `tool_use`: one tool under one policy in one batch; counts may be added up."""

    table: ClassVar[str] = "tool_use"
    key: ClassVar[tuple[str, ...]] = ("target", "policy", "tool", "task_batch")

    target: str
    policy: str
    """Who acted: a model or program name."""
    tool: str
    task_batch: str
    n_runs: int
    """Runs in which the agent called it."""
    n_calls: int
    """Its calls."""
    n_errors: int
    """Calls that it refused, that failed, or that were never answered."""
    n_unrecovered: int
    """Runs in which it refused and was never called successfully afterwards."""
    n_unrecovered_failed: int
    """Of these, runs that failed."""
