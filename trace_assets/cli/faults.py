"""Whose fault the failures are, for a terminal: shares with intervals, and what shows it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.diagnosis.fault_shares import fault_shares
from trace_assets.records import SuspectTask, Triage
from trace_assets.report.figures import count

SHOWN = 5
"""Failures of others than the agent that are told one by one."""


def print_suspects(rows: Sequence[SuspectTask], console: Console) -> None:
    """Print the tasks that are put aside or suspected, with what speaks against the first of them."""
    tasks = list(dict.fromkeys(row.task_id for row in sorted(rows, key=lambda row: not row.aside)))
    if not tasks:
        return
    aside = {row.task_id for row in rows if row.aside}
    taken_back = ' (triage.suspect_tasks = "keep" takes them back)' if aside else ""
    console.print(
        f"{count(len(aside), 'task is', 'tasks are')} put aside, as the ground truth is wrong{taken_back}; "
        f"{count(len(tasks) - len(aside), 'other is', 'others are')} suspected",
        highlight=False,
    )
    for task in tasks[:SHOWN]:
        why = next(row.detail for row in rows if row.task_id == task)
        console.print(f"  {escape(task)}: {escape(why)}", soft_wrap=True)
    if len(tasks) > SHOWN:
        console.print(f"  and {len(tasks) - SHOWN:,} more: trace sql suspect_tasks")


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
        table.add_row(escape(str(one["fault"])), f"{one['n']:,}", escape(share), escape(rules))
    console.print(table)
    others = [row for row in rows if row.outcome != "passed" and row.fault != "agent"]
    for row in others[:SHOWN]:
        where = ", ".join(str(index) for index in row.evidence)
        shown = f" (message {where})" if where else ""
        console.print(
            f"  {escape(row.trajectory_id)}: {escape(row.rule)}{shown}: {escape(row.detail)}", soft_wrap=True
        )
    if len(others) > SHOWN:
        left = len(others) - SHOWN
        console.print(f"  and {left:,} more: trace sql \"SELECT * FROM triage WHERE fault <> 'agent'\"")
