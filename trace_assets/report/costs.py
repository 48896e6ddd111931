"""What each stage cost, from the ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from trace_assets.records import LedgerEntry


def stage_costs(ledger: Sequence[LedgerEntry]) -> dict[str, dict[str, float]]:
    """Sum what each stage took.

    Time and quantities are those of the latest materialization of each asset and partition: what it takes to
    get what is in the store. Money is that of all materializations: what was paid.

    Returns:
        Stage to kind to quantity, stages in the order in which they were first recorded; the kind `usd`
        is money.
    """
    rows = sorted(ledger, key=lambda row: row.recorded_at)
    latest = {(row.asset, row.partition): row.recorded_at for row in rows}
    stages: dict[str, dict[str, float]] = {}
    for row in rows:
        spent = stages.setdefault(row.stage, defaultdict(float))
        spent["usd"] += row.cost_usd
        if row.recorded_at == latest[row.asset, row.partition]:
            spent[row.kind] += row.quantity
    return stages
