"""What a conformance kit found, as a person or a program reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.conformance import Finding, tally


def report_findings(findings: Sequence[Finding], *, as_json: bool) -> typer.Exit:
    """Print findings.

    Returns:
        What to raise: exit 0 when no promise is broken, 1 otherwise.
    """
    counts = tally(findings)
    if as_json:
        print(json.dumps({**counts, "checks": [asdict(one) for one in findings]}, indent=2))
    else:
        console = make_console()
        states = {True: "[green]pass[/]", False: "[red]FAIL[/]", None: "[yellow]not run[/]"}
        for one in findings:
            words = one.detail or one.promise
            if one.passed is False:
                words = f"{one.detail}\n    wanted: {one.promise}"
            console.print(f"{states[one.passed]} {one.check}  [dim]{escape(words)}[/]", soft_wrap=True)
        said = ", ".join(f"{n} {state.replace('_', ' ')}" for state, n in counts.items() if n)
        console.print(f"{'does not conform' if counts['failed'] else 'conforms'}: {said}", soft_wrap=True)
    return typer.Exit(1 if counts["failed"] else 0)
