"""`trace ingest`: trajectories in."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.cli.options import (
    MOST_SEED,
    Config,
    DryRun,
    Json,
    Public,
    Set,
    confirm,
    console,
    leave_home_alone,
    open_study,
    push,
    refuse_without_owner,
    tell_pushed,
)
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError

if TYPE_CHECKING:
    from trace_assets.store.locks import Holder
    from trace_assets.study import Study
    from trace_assets.workflows.ingest import Ingested
    from trace_assets.workflows.watch import Look

IN_THIS_PROCESS = 100_000
"""Messages up to which worker processes, which import the program anew, would take longer."""
FEW_BATCHES = 16
"""New batches up to which the same holds: to link the tables of one takes a tenth of a second."""


def ingest(
    files: Annotated[list[Path] | None, typer.Argument(help="Trajectory files, or folders of them.")] = None,
    format: Annotated[str, typer.Option(help="A format's name, or auto to look at each file.")] = "auto",
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="Take the place of a file of the same name, though it held trajectories that are gone.",
        ),
    ] = False,
    remove: Annotated[
        str, typer.Option("--remove", help="Take this batch out of the study; --restore brings it back.")
    ] = "",
    restore: Annotated[
        str, typer.Option("--restore", help="Bring a batch back that was taken out by --remove.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="With --remove: do not ask.")] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Bring real trajectories into the store; the same files again change nothing, and nothing is played."""
    from trace_assets.cli.progress import tell_settings

    if sum(map(bool, (files, remove, restore))) != 1:
        raise InputError("name files or folders to read, or one batch in --remove or in --restore.")
    study = open_study(config, overrides)
    if remove or restore:
        _move_batch(study, remove, restore, yes=yes, as_json=as_json)
        return
    assert files is not None
    outcome, exit_code = take_in(study, files, format, again)
    if as_json:
        document = {
            "new": outcome.new,
            "unchanged": outcome.unchanged,
            "messages": outcome.messages,
            "skipped": list(outcome.skipped),
            "problems": [problem.model_dump() for problem in outcome.problems],
            "problem_counts": [
                {"path": path, "kind": kind, "severity": severity, "n": n}
                for (path, kind, severity), n in outcome.problems.counts.items()
            ],
        }
        print(json.dumps(document, indent=2))
    else:
        tell_taken_in(study, outcome, make_console(), " Next: [bold]trace diagnose[/]")
    tell_settings(study)
    raise typer.Exit(exit_code)


def _move_batch(study: Study, remove: str, restore: str, *, yes: bool, as_json: bool) -> None:
    """Take one batch out of the study, or bring one back, and say so."""
    from trace_assets.orchestration.instance import prepare_instance
    from trace_assets.orchestration.removal import removable, remove_batch, restore_batch
    from trace_assets.resources.inbox import batches

    waiting = _waits(make_console(stderr=True))
    if restore:
        n = restore_batch(study, restore, waiting)
        if as_json:
            print(json.dumps({"restored": restore, "trajectories": n}))
        else:
            make_console().print(
                f"{escape(restore)}: {n:,} trajectories are back. Next: [bold]trace diagnose[/]",
                soft_wrap=True,
            )
        return
    n = removable(study, remove)
    if not yes:
        asked = f"take the batch '{remove}' with its {n:,} trajectories out of the study"
        if not sys.stdin.isatty():
            raise InputError(
                f"say --yes to {asked}; `--restore {remove}` brings it back. Nothing was changed."
            )
        if not confirm(f"{asked[0].upper()}{asked[1:]}?"):
            raise typer.Exit(2)
    with prepare_instance(study.home) as instance:
        place = remove_batch(study, instance, remove, waiting)
    if as_json:
        print(json.dumps({"removed": remove, "trajectories": n, "path": str(place)}))
        return
    after = "Next: [bold]trace diagnose[/]" if batches(study) else "No other batch is in the study."
    make_console().print(
        f"{escape(remove)}: {n:,} trajectories taken out of the study, with what was made of them alone. "
        f"They lie in {escape(str(place))}; `trace ingest --restore {escape(remove)}` brings "
        f"them back. What was made of all batches is gone with them. {after}",
        soft_wrap=True,
    )


def _waits(errors: Console) -> Callable[[Holder | None], None]:
    def tell(other: Holder | None) -> None:
        who = f" ({other})" if other else ""
        errors.print(
            f"another `trace ingest` or sync is at work here{escape(who)}; waiting for it, Ctrl-C to give up",
            soft_wrap=True,
        )

    return tell


def take_in(study: Study, files: list[Path], format: str, again: bool) -> tuple[Ingested, int]:
    """Bring files into the store, say on stderr what was wrong with them, and return the exit code.

    Args:
        study: The study.
        files: Files, or folders of them.
        format: A format's name, or "auto" to look at each file.
        again: Take the place of a file of the same name, though it held trajectories that are gone.
    """
    from trace_assets.cli.progress import run_sync
    from trace_assets.workflows.ingest import ingest as ingest_files

    errors = make_console(stderr=True)

    outcome = ingest_files(study, files, format, again, _waits(errors))
    synced = run_sync(
        study,
        ["tasks", "trajectories", "config/targets", "config/rollouts"],
        sorted({*outcome.new, *outcome.unchanged}),
        quiet=True,
        jobs=0 if _is_little(outcome) else None,
        plays=(),
        keep=True,
    )
    for severity, line in outcome.problems.lines():
        errors.print(f"[yellow]{severity}[/]: {escape(line)}", soft_wrap=True)
    return outcome, max(synced.exit_code, 1 if outcome.problems.errors else 0)


def _is_little(outcome: Ingested) -> bool:
    return len(outcome.new) <= FEW_BATCHES and sum(outcome.messages.values()) < IN_THIS_PROCESS


def tell_taken_in(study: Study, outcome: Ingested, console: Console, more: str = "") -> None:
    """Say what came in, batch by batch."""
    for batch, n in sorted({**outcome.unchanged, **outcome.new}.items()):
        same = "" if batch in outcome.new else " (unchanged)"
        messages = outcome.messages.get(batch, 0)
        console.print(f"{escape(batch)}: {n:,} trajectories, {messages:,} messages{same}")
    total, known = sum(outcome.new.values()), sum(outcome.unchanged.values())
    there = f" ({known:,} were there already)" if known else ""
    console.print(
        f"{total:,} trajectories ingested{there} into {escape(str(study.home.path))}, "
        f"{len(outcome.problems):,} problems.{more}"
    )


FORMATS = "atif, huggingface, scout"
"""Said here, for help shall not load the writers."""


def export(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    format: Annotated[str, typer.Option(help=f"The form: {FORMATS}.")],
    batch: Annotated[str | None, typer.Option(help="Only this task batch.")] = None,
    target: Annotated[str | None, typer.Option(help="Only this target.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only passed, failed or unjudged ones.")] = None,
    hub: Annotated[
        str,
        typer.Option(
            help="Of --format huggingface: also push the file with a card to the Hugging Face hub, as the "
            "data set OWNER/FILE."
        ),
    ] = "",
    dry_run: DryRun = False,
    public: Public = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write stored trajectories in a form that other programs read."""
    from trace_assets.formats.export import Selection
    from trace_assets.formats.export import export as export_to

    study = open_study(config, overrides, writable=False)
    leave_home_alone(study, file)
    selection = Selection(batch, target, outcome)
    refuse_without_owner(hub, dry_run=dry_run, public=public)
    if hub and format != "huggingface":
        raise InputError("--hub takes trajectories as --format huggingface writes them.")
    done = export_to(study.store, file, format, selection)
    pushed = None
    if hub:
        from trace_assets.serving.release.hub import stage_dataset

        staged = stage_dataset(file, hub, file.with_name(f"{file.stem}-hub"))
        pushed = push([staged], dry_run=dry_run, public=public)
    if as_json:
        document = {"path": str(done.path), "written": done.written, "left_out": done.left_out}
        print(json.dumps(document | ({"hub": pushed} if hub else {})))
        return
    left = f"; {done.left_out:,} without messages were left out" if done.left_out else ""
    console().print(
        f"{done.written:,} trajectories written to {escape(str(done.path))} as {escape(str(format))}{left}.",
        soft_wrap=True,
    )
    tell_pushed(pushed or ())


# `trace watch` and `trace tasks`: new files become batches without the Dagster page.


tasks = typer.Typer(name="tasks", help="Task files for the watched folder.")


@tasks.callback()
def _tasks() -> None:
    """Task files for the watched folder."""


@tasks.command("make")
def make_tasks(
    n: Annotated[int, typer.Option(help="How many.", min=1, max=100_000)] = 20,
    seed: Annotated[int, typer.Option(help="Other seeds give other tasks.", min=0, max=MOST_SEED)] = 1,
    target: Annotated[str, typer.Option(help="The live target that draws them.")] = "embedded",
) -> None:
    """Print new tasks of a live target as JSON lines: `trace tasks make > .trace/watch/tasks/new.jsonl`."""
    from trace_assets.workflows.task_files import example_rows

    for row in example_rows(target, n, seed):
        print(json.dumps(row))


def watch(
    once: Annotated[bool, typer.Option("--once", help="Look one time and end.")] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Take new files from the watched folders and diagnose what came; Ctrl-C ends it."""
    from trace_assets.workflows.watch import KINDS, Look, look
    from trace_assets.workflows.watched_folder import WatchedFolder

    study = open_study(config, overrides)
    console = make_console(stderr=as_json)
    if not once:
        for kind in KINDS:
            console.print(
                f"watching {escape(str(WatchedFolder(study, kind).path))} for {kind}", soft_wrap=True
            )
    code, seen = 0, list[Look]()
    while True:
        seen = [look(study, kind) for kind in KINDS]
        for one in seen:
            _tell(one, console)
            code = max(code, 1 if one.refused else 0)
        code = max(code, _bring_up_to_date(study, seen, console, quiet=as_json))
        if once:
            break
        time.sleep(study.settings.watch.interval_seconds)
    if as_json:
        document = {
            "taken": [row.model_dump(mode="json") for one in seen for row in one.taken],
            "refused": [row.model_dump(mode="json") for one in seen for row in one.refused],
            "notices": [text for one in seen for text in one.notices],
            "waiting": [name for one in seen for name in one.waiting],
        }
        print(json.dumps(document, indent=2))
    raise typer.Exit(code)


def _tell(seen: Look, console: Console) -> None:
    for arrival in seen.taken:
        console.print(f"[green]✓[/] {escape(arrival.sentence)}", soft_wrap=True)
    for row in seen.refused:
        console.print(f"[red]✗[/] {escape(row.sentence)}", soft_wrap=True)
    for text in seen.notices:
        console.print(f"[yellow]notice[/] {escape(text)}", soft_wrap=True)


def _bring_up_to_date(study: Study, seen: list[Look], console: Console, *, quiet: bool) -> int:
    """Diagnose with the batches that came; return the exit code of the work."""
    from trace_assets.cli.pipeline import DIAGNOSIS, bring_up_to_date
    from trace_assets.records import TrajectoryHead
    from trace_assets.resources.inbox import batches
    from trace_assets.workflows.watch import pending

    waiting = pending(study)
    held = [one for one in waiting if one.waits_for]
    if held:
        names = ", ".join(one.batch for one in held)
        console.print(
            f"[yellow]{escape(names)}[/] wait for the base model: run `trace sync --select base_model`.",
            soft_wrap=True,
        )
    ready = {one.batch for one in waiting if not one.waits_for}
    if not ready and not any(one.taken for one in seen):
        return 3 if held else 0
    there = {*batches(study), *study.store.partitions(TrajectoryHead), *ready}
    if not there:
        return 0
    return bring_up_to_date(study, DIAGNOSIS, sorted(there), plays=sorted(ready), quiet=quiet).exit_code
