"""One attack on this machine's sandbox, and what came of it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from trace_assets.records.base import Record


class SandboxCheck(Record):
    """Row of the table `sandbox_checks`: one attack of `trace doctor --sandbox`, the latest run a backend."""

    table: ClassVar[str] = "sandbox_checks"
    key: ClassVar[tuple[str, ...]] = ("isolation_level", "attack")
    volatile: ClassVar[frozenset[str]] = frozenset({"detail", "seconds", "control_ms", "checked_at"})
    restored_by: ClassVar[str] = "trace doctor --sandbox"

    attack: str
    """Name of the attack."""
    family: Literal["exhaustion", "escape", "integrity", "placement", "recovery"]
    """What it is after: time and space, a way out, a reward, the reward's place, what a kill leaves."""
    tries: str
    """What it tries, in words."""
    status: Literal["pass", "fail", "skip"]
    expected: str
    """Outcomes that are good."""
    outcome: str
    """What came of it, such as `contained`, `timeout`, `died oom`; empty for a skip."""
    detail: str = ""
    """What shows it, or why it was skipped."""
    effects: tuple[str, ...] = ()
    """What was found on the host afterwards; none is good."""
    seconds: float = 0.0
    control_ms: float | None = None
    """Milliseconds from the deadline until the host was at work again; null where no deadline passed."""
    isolation_level: str
    sandbox_version: str
    checked_at: datetime
    """When it was played, UTC."""
