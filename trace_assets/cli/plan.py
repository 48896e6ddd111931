"""`trace plan`: how many tasks and trials a study needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.table import Table

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.errors import InputError
from trace_assets.statistics.power import (
    GainDesign,
    GapDesign,
    gain_power,
    gain_tasks,
    gap_power,
    gap_tasks,
)

POWERS = (0.5, 0.8, 0.9, 0.95)


def plan(
    gap: Annotated[float | None, typer.Option(help="A gap to be selected, such as 0.3.")] = None,
    gain: Annotated[float | None, typer.Option(help="A gain to be shown, such as 0.07.")] = None,
    coverage: Annotated[float, typer.Option(help="For a gap: share of failures that lack it.")] = 0.2,
    er_passed: Annotated[float, typer.Option(help="For a gap: ER+.")] = 0.1,
    pass_rate: Annotated[float, typer.Option(help="Of the agent; for a gain, of the base arm.")] = 0.5,
    trials: Annotated[int, typer.Option(help="Trials of each task (in each arm).")] = 4,
    icc: Annotated[
        float | None,
        typer.Option(
            help="Correlation between trials of one task: of the lack (0.3 unless given), or of the "
            "difference between the arms (0.1)."
        ),
    ] = None,
    considered: Annotated[int, typer.Option(help="For a gap: candidates that are tested.")] = 20,
    discordance: Annotated[
        float | None, typer.Option(help="For a gain: share of paired trials that differ.")
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="Say also what so many tasks would show.")] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Say how many tasks it takes to select a gap, or to show a gain, at several powers."""
    if (gap is None) == (gain is None):
        raise InputError("name what is to be found: either --gap 0.3 or --gain 0.07.")
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
    if tasks is not None and tasks < 1:
        raise InputError(f"--tasks must be at least 1, got {tasks}.")
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
    words = (
        f"To select a gap of {design.gap:g} (ER- {design.er_failed:.2f}, ER+ {design.er_passed:.2f}) that "
        f"covers {100 * design.coverage:.0f} % of failures, at a pass rate of "
        f"{100 * design.pass_rate:.0f} %, with {design.trials} trials a task and q at most {design.max_q:g} "
        f"over {design.considered} candidates:"
    )
    return lambda power: gap_tasks(design, power), lambda tasks: gap_power(design, tasks), words


def _gain(design: GainDesign) -> Plan:
    words = (
        f"To show a gain of {100 * design.gain:.1f} points over {100 * design.base_rate:.0f} % on the same "
        f"tasks, with {design.trials} trials a task in each arm, {100 * design.differing:.0f} % of paired "
        f"trials differing, two-sided at {design.alpha:g}:"
    )
    return lambda power: gain_tasks(design, power), lambda tasks: gain_power(design, tasks), words
