"""`trace compare`: two policies on the same tasks; `trace plan`: how many tasks and trials a study needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from trace_assets.cli.options import MANY, Config, Json, Set, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError
from trace_assets.report.formatting import count

if TYPE_CHECKING:
    from trace_assets.records import PolicyContrast
    from trace_assets.stats.power import GainDesign, GapDesign


def compare(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Two policies; without any, all that share ten tasks.")
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Say what training (or another model) mended and what it broke: two policies on the same tasks."""
    from trace_assets.assets.contrast import compare_policies
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
