"""`trace contract`: what the environments of a target are held to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.errors import InputError

if TYPE_CHECKING:
    from trace_assets.synthesis.contract.target_contract import TargetContract


def contract(
    target: Annotated[
        str | None, typer.Argument(help="A target, such as tau2:retail; without one, all are listed.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option(help="Its tool schemas (OpenAI functions, MCP), kept for later syncs.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="The rules its agent is given, as text, kept for later syncs.")
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Read a target's contract off its trajectories: tools, shapes, errors, wording, lengths."""
    from trace_assets.stages.contract import describe_target, known_targets, look_up_contract, summary

    study = open_study(config, overrides)
    if target is None and (tools or policy):
        raise InputError("say whose tools or policy these are: trace contract TARGET --tools FILE.")
    if target is not None and (tools or policy):
        describe_target(study, target, tools, policy)
    names = [target] if target is not None else known_targets(study)
    found, without = [], {}
    for name in names:
        try:
            found.append(look_up_contract(study, name))
        except InputError as error:
            if target is not None:
                raise
            without[name] = str(error)
    if as_json:
        documents = [{**one.model_dump(mode="json"), "fingerprint": one.fingerprint()} for one in found]
        print(json.dumps(documents[0] if target is not None else documents, indent=2))
        return
    console = make_console()
    if not names:
        console.print("No trajectories are here yet; bring some in with `trace ingest FILE`.")
    if found:
        _print([summary(one) for one in found], console)
    for name, reason in without.items():
        console.print(f"{escape(name)} has none: {escape(reason)}", soft_wrap=True)
    if target is not None:
        _print_tools(found[0], console)


def _print(rows: list[dict[str, str | int | float]], console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    for name in rows[0]:
        table.add_column(name, no_wrap=True, justify="left" if name in ("target", "fingerprint") else "right")
    for row in rows:
        table.add_row(
            *(escape(f"{value:,}" if isinstance(value, int) else str(value)) for value in row.values())
        )
    console.print(table)
    console.print(
        "[dim]inferred: tools without a schema; policy: characters; guards: writes with a known state; "
        "turns and calls: means of a run[/]"
    )


def _print_tools(found: TargetContract, console: Console) -> None:
    """Print one line a tool: what it does to the state, what it answered, when it is right."""
    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False)
    for name in ("tool", "kind", "answers", "errors", "right where", "most frequent error"):
        table.add_column(name)
    for tool in found.tools:
        shape, guard = found.result(tool.name), found.guard(tool.name)
        where = f"{guard.field} is {', '.join(guard.allowed)}" if guard and guard.field else ""
        kind = ("writes" if tool.mutates else "reads") + (", inferred" if tool.name in found.inferred else "")
        table.add_row(
            tool.name,
            kind,
            f"{shape.n if shape else 0:,}",
            f"{shape.n_errors if shape else 0:,}",
            escape(where),
            escape(shape.errors[0][:60] if shape and shape.errors else ""),
        )
    console.print(table)
