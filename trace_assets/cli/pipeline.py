"""`trace sync`, `demo`, `diagnose` and `report`: the pipeline, or parts of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.cli.options import (
    Config,
    Json,
    Keep,
    RequireDocker,
    Set,
    Yes,
    complete_asset,
    leave_home_alone,
    open_study,
)
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError

if TYPE_CHECKING:
    from trace_assets.orchestration.sync_run import Synced
    from trace_assets.study import Study

DIAGNOSIS = (
    "tasks",
    "trajectories",
    "triage",
    "suspect_tasks",
    "lucky_passes",
    "capability_dictionary",
    "batch_capabilities",
    "labels",
    "lack_causes",
    "label_leak",
    "contrast",
    "drift",
    "selected_capabilities",
    "failure_causes",
    "config/targets",
    "config/rollouts",
    "config/triage",
    "config/discovery",
    "config/labels",
    "config/contrast",
    "config/selection",
)
"""What `trace diagnose` brings up to date."""

TRIAGED = ("tasks", "trajectories", "triage", "config/targets", "config/rollouts", "config/triage")
"""What it brings up to date first, where a model is asked: whose failures they are says what more it costs.
Where a model triages too, that is foreseen before it."""
DISCOVERED = (*TRIAGED, "suspect_tasks", "capability_dictionary", "batch_capabilities", "config/discovery")
"""What comes next: then it is known what the labels will cost."""

MOST_JOBS = 1024
Jobs = Annotated[
    int | None,
    typer.Option(
        help="Items at once; by default two, or one on one core; 0: one after the other in this process.",
        min=0,
        max=MOST_JOBS,
    ),
]


def sync(
    select: Annotated[
        list[str] | None,
        typer.Option(
            help=r"Asset or asset\[partition] to look at, with its settings; may be repeated.",
            autocompletion=complete_asset,
        ),
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option(
            help=r"Asset or asset\[partition] to make once more: though it is up to date, and in the place "
            "of what it holds finished, which stays until the new is complete."
        ),
    ] = None,
    yes: Yes = False,
    keep: Keep = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what is due, why, and what it will take.")
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for another sync on this home: exit with 3.")
    ] = False,
    require_docker: RequireDocker = False,
    jobs: Jobs = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Materialize what is missing or stale, with the reason for each; also: run everything.

    Finished work (played episodes, trained weights, paid answers) that other settings or other code would
    make otherwise is replaced only when you say so: you are asked at a terminal, and exit code 2 names it
    where there is none.
    """
    from trace_assets.cli.forecast import forecast, plays_live, show
    from trace_assets.cli.options import known_items
    from trace_assets.cli.progress import run_sync
    from trace_assets.cli.rounds import plays_rounds, sync_rounds
    from trace_assets.orchestration.forecast import Scope
    from trace_assets.targets.registry import check_installed

    if yes and keep:
        raise InputError("--yes replaces finished work and --keep leaves it: say one of them.")
    study = open_study(config, overrides, writable=not dry_run, whole=dry_run)
    known_items(study, select or [])
    once_more = known_items(study, again or [])
    console = make_console()
    if not select and not dry_run and plays_rounds(study):
        options = dict(live=True, jobs=jobs, wait=not no_wait, yes=yes, keep=keep)
        _finish(console, sync_rounds(study, console, quiet=as_json, again=once_more, **options), as_json)
    if dry_run:
        found = forecast(study, select)
        if as_json:
            print(json.dumps(found.document(), indent=2))
        else:
            show(found, console)
        if plays_live(study, found):
            check_installed(study.settings.targets, study.home.targets)
        return
    synced = run_sync(
        study, select, live=True, jobs=jobs, again=once_more, wait=not no_wait, yes=yes, keep=keep
    )
    for words in Scope(study).notes() if not select and not as_json else ():
        console.print(f"[dim]{escape(words)}[/]", soft_wrap=True)
    if not as_json and not synced.outcomes and (nothing := _no_capability(study, select or [])):
        console.print(nothing, soft_wrap=True)
        raise typer.Exit(0)
    _finish(console, synced, as_json)


def _no_capability(study: Study, select: Sequence[str]) -> str:
    """Say that what was asked for is made for each capability, and that none was kept; empty otherwise."""
    from trace_assets.definitions import pipeline
    from trace_assets.records import SelectedCapability

    each = {declared.name for declared in pipeline() if declared.partitions == "capability"}
    asked = [name for name in select if name.partition("[")[0] in each]
    kept = any(one.kept for one in study.store.read(SelectedCapability))
    if not asked or len(asked) < len(select) or kept:
        return ""
    return (
        f"Nothing to make of {', '.join(asked)}: no capability is kept yet; `trace diagnose` says why, and "
        "selection.overrides takes one in all the same."
    )


def demo(
    desk: Annotated[
        str,
        typer.Option(
            help="Which order desk: a, where a task lacks one skill at most; b, where two in three lack "
            "several; c, where two rules are opposite; d, where tasks do not show all values of a rule. "
            "The same as --set targets.options.desk=b, and from b on training.single_arms and "
            "training.pilot=warn (one skill alone passes few tasks there); later commands on this home "
            "need them too."
        ),
    ] = "",
    rounds: Annotated[
        int,
        typer.Option(
            help="Play so many rounds at most: what was taught is the next one's base model. The same as "
            "--set rounds.most=2, and on desk a training.single_arms=joint (sums lose some of what was "
            "taught); later commands on this home need both too.",
            min=0,
        ),
    ] = 0,
    require_docker: RequireDocker = False,
    config: Config = None,
    overrides: Set = None,
    jobs: Jobs = None,
    yes: Yes = False,
    keep: Keep = False,
    as_json: Json = False,
) -> None:
    """Run the whole loop on the embedded target: CPU only, minutes, ends with the table."""
    from trace_assets.cli.forecast import needs_sandbox
    from trace_assets.cli.progress import run_sync
    from trace_assets.cli.rounds import plays_rounds, sync_rounds
    from trace_assets.cli.tables import print_everything
    from trace_assets.errors import require_extra
    from trace_assets.resources.sandbox import sandbox_config
    from trace_assets.sandbox.pool import make_backend
    from trace_assets.targets.embedded.target import NAME as EMBEDDED
    from trace_assets.targets.embedded.target import desk_named

    if desk:
        single_arms = 'training.single_arms=["together", "joint", "joining", "consolidated"]'
        several = [] if desk == "a" else [single_arms, "training.pilot=warn"]
        overrides = [*several, *(overrides or []), f"targets.options.desk={json.dumps(desk)}"]
    if rounds:
        for_all = ['training.single_arms=["joint"]'] if rounds > 1 and desk in ("", "a") else []
        overrides = [*for_all, *(overrides or []), f"rounds.most={rounds}"]
    study = open_study(config, overrides)
    if study.settings.targets.name == EMBEDDED:  # a desk that there is none of is said before all else
        desk_named(study.settings.targets)
    elif desk:
        raise InputError(
            f"--desk is for the embedded target, but targets.name is '{study.settings.targets.name}'."
        )
    console = make_console()
    require_extra("torch", "train", "the demo")
    if needs_sandbox(study):  # say now what is missing, not after minutes of training
        make_backend(sandbox_config(study)).close()
    if plays_rounds(study):
        synced = sync_rounds(study, console, live=True, jobs=jobs, everything=True, yes=yes, keep=keep)
    else:
        synced = run_sync(study, live=True, jobs=jobs, everything=True, yes=yes, keep=keep)
    if not as_json:
        print_everything(study, console)
    _finish(console, synced, as_json)


def diagnose(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Trajectory files, or folders of them, that are ingested first."),
    ] = None,
    batch: Annotated[list[str] | None, typer.Option(help="Only these task batches are refreshed.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Only runs of this policy, by its name or how that begins (triage.policy)."),
    ] = None,
    analyst: Annotated[
        str | None,
        typer.Option(help="Have this model read the runs, beside the rules (analyst.model)."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(help="Its OpenAI-compatible server (analyst.base_url); the key is in OPENAI_API_KEY."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before a model is paid for; scripts are never asked.")
    ] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Find what the agent lacks in the trajectories that you have: no GPU, no torch.

    All that is in the store counts, not only the files that are named: `--batch` and `--policy` choose.

    Nothing is played, trained or replaced. A model is asked, and paid for, only where one is named
    (--analyst, analyst.model, or that of one stage): the forecast is printed first, analyst.cap_usd holds,
    and what was answered before is not asked again.
    """
    from trace_assets.cli.analyst import agree_on_spending, warn_of_unknown
    from trace_assets.cli.data import take_in, tell_taken_in
    from trace_assets.cli.progress import tell, tell_settings
    from trace_assets.cli.tables import print_diagnosis
    from trace_assets.diagnosis.llm.client import require_server
    from trace_assets.records import TrajectoryHead
    from trace_assets.resources.analysts import analyst_section, chosen_policy, players
    from trace_assets.resources.inbox import batches
    from trace_assets.workflows.forecast import asks_model
    from trace_assets.workflows.ingest import stored_doubles

    named = {"triage.policy": policy, "analyst.model": analyst, "analyst.base_url": base_url}
    options = [f"{key}={json.dumps(value)}" for key, value in named.items() if value]
    study = open_study(config, [*(overrides or []), *options])
    if asks_model(study):
        require_server(analyst_section(study))
    unread = 0
    if files:
        outcome, unread = take_in(study, files, "auto", again=False)
        if not as_json:
            tell_taken_in(study, outcome, make_console())
    if study.settings.triage.policy and study.store.partitions(TrajectoryHead):
        chosen_policy(study.settings.triage.policy, players(study))
    there = sorted({*batches(study), *study.store.partitions(TrajectoryHead)})
    if not there:
        raise InputError(
            f"there is no trajectory in {study.home.path} yet; run `trace diagnose FILE...` for those that "
            "you have, or `trace sync --select tasks --select trajectories` to roll out the live target."
        )
    for name in batch or []:
        if name not in there:
            raise InputError(f"there is no task batch '{name}'; there are {', '.join(there)}.")
    chosen = batch or there
    if asks_model(study):
        warn_of_unknown(study)
        triage_pays = bool(study.settings.triage.model)
        if triage_pays:
            agree_on_spending(study, yes, quiet=as_json)
        for part in (TRIAGED, DISCOVERED):
            first = bring_up_to_date(study, part, chosen, quiet=as_json)
            if first.exit_code:
                raise typer.Exit(first.exit_code)
            if part is DISCOVERED or not triage_pays:
                agree_on_spending(study, yes or part is DISCOVERED, quiet=as_json)
    synced = bring_up_to_date(study, DIAGNOSIS, chosen, quiet=as_json)
    print_diagnosis(study, make_console(), as_json=as_json)
    tell_settings(study)
    if doubles := stored_doubles(study):
        n = sum(len(one.ids) for one in doubles)
        make_console(stderr=True).print(
            f"[yellow]note[/] {n:,} trajectories are in the store twice and count twice; `trace doctor` "
            "names their batches and says how to mend it.",
            soft_wrap=True,
        )
    if synced.at_risk:
        console = make_console(stderr=True)
        console.print("[yellow]note[/] left as it is, for other settings or code are in force:")
        tell(synced.at_risk, console)
    raise typer.Exit(max(synced.exit_code, unread))


def bring_up_to_date(
    study: Study, selection: Sequence[str], chosen: Sequence[str], *, plays: Sequence[str] = (), quiet: bool
) -> Synced:
    """Bring diagnosis up to date on what is in the store.

    Finished work stays as it is. What a model said is asked for anew only where the settings name a model.

    Args:
        study: The study.
        selection: Assets of the diagnosis.
        chosen: Task batches.
        plays: Those of them that have come in as tasks and are to be rolled out.
        quiet: Print only what went wrong.
    """
    from trace_assets.cli.progress import run_sync
    from trace_assets.workflows.forecast import paid_stages

    return run_sync(study, selection, chosen, quiet=quiet, plays=plays, keep=True, again=paid_stages(study))


def report(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write it; by default into the home, or trace-report.html here where the home "
            "cannot be written to.",
        ),
    ] = None,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write the HTML page from what is in the store, finished or not, and print its path."""
    from trace_assets.assets.report import write_page
    from trace_assets.cli.progress import tell_settings

    study = open_study(config, overrides, writable=False)
    leave_home_alone(study, output)
    if output is None and not study.home.is_writable:
        output = Path("trace-report.html")
    tell_settings(study)
    page = write_page(study, output)
    print(json.dumps({"path": str(page)}) if as_json else page)


def _finish(console: Console, synced: Synced, as_json: bool) -> None:
    from trace_assets.cli.progress import refused

    made = sum(outcome.made for outcome in synced.outcomes)
    if as_json:
        print(
            json.dumps(
                {
                    "made": [str(outcome.item) for outcome in synced.outcomes if outcome.made],
                    "empty": [str(outcome.item) for outcome in synced.outcomes if outcome.is_empty],
                    "failed": {str(one.item): one.error for one in synced.outcomes if not one.made},
                    "failed_checks": {
                        str(one.item): list(one.failed_checks) for one in synced.outcomes if one.failed_checks
                    },
                    "held_back": [str(step.item) for step in synced.held_back],
                    "kept": {
                        str(one.item): {"work": one.work, "why": one.why, "asked": synced.stopped}
                        for one in synced.at_risk
                    },
                },
                indent=2,
            )
        )
    else:
        _tell_end(console, synced, made)
    if synced.stopped and not sys.stdin.isatty():
        make_console(stderr=True).print(
            f"[bold red]trace:[/] {escape(refused(synced.at_risk))}", soft_wrap=True
        )
    raise typer.Exit(synced.exit_code)


MOST_NAMED = 12
"""Items that a last line names at most."""


def _tell_end(console: Console, synced: Synced, made: int) -> None:
    """Print what was made, and what is left as it was."""
    from trace_assets.cli.progress import tell

    if synced.at_risk:
        console.print("Left as it is:")
        tell(synced.at_risk, console)
    if synced.held_back:
        names = ", ".join(str(step.item) for step in synced.held_back[:8])
        behind = "finished work" if synced.stopped else "a failure"
        console.print(f"{made} made; held back behind {behind}: {escape(names)}.", soft_wrap=True)
    elif made or not all(outcome.made for outcome in synced.outcomes):
        empty = [str(outcome.item) for outcome in synced.outcomes if outcome.is_empty]
        more = f" ... ({len(empty)})" if len(empty) > MOST_NAMED else ""
        held = f" Without a row (○): {', '.join(empty[:MOST_NAMED])}{more}." if empty else ""
        console.print(f"{made} made.{escape(held)}", soft_wrap=True)
    elif not synced.at_risk:
        console.print("Everything is up to date.")
