"""What the commands print at their end: the tables of the report, for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from trace_assets.assets.report import write_page
from trace_assets.cli.diagnosis import print_faults, print_suspects
from trace_assets.diagnosis.triage import fault_shares
from trace_assets.records import (
    Capability,
    Contrast,
    DecisiveShare,
    SelectedCapability,
    SuspectTask,
    Triage,
)
from trace_assets.report.data import gather
from trace_assets.report.terminal import print_diagnosis as print_diagnosis_tables
from trace_assets.report.terminal import print_found, print_loop
from trace_assets.study import Study


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
