"""`trace doctor --sandbox`: every attack on this machine's own sandbox."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.checkup.finding import TRAINING, Finding
from trace_assets.progress import progress
from trace_assets.records import SandboxCheck
from trace_assets.study import Study

COLOURS = {"pass": "green", "fail": "red", "skip": "yellow"}


def attack_sandbox(study: Study, console: Console, as_json: bool) -> int:
    """Play the battery, store it in tables and in Dagster's history, and print it.

    Returns:
        The exit code: 0 when every attack was held, 1 when one was not.

    Raises:
        SandboxUnavailable: There is no sandbox.
    """
    from trace_assets.assets.instance import prepare_instance
    from trace_assets.assets.sandbox_check import report_battery
    from trace_assets.sandbox.battery.run import battery_size
    from trace_assets.stages.sandbox_check import Present, check_sandbox

    with progress("attacks on the sandbox", battery_size()) as bar:
        rows = check_sandbox(study, listen=lambda played: bar.advance(note=played.name))
    present = Present(rows[0].sandbox_version, rows[0].isolation_level)
    with prepare_instance(study.home) as instance:
        judged = report_battery(instance, study, present)
    if as_json:
        document = {
            "passed": judged.passed,
            "detail": judged.detail,
            "sandbox_version": present.version,
            "isolation_level": present.isolation_level,
            "counts": dict(Counter(row.status for row in rows)),
            "attacks": [row.model_dump(mode="json") for row in rows],
        }
        print(json.dumps(document, indent=2))
    else:
        _show(rows, console)
        colour = "green" if judged.passed else "red"
        console.print(f"[{colour}]{escape(judged.detail)}[/]", soft_wrap=True)
    return 0 if judged.passed else 1


def _show(rows: Sequence[SandboxCheck], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("", "attack", "expected", "outcome"):
        table.add_column(title, overflow="fold")
    table.add_column("time", justify="right")
    family = ""
    for row in rows:
        if row.family != family:
            family = row.family
            table.add_row("", f"[bold]{family}[/]")
        outcome = row.outcome or f"skipped: {row.detail}"
        if row.status == "fail":
            outcome += f": {'; '.join([*row.effects, row.detail])[:400]}"
        colour = COLOURS[row.status]
        late = "" if row.control_ms is None else f" (+{row.control_ms:.0f} ms)"
        table.add_row(
            f"[{colour}]{row.status}[/]",
            row.attack,
            row.expected,
            escape(outcome),
            f"{row.seconds:.2f} s{late}" if row.status != "skip" else "",
        )
    console.print(table)


def battery_finding(study: Study) -> Finding:
    """Look at what the last battery said, and whether it was of the sandbox in use."""
    from trace_assets.stages.sandbox_check import COMMAND, judge_battery, present_sandbox

    judged = judge_battery(study.store.read(SandboxCheck), present_sandbox(study))
    if judged.passed:
        return Finding("sandbox: attacks", "ok", judged.detail, TRAINING)
    if judged.passed is None:
        return Finding("sandbox: attacks", "degraded", judged.detail, TRAINING, COMMAND)
    fix = "trace sql sandbox_attacks; update Docker and the kernel, then run the battery again"
    return Finding("sandbox: attacks", "missing", judged.detail, TRAINING, fix)
