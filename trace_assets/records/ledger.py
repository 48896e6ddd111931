"""What every stage cost."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

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
