"""`trace doctor`: what this machine can do, and how to mend what it cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.cli.checkup.machine import Door
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.cli.options import console as make_console

if TYPE_CHECKING:
    from trace_assets.cli.checkup.machine import Finding
    from trace_assets.study import Study

PORT = 3000
SHOWN = 20
"""Names of files that are told one by one."""
MARKS = {"ok": "[green]✓[/]", "degraded": "[yellow]~[/]", "missing": "[red]✗[/]"}
DOORS = {
    Door.diagnose: "diagnose trajectories",
    Door.loop: "the embedded loop",
    Door.real: "real models on a GPU",
}

For = Annotated[
    list[Door] | None,
    typer.Option("--for", help="What is wanted: its needs decide the exit code. By default the loop."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Leave out what starts sandboxes (seconds).")]
Attacked = Annotated[
    bool,
    typer.Option(
        "--sandbox", help="Attack the sandbox instead (a minute): exit 0 all held, 1 not, 3 no sandbox."
    ),
]

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        help="Look at an object store instead (s3://BUCKET/PREFIX): exit 0 it can hold a home, 3 it cannot.",
    ),
]

Deep = Annotated[
    bool,
    typer.Option("--deep", help="Read every file of the home to its end and compare it."),
]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept-losses",
        help="Go on without lost files, and move altered ones to damaged/; what can be made again is due.",
    ),
]


def doctor(
    doors: For = None,
    quick: Quick = False,
    sandbox: Attacked = False,
    deep: Deep = False,
    accept: Accept = False,
    store: StoreOption = "",
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Report what this machine can do and how to mend what it cannot; exit 3 when what is wanted cannot."""
    from trace_assets.cli.checkup.machine import shut
    from trace_assets.cli.checkup.services import attack_sandbox

    if store:
        _look_at_store(store, as_json)
        return
    wanted, named = doors or [Door.loop], os.environ.get("DAGSTER_HOME", "")
    study = open_study(config, overrides, writable=accept and not sandbox, whole=True)
    if sandbox:
        raise typer.Exit(attack_sandbox(study, make_console(), as_json))
    if accept:
        _accept(study)
    findings = list(examine(study, battery=not quick, deep=deep, dagster_home=named))
    closed = shut(findings)
    if as_json:
        document = {
            "findings": [asdict(finding) for finding in findings],
            "doors": {door: {"open": not closed[door], "missing": closed[door]} for door in Door},
            "asked_for": list(wanted),
        }
        print(json.dumps(document, indent=2))
    else:
        _print(make_console(), findings, closed)
    raise typer.Exit(3 if any(closed[door] for door in wanted) else 0)


def _look_at_store(text: str, as_json: bool) -> None:
    from trace_assets.store.objects.bucket import Bucket, require_conditions
    from trace_assets.system.object_address import parse_address

    address = parse_address(text)
    require_conditions(Bucket.open(address))
    if as_json:
        print(json.dumps({"store": str(address), "ok": True}))
        return
    make_console().print(
        f"{MARKS['ok']} {escape(str(address))} keeps the conditions of writes: it can hold a home."
    )


def _accept(study: Study) -> None:
    from trace_assets.cli.checkup import files

    names = files.accept_losses(study)
    console = make_console(stderr=True)
    for name in names[:SHOWN]:
        console.print(f"gone on without {escape(name)}", soft_wrap=True)
    if len(names) > SHOWN:
        console.print(f"and without {len(names) - SHOWN:,} more")


def examine(
    study: Study, *, battery: bool = True, deep: bool = False, dagster_home: str = ""
) -> Iterator[Finding]:
    """Look at everything that some part of the product needs.

    Args:
        study: Whose home and settings to look at.
        battery: Also start sandboxes and time them, which takes seconds.
        deep: Also read every file of the home to its end.
        dagster_home: What `DAGSTER_HOME` said when the program was started.
    """
    from trace_assets.cli.checkup import files, machine, services
    from trace_assets.cli.checkup import files as homes
    from trace_assets.cli.checkup.machine import packages
    from trace_assets.cli.checkup.services import battery_finding

    one: list[Callable[[], Finding]] = [
        machine.python,
        machine.cores,
        machine.memory,
        lambda: machine.disk(study.home.path),
        lambda: machine.port(PORT, f"trace ui --port {PORT + 1}"),
    ]
    yield from (look() for look in one)
    yield from packages()
    yield from homes.home(study.home)
    with ThreadPoolExecutor() as pool:  # each waits for an answer of its own
        answers = [
            pool.submit(machine.gpus),
            pool.submit(services.docker_daemon, study),
            pool.submit(services.model_servers, study),
        ]
        yield from homes.dagster_home(study.home, dagster_home)
        yield homes.at_work(study.home)
        yield from homes.leftovers(study.home)
        yield from files.files(study, deep=deep)
        found = [finding for answer in answers for finding in answer.result()]
    yield from found
    docker_works = any(finding.name == "docker" and finding.state != "missing" for finding in found)
    yield services.bubblewrap(study, docker_works)
    if battery:
        yield from services.sandbox(study)
        yield battery_finding(study)


def _print(console: Console, findings: list[Finding], closed: dict[Door, list[str]]) -> None:
    for finding in findings:
        console.print(f"{MARKS[finding.state]} {finding.name}: {escape(finding.detail)}", soft_wrap=True)
        if finding.state != "ok" and finding.fix:
            why = ", ".join(DOORS[door] for door in finding.needed_for) or "comfort"
            console.print(f"    for {why}: {escape(finding.fix)}", soft_wrap=True, style="dim")
    console.print()
    for door, missing in closed.items():
        verdict = f"[red]no[/], for want of {escape(', '.join(missing))}" if missing else "[green]yes[/]"
        console.print(f"{DOORS[door]}: {verdict}", soft_wrap=True)
