"""Whose fault the failures are, as shares with their intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from trace_assets.records import Triage
from trace_assets.statistics.wilson import wilson

FAULTS = ("agent", "user_simulator", "ground_truth", "environment", "infrastructure")


def fault_shares(rows: Sequence[Triage]) -> list[dict[str, Any]]:
    """Return for each fault its failures, their share of all, a 95 % Wilson interval, and the rules."""
    failures = [row for row in rows if row.outcome != "passed"]
    shares = []
    for fault in FAULTS:
        own = [row for row in failures if row.fault == fault]
        low, high = wilson(len(own), len(failures))
        shares.append(
            {
                "fault": fault,
                "n": len(own),
                "of": len(failures),
                "share": len(own) / len(failures) if failures else None,
                "share_low": low,
                "share_high": high,
                "rules": dict(Counter(row.rule for row in own).most_common()),
            }
        )
    return shares
