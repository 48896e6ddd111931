"""What the commands print at their end: the tables of the report, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.assets.report import write_page
from trace_assets.diagnosis.triage import fault_shares
from trace_assets.records import Capability, Contrast, DecisiveShare, SelectedCapability, SuspectTask, Triage
from trace_assets.report.data import gather
from trace_assets.report.formatting import count
from trace_assets.report.terminal import print_diagnosis as print_diagnosis_tables
from trace_assets.report.terminal import print_found, print_loop
from trace_assets.study import Study

SHOWN = 5
"""Failures of others than the agent that are told one by one."""


def print_suspects(rows: Sequence[SuspectTask], console: Console) -> None:
    """Print the tasks that are put aside or suspected, with what speaks against the first of them."""
    tasks = list(dict.fromkeys(row.task_id for row in sorted(rows, key=lambda row: not row.aside)))
    if not tasks:
        return
    aside = {row.task_id for row in rows if row.aside}
    taken_back = (
        ' (triage.suspect_tasks = "keep" takes them back, triage.task_overrides one)' if aside else ""
    )
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
    shares = fault_shares(rows)
    if any(one["n"] for one in shares):  # without a failure there are no shares, only runs without verdicts
        title = "Whose fault the failures are"
        table = Table(title=title, show_edge=False, pad_edge=False, title_justify="left")
        for name in ("fault", "n", "share [95 %]", "rules"):
            table.add_column(name, justify="right" if name in ("n", "share [95 %]") else "left")
        for one in shares:
            rules = ", ".join(f"{rule} {n}" for rule, n in one["rules"].items())
            share = f"{one['share']:.1%} [{one['share_low']:.1%}, {one['share_high']:.1%}]"
            table.add_row(escape(str(one["fault"])), f"{one['n']:,}", escape(share), escape(rules))
        console.print(table)
    if missing := sum(row.rule == "reward_missing" for row in rows):
        console.print(
            f"  {count(missing, 'run has', 'runs have')} no verdict, which is no failure: write a reward or "
            "success into the logs, or name a CSV table with an id and a score a row together with them; "
            "without verdicts nothing can be said of what an agent lacks",
            soft_wrap=True,
        )
    others = [row for row in rows if row.outcome != "passed" and row.fault != "agent"]
    others = [row for row in others if row.rule != "reward_missing"]
    for row in others[:SHOWN]:
        where = ", ".join(str(index) for index in row.evidence)
        shown = f" (message {where})" if where else ""
        console.print(
            f"  {escape(row.trajectory_id)}: {escape(row.rule)}{shown}: {escape(row.detail)}", soft_wrap=True
        )
    if len(others) > SHOWN:
        left = len(others) - SHOWN
        console.print(f"  and {left:,} more: trace sql \"SELECT * FROM triage WHERE fault <> 'agent'\"")
    if suspected := [row for row in rows if row.suspected]:
        console.print(
            f"  {count(len(suspected), 'failure', 'failures')} left to the agent may be another's, by rules "
            "that are too often wrong to decide: "
            'trace sql "SELECT * FROM triage WHERE suspected IS NOT NULL"',
            soft_wrap=True,
        )
        for row in suspected[:SHOWN]:
            console.print(
                f"  {escape(row.trajectory_id)}: {row.suspected}, by {escape(row.suspicion)}", soft_wrap=True
            )


def print_diagnosis(study: Study, console: Console, *, as_json: bool = False) -> None:
    """Print what was found in the trajectories, with figures and reasons."""
    if as_json:
        import json

        document = {
            "faults": fault_shares(study.store.read(Triage)),
            **{
                record.table: [row.model_dump(mode="json") for row in study.store.read(record)]
                for record in (SuspectTask, Capability, Contrast, DecisiveShare, SelectedCapability)
            },
        }
        print(json.dumps(document, indent=2))
        return
    print_faults(study.store.read(Triage), console)
    print_suspects(study.store.read(SuspectTask), console)
    data = gather(study.store)
    print_diagnosis_tables(data, console)
    print_found(data, console)
    console.print(f"Report: {escape(str(write_page(study)))}", soft_wrap=True)


def print_everything(study: Study, console: Console) -> None:
    """Print the whole loop: diagnosis, environments, adapters, arms, cost, and where the page is."""
    data = gather(study.store)
    print_diagnosis_tables(data, console)
    print_loop(data, console)
    console.print(f"Report: {escape(str(write_page(study)))}", soft_wrap=True)
