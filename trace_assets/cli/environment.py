"""`trace environment`: what a writer will cost, what it wrote in every round, and exports."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.options import (
    MANY,
    Config,
    DryRun,
    Json,
    Public,
    RequireDocker,
    Set,
    open_study,
    push,
    refuse_without_owner,
    tell_pushed,
)
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError

if TYPE_CHECKING:
    from trace_assets.environments.contract.description import TargetContract
    from trace_assets.records import EnvironmentCheck
    from trace_assets.study import Study

app = typer.Typer(
    name="environment",
    help="Generated environments: what writing costs, every version, exports.",
    no_args_is_help=True,
)


@app.command("forecast")
def show_forecast(config: Config = None, overrides: Set = None, as_json: Json = False) -> None:
    """Print what the model calls for the environments of the kept capabilities would cost; makes none."""
    from trace_assets.cli.analyst import print_forecast
    from trace_assets.resources.analysts import judge_section
    from trace_assets.workflows.forecast import forecast_environments, spent_so_far

    study = open_study(config, overrides)
    found = forecast_environments(study)
    if as_json:
        document = {"environments": [asdict(row) for row in found.rows], "left_out": found.left_out}
        print(json.dumps({**document, "spent_usd": spent_so_far(study)}, indent=2))
        return
    console = make_console()
    if not found.rows and not found.left_out:
        console.print("No capability is kept, so no environment is to be written; `trace diagnose` says why.")
    for name, why in found.left_out.items():
        console.print(f"{escape(name)}: nothing foreseen: {escape(why)}.", soft_wrap=True)
    print_forecast(study, found.rows, console, judge_section(study), "writer")


@app.command("versions")
def show_versions(
    capability: Annotated[str, typer.Argument(help="A capability's id.")],
    source: Annotated[
        int | None, typer.Option(help="Print the source of this round, and nothing else.", min=0, max=MANY)
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Print every version of one capability's environment: the reply, the failed checks, the tokens."""
    from trace_assets.records import Capability, EnvironmentVersion
    from trace_assets.store.names import chosen_name

    study = open_study(config, overrides)
    there = study.store.partitions(EnvironmentVersion)
    if not there:
        raise InputError("there is no version of an environment yet; `trace sync` has them written.")
    names = {row.name: row.capability_id for row in study.store.read(Capability)}
    known = {name: key for name, key in names.items() if key in there} | {key: key for key in there}
    capability = chosen_name("capability", capability, known)
    rows = study.store.read(EnvironmentVersion, capability)
    if source is not None:
        chosen = [row for row in rows if row.round == source]
        if not chosen:
            raise InputError(f"'{capability}' has no round {source}; it has 0 to {len(rows) - 1}.")
        print(chosen[0].source)
        return
    if as_json:
        print(json.dumps([row.model_dump() for row in rows], indent=2))
        return
    console = make_console()
    for row in rows:
        mark = "[green]kept[/] " if row.kept else "     "
        failed = ", ".join(one.check_id for one in row.failed) or (
            "nothing" if row.audited else "not audited here"
        )
        console.print(
            f"{mark}round {row.round}  {row.writer}  {row.reply}  {row.environment_id or '-'}  "
            f"{row.n_passed} passed, failed: {escape(failed)}  "
            f"[dim]{row.prompt_tokens:,} + {row.completion_tokens:,} tokens[/]",
            soft_wrap=True,
        )
    console.print(escape(rows[-1].outcome), soft_wrap=True)


@app.command("export")
def export(
    which: Annotated[str, typer.Argument(help="A capability's id, or the path of an environment module.")],
    format: Annotated[str, typer.Option(help="The form: openenv, trl or verifiers.")],
    to: Annotated[Path, typer.Option(help="The folder to write; empty, or an earlier export of this form.")],
    anyway: Annotated[bool, typer.Option("--anyway", help="Also one that its audit did not accept.")] = False,
    hub: Annotated[
        str,
        typer.Option(
            help="Also push the folder with its card to the Hugging Face hub, as the data set OWNER/FOLDER."
        ),
    ] = "",
    dry_run: DryRun = False,
    public: Public = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write one environment as a package for TRL, OpenEnv or verifiers; its code runs in the sandbox only."""
    from trace_assets.workflows.release import export as export_to

    study = open_study(config, overrides)
    refuse_without_owner(hub, dry_run=dry_run, public=public)
    files = export_to(study, which, format, to, anyway=anyway)
    pushed = None
    if hub:
        from trace_assets.serving.release.hub import stage_environment

        staged = stage_environment(to, hub, to.with_name(f"{to.name}-hub"))
        pushed = push([staged], dry_run=dry_run, public=public)
    if as_json:
        document = {"format": format, "folder": str(to), "files": [str(file) for file in files]}
        print(json.dumps(document | ({"hub": pushed} if hub else {})))
        return
    console = make_console()
    for file in files:
        console.print(escape(str(file)), soft_wrap=True)
    console.print(
        f"{len(files)} files written; {escape(str(to / 'README.md'))} says how to use them.", soft_wrap=True
    )
    tell_pushed(pushed or ())


# `trace audit`: the checks of an environment on a module of one's own.


COLOURS = {"pass": "green", "fail": "red", "skip": "yellow"}


def audit(
    file: Annotated[Path, typer.Argument(help="A Python module that follows the environment protocol.")],
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="A TOML file with thresholds and severities of your own."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Hold the module to this target's contract (see `trace contract`)."),
    ] = None,
    require_docker: RequireDocker = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Audit an environment module in the sandbox; exit 0 accepted, 1 rejected, 2 unusable, 3 not run."""
    study = open_study(config, overrides)
    raise typer.Exit(_module(study, file, policy, target, as_json))


def _module(study: Study, file: Path, policy: Path | None, target: str | None, as_json: bool) -> int:
    from trace_assets.environments.audit.severity import RULES, load_rules
    from trace_assets.resources.sandbox import audit_source

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


# `trace contract`: what the environments of a target are held to.


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
    from trace_assets.resources.contract import describe_target, known_targets, look_up_contract, summary

    study = open_study(config, overrides, writable=bool(target and (tools or policy)))
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
        _print_contract([summary(one) for one in found], console)
    for name, reason in without.items():
        console.print(f"{escape(name)} has none: {escape(reason)}", soft_wrap=True)
    if target is not None:
        _print_tools(found[0], console)


def _print_contract(rows: list[dict[str, str | int | float]], console: Console) -> None:
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
