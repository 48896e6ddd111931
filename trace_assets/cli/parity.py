"""`trace targets parity`: is a score of ours the score that tau2-bench's own program would give?"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.records import Split

if TYPE_CHECKING:
    from trace_assets.targets.tau2.parity import ParityReport


class Splits(StrEnum):
    """Whose tasks are played."""

    discovery = "discovery"
    validation = "validation"
    test = "test"
    all = "all"


def parity(
    target: Annotated[str, typer.Argument(help="A target of tau2, such as tau2:airline.")],
    tasks: Annotated[
        int, typer.Option(help="Tasks to play, in tau2's order; 0 plays all of the split.", min=0)
    ] = 20,
    split: Annotated[Splits, typer.Option(help="Whose tasks.")] = Splits.discovery,
    trials: Annotated[int, typer.Option(help="Conversations a task.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="tau2 draws the seeds of the trials from it.")] = 300,
    concurrency: Annotated[int, typer.Option(help="Conversations at once.", min=1)] = 4,
    margin: Annotated[
        float,
        typer.Option(
            help="Difference of pass rates that is let pass, its whole interval inside; 0 wants every reward "
            "equal.",
            min=0.0,
        ),
    ] = 0.0,
    patience: Annotated[
        float, typer.Option(help="Seconds without a finished conversation before tau2 run is killed.")
    ] = 3600.0,
    again: Annotated[
        bool, typer.Option("--again", help="Play all anew: another model stands behind the same name.")
    ] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Play tasks by our runner and by `tau2 run`, and compare rewards. Exit 0 when they agree, 1 when not.

    The agent is the server that `rollouts` names, the user that of targets.options; both are asked alike.
    Finished conversations are kept: the same command goes on, and plays again what broke.
    """
    from trace_assets.stages.tau2_parity import ParityPlan, compare_with_official

    splits: tuple[Split, ...] = get_args(Split) if split is Splits.all else (split.value,)
    plan = ParityPlan(
        target=target,
        splits=splits,
        tasks=tasks or None,
        trials=trials,
        seed=seed,
        concurrency=concurrency,
        patience=patience,
        again=again,
    )
    report, folder = compare_with_official(open_study(config, overrides), plan)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        _tell(report)
        print(f"kept in {folder}")
    raise typer.Exit(0 if agrees(report, margin) else 1)


def agrees(report: ParityReport, margin: float) -> bool:
    """Whether every conversation was judged by both, and alike.

    Args:
        report: The comparison.
        margin: 0 wants every reward equal. Above, the 95 % interval of the difference of pass rates must lie
            within the margin on both sides of 0: a test of equivalence at 2.5 % a side, which few tasks never
            pass.
    """
    if report.n < len(report.pairs) or report.n == 0:
        return False
    if report.equal == report.n:
        return True
    low, high = report.difference_low, report.difference_high
    return low is not None and high is not None and -margin <= low and high <= margin and margin > 0


def _tell(report: ParityReport) -> None:
    console = make_console()
    console.print(
        f"{report.target}: {report.equal} of {report.n} rewards equal "
        f"({report.equal_low:.3f} to {report.equal_high:.3f}), {report.same_conversations} of "
        f"{len(report.pairs)} conversations the same word for word",
        soft_wrap=True,
    )
    for name, value, low, high in (
        ("by our runner", report.ours, report.ours_low, report.ours_high),
        ("by tau2 run", report.official, report.official_low, report.official_high),
        ("difference", report.difference, report.difference_low, report.difference_high),
    ):
        if value is not None:
            interval = f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else ""
            console.print(f"  {name}: {value:.3f}{interval}, n = {report.n} in {report.n_tasks} tasks")
    if report.left_out:
        console.print(
            f"  {len(report.left_out)} tasks left out: a language model judges them", soft_wrap=True
        )
    for one in report.pairs:
        if one.state == "equal":
            continue
        state = "differs" if one.state == "differs" else "not compared"
        console.print(
            f"[red]{state}[/] {escape(one.task_id)} trial {one.trial}: {one.ours} here ({one.our_end}), "
            f"{one.official} in tau2 run ({one.official_end}); {escape(one.difference)}",
            soft_wrap=True,
        )
