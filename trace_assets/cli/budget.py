"""`trace plan` without a question: what the whole study takes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.options import console as make_console
from trace_assets.report.formatting import money
from trace_assets.study import Study
from trace_assets.workflows.budget import Budget, budget


def print_budget(study: Study, *, gpu_usd: float, as_json: bool) -> None:
    """Print the budget of a study.

    Args:
        study: The study.
        gpu_usd: Price of an hour of this machine, in USD; 0 where it was not named.
        as_json: As one JSON document.
    """
    try:
        found = budget(study, gpu_usd=gpu_usd)
    finally:
        close = getattr(study.__dict__.get("target"), "close", None)  # a process, where one was asked
        if close is not None:
            close()
    if as_json:
        print(json.dumps(found.document(), indent=2))
        return
    _print(found, make_console())


def _print(found: Budget, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    table.add_column("stage", no_wrap=True)
    for name in ("episodes", "hours"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("hours from")
    for stage in found.stages:
        table.add_row(stage.asset, _range(stage.episodes), _hours(stage.hours), escape(stage.basis))
    table.add_row("in all", _range(found.episodes), _hours(found.hours), "", style="bold")
    console.print(table)
    if found.elsewhere:
        console.print(
            f"[yellow]note[/] this is for the live target, '{escape(found.target)}' (targets.name). Stored "
            f"trajectories of {escape(', '.join(found.elsewhere))} were played elsewhere; to train on such "
            "a target begin a study of it: trace init --target NAME.",
            soft_wrap=True,
        )
    low, high = found.capabilities
    many = f"{low}" if low == high else f"{low} to {high}, as many as are kept"
    counts = ", ".join(f"{n} {split}" for split, n in found.tasks.items())
    say = [
        f"capabilities: {many}; tasks: {counts} ({found.tasks_basis})",
        f"an episode: {found.episode.turns:.0f} turns, {found.episode.written:,.0f} tokens written, "
        f"{found.episode.context:,.0f} at its end ({found.episode.source})",
        f"tokens: the agent writes {_millions(found.written)}" + _user(found),
        *_demonstrations(found),
        f"GPU memory: {_memory(found)}",
        f"dollars: {_dollars(found)}",
        "power to select a gap of " + _powers(found.gap_power),
        "power to show a gain (from 50 %) of " + _powers(found.gain_power),
    ]
    for words in say:
        name, _, rest = words.partition(": ")
        console.print(f"[bold]{name}[/]: {escape(rest)}" if rest else escape(words), soft_wrap=True)
    for words in found.missing:
        console.print(f"[yellow]not known[/] {escape(words)}", soft_wrap=True)
    console.print("[dim]Nothing was started. Next: trace run[/]")


def _demonstrations(found: Budget) -> list[str]:
    """Say what demonstrations take where they come first; nothing where none can."""
    most = max((stage.learned for stage in found.stages), default=0)
    if not most:
        return []
    return [
        "demonstrations: where GRPO has nothing to raise half of an adapter's rollouts are its environment's "
        f"oracle's, which asks no model; up to {most:,} more episodes are learned and not played "
        "(in the hours; training.warm_start)"
    ]


def _user(found: Budget) -> str:
    read, written = found.user_tokens
    if not read[1]:
        return ""
    return f"; the user's server reads {_millions(read)} and writes {_millions(written)}"


def _memory(found: Budget) -> str:
    there = ", ".join(f"{one.name} {one.gib:.0f} GiB" for one in found.devices) or "no GPU here"
    need = "not known" if found.memory_gib is None else f"{found.memory_gib:.3g} GiB a device to train"
    return f"{need}, by arithmetic ({there})"


def _dollars(found: Budget) -> str:
    if found.usd is None:
        return "none that are known here (--gpu-usd prices an hour of this machine)"
    low, high = found.usd
    return money(low) if low == high else f"{money(low)} to {money(high)}"


def _powers(powers: Mapping[float, float]) -> str:
    return ", ".join(f"{value:g}: {100 * power:.0f} %" for value, power in powers.items())


def _range(pair: tuple[int, int]) -> str:
    return f"{pair[0]:,}" if pair[0] == pair[1] else f"{pair[0]:,} to {pair[1]:,}"


def _hours(pair: tuple[float, float] | None) -> str:
    if pair is None:
        return "not known"
    low, high = pair
    return f"{low:.2g}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g}"


def _millions(pair: tuple[float, float]) -> str:
    low, high = (f"{value / 1e6:,.2f}" for value in pair)
    return f"{low} M" if low == high else f"{low} to {high} M"
