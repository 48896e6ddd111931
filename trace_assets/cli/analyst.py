"""`trace analyst`: what a model analyst will cost, and whether an analyst keeps its promises."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.cli.options import MANY, Config, Json, Set, confirm, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.conformance import Finding, tally
from trace_assets.errors import InputError
from trace_assets.report.formatting import money

if TYPE_CHECKING:
    from trace_assets.settings import Analyst
    from trace_assets.study import Study
    from trace_assets.workflows.forecast import Forecast


app = typer.Typer(
    name="analyst", help="What a model analyst costs, and whether an analyst keeps its promises."
)


@app.command("forecast")
def show_forecast(config: Config = None, overrides: Set = None, as_json: Json = False) -> None:
    """Print what the model calls of `trace diagnose` would cost now; makes none."""
    from trace_assets.workflows.forecast import asks_model, forecast, spent_so_far

    study = open_study(config, overrides)
    if not asks_model(study):
        raise InputError(
            "no model is set: set analyst.model, or that of one stage (triage.model, discovery.analyst and "
            "discovery.model, labels.model)."
        )
    rows = forecast(study)
    if as_json:
        print(
            json.dumps({"stages": [asdict(row) for row in rows], "spent_usd": spent_so_far(study)}, indent=2)
        )
    else:
        print_forecast(study, rows, make_console())


@app.command("check")
def check(
    analyst: Annotated[
        str,
        typer.Argument(
            help="module:factory of an analyst, or `detectors`, or `model` for the settings' own."
        ),
    ],
    tasks: Annotated[int, typer.Option(help="Rehearsed tasks, two trials each.", min=20, max=MANY)] = 60,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Check that an analyst is blind, complete, repeatable and honest about evidence, on rehearsed episodes.

    The episodes come from a script with known deficits, so no model is needed to make them. `model` asks the
    server that the section `analyst` names, and pays for it.
    """
    from trace_assets.diagnosis.conformance import examine_analyst, load_analyst
    from trace_assets.diagnosis.llm.analyst import rehearse
    from trace_assets.resources.analysts import open_detectors, open_model

    study = open_study(config, overrides)
    trajectories = rehearse(tasks).trajectories
    if analyst == "model":
        with open_model(study, "analyst_check") as (model, _):
            findings = examine_analyst(model, trajectories)
    elif analyst == "detectors":
        findings = examine_analyst(open_detectors(study, "embedded"), trajectories)
    else:
        findings = examine_analyst(load_analyst(analyst), trajectories)
    raise report_findings(findings, as_json=as_json)


def warn_of_unknown(study: Study) -> None:
    """Say of which agents a model would not be told the policy or the tools, and how to give them.

    Before anything is spent: the answers are remembered, and what is given later has all asked anew.
    """
    from trace_assets.workflows.forecast import unknown_means

    console = make_console(stderr=True)
    for target, missing in unknown_means(study).items():
        options = " ".join(f"--{name} FILE" for name in missing)
        console.print(
            f"[yellow]warning[/] {escape(target)}: its agent's {' and '.join(missing)} are not known here, "
            "and a model that is not told them cannot hold the agent to them. Give them first: "
            f"trace contract {escape(target)} {options}",
            soft_wrap=True,
            highlight=False,
        )


def agree_on_spending(study: Study, yes: bool, *, quiet: bool) -> None:
    """Print the forecast where a model will be asked, and ask for consent at a terminal.

    Scripts are never asked: there the cap decides.

    Raises:
        Exit: The person said no.
    """
    from trace_assets.workflows.forecast import asks_model, forecast

    section = study.settings.analyst
    if not asks_model(study) or (section.recording and not section.base_url):
        return
    rows = forecast(study)
    if not quiet:
        print_forecast(study, rows, make_console(stderr=True))
    wanted = any(row.calls for row in rows)
    interactive = sys.stdin.isatty() and sys.stderr.isatty()
    if wanted and interactive and not yes and not confirm("Go on?", default=True):
        raise typer.Exit(0)


def print_forecast(
    study: Study,
    rows: Sequence[Forecast],
    console: Console,
    section: Analyst | None = None,
    name: str = "analyst",
) -> None:
    """Print one line a stage, and what the cap leaves.

    Args:
        study: Whose spending it is.
        rows: What is foreseen.
        console: Where to.
        section: The server's, by default the analyst's with the prices of its models.
        name: Of that section.
    """
    from trace_assets.resources.analysts import analyst_section
    from trace_assets.workflows.forecast import spent_so_far

    section = section or analyst_section(study)
    priced = bool(section.prompt_usd or section.completion_usd)
    for row in rows:
        cost = f"about {money(row.usd)}" if priced else "no prices are set"
        known = f"; {row.remembered} answered already" if row.remembered else ""
        guess = f" (assuming {row.assumed})" if row.assumed else ""
        console.print(
            f"{row.stage}: {row.calls} requests, {row.prompt_tokens:,} prompt and "
            f"{row.completion_tokens:,} completion tokens, {cost}{guess}{known}",
            soft_wrap=True,
        )
    spent = spent_so_far(study)
    if section.cap_usd is not None:
        console.print(f"cap: {money(section.cap_usd)}, of which {money(spent)} is spent", soft_wrap=True)
    if section.cap_calls is not None:
        console.print(f"cap: {section.cap_calls} requests in all", soft_wrap=True)
    elif section.cap_usd is None and priced:
        console.print(f"no cap is set ({name}.cap_usd); {money(spent)} spent so far", soft_wrap=True)


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
