"""What a stage says about itself when it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Figure = int | float | str | bool

TableRow = Mapping[str, int | float | str | bool | None]
"""A row of a small table for people; figures carry their interval in words."""


@dataclass(frozen=True)
class StageCheck:
    """A check on what a stage made.

    Attributes:
        name: Stable name, one check a name and asset.
        passed: Whether it holds; None when it could not be run, which is shown and is never a pass.
        detail: One sentence with the figures.
        severity: A failed `error` stops what comes next; a failed `warning` is shown.
    """

    name: str
    passed: bool | None
    detail: str
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True)
class StageResult:
    """What a stage made.

    Attributes:
        version: Content version of all tables and folders written: equal content, equal version.
        rows: Rows in the main table.
        figures: Numbers and short texts with stable names; None is left out.
        pages: Markdown by title: plots, code, long text.
        tables: Small tables by title, at most some dozens of rows; all rows have the same columns.
        checks: What was checked.
        spent: (kind, unit) to quantity, for the ledger, beside wall and CPU seconds.
        cost_usd: Money spent.
        recorded: To be called once the materialization is recorded: removes what another try would have
            needed.
    """

    version: str
    rows: int
    figures: Mapping[str, Figure] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    tables: Mapping[str, Sequence[TableRow]] = field(default_factory=dict)
    checks: tuple[StageCheck, ...] = ()
    spent: dict[tuple[str, str], float] = field(default_factory=dict)
    cost_usd: float = 0.0
    recorded: Callable[[], None] | None = None
