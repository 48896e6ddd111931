"""`trace compare`: two policies on the same tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from trace_assets.cli.options import MANY, Config, Json, Set, confirm, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.conformance import Finding, tally
from trace_assets.errors import InputError
from trace_assets.report.formatting import count, money

if TYPE_CHECKING:
    from trace_assets.records import PolicyContrast, SuspectTask, Triage
    from trace_assets.settings import Analyst
    from trace_assets.stats.power import GainDesign, GapDesign
    from trace_assets.study import Study
    from trace_assets.workflows.forecast import Forecast


def compare(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Two policies; without any, all that share ten tasks.")
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Say what training (or another model) mended and what it broke: two policies on the same tasks."""
    from trace_assets.assets.policy_contrast import compare_policies
    from trace_assets.cli.progress import tell_settings

    if policies and len(policies) != 2:
        raise InputError(f"name two policies or none, got {len(policies)}: {', '.join(policies)}.")
    study = open_study(config, overrides, writable=False)
    rows = compare_policies(study, (policies[0], policies[1]) if policies else None)
    tell_settings(study)
    if as_json:
        print(json.dumps([row.model_dump(mode="json") for row in rows], indent=2))
        return
    console = make_console()
    if not rows:
        console.print("No two policies share ten tasks of one target; run `trace diagnose` after ingesting.")
    for target, weak, strong in sorted({(row.target, row.weak, row.strong) for row in rows}):
        own = [row for row in rows if (row.target, row.weak, row.strong) == (target, weak, strong)]
        _print(own, console)


WIDTH_OF_TABLE = 100
"""Characters that the columns of a comparison take beside a name that can be read."""


def _in_words(row: PolicyContrast) -> str:
    from trace_assets.report import formatting

    p, q = formatting.p_value(row.p_value), formatting.p_value(row.q_value)
    return (
        f"weak {formatting.share(row.weak_rate, row.weak_low, row.weak_high)}, "
        f"strong {formatting.share(row.strong_rate, row.strong_low, row.strong_high)}, "
        f"difference {formatting.share(row.difference, row.difference_low, row.difference_high)}, "
        f"p {p}, q {q}; {count(row.n_tasks, 'task')}: {row.n_mended} mended ({row.n_gained} gained), "
        f"{row.n_broken} broken ({row.n_lost} lost)"
    )


def _print(rows: list[PolicyContrast], console: Console) -> None:
    from trace_assets.report import formatting

    first = rows[0]
    title = f"{first.target}: {first.weak} (weak) against {first.strong} (strong)"
    caption = "rates of lacking where both needed it, paired by task; 95 % intervals"
    rows = sorted(rows, key=lambda row: (row.capability_id != "", -(row.difference or 0.0)))
    if console.width < WIDTH_OF_TABLE:  # rich would leave the names out, and cut the intervals
        console.print(f"[italic]{escape(title)}[/]")
        for row in rows:
            console.print(f"\n[bold]{escape(row.name)}[/]")
            console.print(Padding(escape(_in_words(row)), (0, 0, 0, 2)))
        console.print(f"\n[dim]{caption}[/]\n")
        return
    table = Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        header_style="dim",
        pad_edge=False,
    )
    table.add_column("what", ratio=2, min_width=14)
    for name in ("weak", "strong", "difference", "p / q", "tasks", "mended", "broken"):
        table.add_column(name, no_wrap=True)
    for row in rows:
        cells = (
            formatting.share(row.weak_rate, row.weak_low, row.weak_high),
            formatting.share(row.strong_rate, row.strong_low, row.strong_high),
            formatting.share(row.difference, row.difference_low, row.difference_high),
        )
        table.add_row(
            escape(row.name),
            *(escape(cell.replace(" [", "\n[")) for cell in cells),
            f"{formatting.p_value(row.p_value)}\n{formatting.p_value(row.q_value)}",
            str(row.n_tasks),
            f"{row.n_mended}\n[dim]{row.n_gained} gained[/]",
            f"{row.n_broken}\n[dim]{row.n_lost} lost[/]",
            style="bold" if not row.capability_id else "",
        )
    console.print(table)


# `trace plan`: how many tasks and trials a study needs.


POWERS = (0.5, 0.8, 0.9, 0.95)


def plan(
    gap: Annotated[float | None, typer.Option(help="A gap to be selected, such as 0.3.")] = None,
    gain: Annotated[float | None, typer.Option(help="A gain to be shown, such as 0.07.")] = None,
    coverage: Annotated[float, typer.Option(help="For a gap: share of failures that lack it.")] = 0.2,
    er_passed: Annotated[float, typer.Option(help="For a gap: ER+.")] = 0.1,
    pass_rate: Annotated[float, typer.Option(help="Of the agent; for a gain, of the base arm.")] = 0.5,
    trials: Annotated[int, typer.Option(help="Trials of each task (in each arm).", min=1, max=1000)] = 4,
    icc: Annotated[
        float | None,
        typer.Option(
            help="Correlation between trials of one task: of the lack (0.3 unless given), or of the "
            "difference between the arms (0.1)."
        ),
    ] = None,
    considered: Annotated[
        int, typer.Option(help="For a gap: candidates that are tested.", min=1, max=MANY)
    ] = 20,
    discordance: Annotated[
        float | None, typer.Option(help="For a gain: share of paired trials that differ.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(help="Say also what so many tasks would show.", min=1, max=MANY)
    ] = None,
    gpu_usd: Annotated[
        float, typer.Option(help="Without --gap and --gain: price of an hour of this machine, in USD.")
    ] = 0.0,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Say what the whole study takes; with --gap or --gain how many tasks that needs. Nothing is started.

    Without either: episodes, tokens, hours, GPU memory and dollars of every stage, and what the tasks that
    are there can show.
    """
    from trace_assets.stats.power import GainDesign, GapDesign

    if gap is not None and gain is not None:
        raise InputError("name one thing that is to be found: either --gap 0.3 or --gain 0.07.")
    if gap is None and gain is None:
        from trace_assets.cli.budget import print_budget
        from trace_assets.targets.registry import check_installed

        # What was answered and spent before is no table.
        study = open_study(config, overrides, writable=False, whole=True)
        print_budget(study, gpu_usd=gpu_usd, as_json=as_json)
        check_installed(study.settings.targets, study.home.targets)
        return
    selection = open_study(config, overrides, writable=False).settings.selection
    try:
        if gap is not None:
            needed, power_at, words = _gap(
                GapDesign(
                    gap=gap,
                    er_passed=er_passed,
                    coverage=coverage,
                    pass_rate=pass_rate,
                    trials=trials,
                    icc=0.3 if icc is None else icc,
                    considered=considered,
                    max_q=selection.max_q,
                    min_gap=selection.min_gap,
                    min_gap_low=selection.min_gap_low,
                    min_coverage=selection.min_coverage,
                    min_coverage_low=selection.min_coverage_low,
                    min_relevant=selection.min_relevant,
                )
            )
        else:
            assert gain is not None
            needed, power_at, words = _gain(
                GainDesign(
                    gain=gain,
                    base_rate=pass_rate,
                    discordance=discordance,
                    trials=trials,
                    icc=0.1 if icc is None else icc,
                )
            )
    except ValueError as error:
        raise InputError(f"such a study cannot be: {error}.") from error
    counts = {power: needed(power) for power in POWERS}
    reached = None if tasks is None else power_at(tasks)
    if as_json:
        rows = [
            {"power": power, "tasks": n, "task_trials": None if n is None else n * trials}
            for power, n in counts.items()
        ]
        document = {"for": words, "trials": trials, "needed": rows, "tasks": tasks, "power": reached}
        print(json.dumps(document, indent=2))
        return
    console = make_console()
    console.print(words, soft_wrap=True)
    table = Table(show_edge=False, pad_edge=False)
    for name in ("power", "tasks", "task-trials"):
        table.add_column(name, justify="right")
    for power, n in counts.items():
        unreached = ("no number", "–")
        table.add_row(f"{100 * power:.0f} %", *(unreached if n is None else (f"{n:,}", f"{n * trials:,}")))
    console.print(table)
    if gap is not None and gap <= selection.min_gap:
        console.print(
            f"A gap of {gap} does not lie above the threshold selection.min_gap = {selection.min_gap}: its "
            "estimate falls below it in half of the studies, however many tasks there are.",
            soft_wrap=True,
        )
    if reached is not None:
        console.print(f"With {tasks:,} tasks the power is {100 * reached:.0f} %.")


Plan = tuple[Callable[[float], int | None], Callable[[int], float], str]


def _gap(design: GapDesign) -> Plan:
    from trace_assets.stats.power import gap_power, gap_tasks

    words = (
        f"To select a gap of {design.gap:g} (ER- {design.er_failed:.2f}, ER+ {design.er_passed:.2f}) that "
        f"covers {100 * design.coverage:.0f} % of failures, at a pass rate of "
        f"{100 * design.pass_rate:.0f} %, with {design.trials} trials a task and q at most {design.max_q:g} "
        f"over {design.considered} candidates:"
    )
    return lambda power: gap_tasks(design, power), lambda tasks: gap_power(design, tasks), words


def _gain(design: GainDesign) -> Plan:
    from trace_assets.stats.power import gain_power, gain_tasks

    words = (
        f"To show a gain of {100 * design.gain:.1f} points over {100 * design.base_rate:.0f} % on the same "
        f"tasks, with {design.trials} trials a task in each arm, {100 * design.differing:.0f} % of paired "
        f"trials differing, two-sided at {design.alpha:g}:"
    )
    return lambda power: gain_tasks(design, power), lambda tasks: gain_power(design, tasks), words


# Whose fault the failures are, for a terminal: shares with intervals, and what shows it.


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
    from trace_assets.diagnosis.triage import fault_shares

    if not any(row.outcome != "passed" for row in rows):
        return
    table = Table(title="Whose fault the failures are", show_edge=False, pad_edge=False, title_justify="left")
    for name in ("fault", "n", "share [95 %]", "rules"):
        table.add_column(name, justify="right" if name in ("n", "share [95 %]") else "left")
    for one in fault_shares(rows):
        rules = ", ".join(f"{rule} {n}" for rule, n in one["rules"].items())
        share = f"{one['share']:.1%} [{one['share_low']:.1%}, {one['share_high']:.1%}]"
        table.add_row(escape(str(one["fault"])), f"{one['n']:,}", escape(share), escape(rules))
    if any(one["n"] for one in fault_shares(rows)):
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


# `trace analyst`: what a model analyst will cost, and whether an analyst keeps its promises.


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
