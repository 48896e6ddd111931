"""Whose fault the failures are, for a terminal: shares with intervals, and what shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.records import Triage
from trace_assets.statistics.wilson import wilson

FAULTS = ("agent", "user_simulator", "environment", "infrastructure")
SHOWN = 5
"""Failures of others than the agent that are told one by one."""


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


def print_faults(rows: Sequence[Triage], console: Console) -> None:
    """Print to whom failures are put down; only those of the agent go on to discovery."""
    if not any(row.outcome != "passed" for row in rows):
        return
    table = Table(title="Whose fault the failures are", show_edge=False, pad_edge=False, title_justify="left")
    for name in ("fault", "n", "share [95 %]", "rules"):
        table.add_column(name, justify="right" if name in ("n", "share [95 %]") else "left")
    for one in fault_shares(rows):
        rules = ", ".join(f"{rule} {n}" for rule, n in one["rules"].items())
        share = f"{one['share']:.1%} [{one['share_low']:.1%}, {one['share_high']:.1%}]"
        table.add_row(one["fault"], f"{one['n']:,}", share, rules)
    console.print(table)
    others = [row for row in rows if row.outcome != "passed" and row.fault != "agent"]
    for row in others[:SHOWN]:
        where = ", ".join(str(index) for index in row.evidence)
        shown = f" (message {where})" if where else ""
        console.print(
            f"  {escape(row.trajectory_id)}: {row.rule}{shown}: {escape(row.detail)}", soft_wrap=True
        )
    if len(others) > SHOWN:
        left = len(others) - SHOWN
        console.print(f"  and {left:,} more: trace sql \"SELECT * FROM triage WHERE fault <> 'agent'\"")
