"""`trace audit`: the audit battery on an environment module, or on the zoo that proves the battery."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, RequireDocker, Set, open_study
from trace_assets.errors import InputError

if TYPE_CHECKING:
    from trace_assets.records import EnvironmentCheck
    from trace_assets.study import Study

COLOURS = {"pass": "green", "fail": "red", "skip": "yellow"}


def audit(
    file: Annotated[
        Path | None, typer.Argument(help="A Python module that follows the environment protocol.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="A TOML file with thresholds and severities of your own."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Hold the module to this target's contract (see `trace contract`)."),
    ] = None,
    zoo: Annotated[
        bool,
        typer.Option(
            "--zoo", help="Audit the zoo of broken environments instead: each must fail its own check."
        ),
    ] = False,
    require_docker: RequireDocker = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Audit an environment module in the sandbox; exit 0 accepted, 1 rejected, 2 unusable, 3 not run."""
    study = open_study(config, overrides)
    if zoo and (file is not None or policy is not None or target is not None):
        raise InputError(
            "--zoo audits the zoo by its own policy; leave the module, --policy and --target out."
        )
    if zoo:
        raise typer.Exit(_zoo(study, as_json))
    if file is None:
        raise InputError("no module was named; give a Python file, or --zoo.")
    raise typer.Exit(_module(study, file, policy, target, as_json))


def _module(study: Study, file: Path, policy: Path | None, target: str | None, as_json: bool) -> int:
    from trace_assets.stages.synthesis import audit_source
    from trace_assets.synthesis.audit.severity import RULES, load_rules

    rules = RULES if policy is None else load_rules(policy)
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the module {file} cannot be read ({error}); name a Python file.") from error
    checks, accepted, reasons = audit_source(study, source, rules, target)
    if as_json:
        rows = [row.model_dump() for row in checks]
        document = {"accepted": accepted, "policy": rules.version, "reasons": reasons, "checks": rows}
        print(json.dumps(document, indent=2))
    else:
        _print(checks)
        console = make_console()
        console.print("accepted" if accepted else f"rejected: {escape('; '.join(reasons))}", soft_wrap=True)
    return 0 if accepted else 1


def _print(checks: Sequence[EnvironmentCheck]) -> None:
    """Print the findings by level, in the order in which they were made."""
    console = make_console()
    levels = list(dict.fromkeys(row.level for row in checks))
    for level, rows in groupby(sorted(checks, key=lambda row: levels.index(row.level)), lambda r: r.level):
        console.print(f"[bold]{level}[/]")
        for row in rows:
            value = (
                "" if row.value is None else f" {row.value:.3g}" if row.value < 1000 else f" {row.value:,.0f}"
            )
            interval = "" if row.low is None or row.high is None else f" [{row.low:.2f}, {row.high:.2f}]"
            size = "" if row.n is None else f" (n={row.n})"
            weight = "" if row.status == "pass" or row.severity == "error" else f" ({row.severity})"
            console.print(
                f"  [{COLOURS[row.status]}]{row.status}[/]{weight} {row.check_id}"
                f"{value}{escape(interval)}{size} [dim]{escape(row.bound)} {escape(row.seen[:300])}[/]",
                soft_wrap=True,
            )


def _zoo(study: Study, as_json: bool) -> int:
    from trace_assets.stages.synthesis import sandbox_pool
    from trace_assets.synthesis.zoo.tour import tour

    console = make_console()
    visits = []
    with sandbox_pool(study) as pool:
        for visit in tour(pool):
            visits.append(visit)
            if not as_json:
                seen = ", ".join(visit.failed) or "nothing"
                mark = "[green]right[/]" if visit.right else "[red]WRONG[/]"
                wanted = "" if visit.right else f", should fail {visit.expected or 'nothing'}"
                console.print(
                    f"{mark} {escape(visit.name)} [dim]({visit.base})[/] fails {seen}{wanted}", soft_wrap=True
                )
        isolation = pool.isolation_level
    wrong = [visit for visit in visits if not visit.right]
    if as_json:
        rows = [
            {"name": v.name, "base": v.base, "expected": v.expected, "failed": v.failed, "right": v.right}
            for v in visits
        ]
        print(json.dumps({"isolation": isolation, "wrong": len(wrong), "visits": rows}, indent=2))
    else:
        sound = sum(not visit.expected for visit in visits)
        console.print(
            f"{len(visits) - sound} broken and {sound} sound environments, {len(wrong)} audited wrongly "
            f"(isolation: {isolation})."
        )
    return 1 if wrong else 0
