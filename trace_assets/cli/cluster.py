"""`trace cluster`: whether nodes can work on this home together, and who holds its leases."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.cli.study_folder import go_to_study
from trace_assets.settings.operation import Cluster

cluster = typer.Typer(
    name="cluster",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Whether the nodes of a Ray cluster can work on this home together; who holds its leases.",
)


@cluster.callback()
def _cluster() -> None:
    """Whether the nodes of a Ray cluster can work on this home together; who holds its leases."""


@cluster.command("files")
def files(
    lost: Annotated[
        bool, typer.Option("--lost", help="The database is gone for good: ask it nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Have files of the home hold its leases again, in the place of a database; nobody may be at work.

    What the database knows goes into the files: how often items were begun, what is due. The other way goes
    every command that is given `[cluster] database`.
    """
    from trace_assets.diagnosis.llm.shared_account import settled
    from trace_assets.resources.inbox import batches
    from trace_assets.store import Home
    from trace_assets.store.database import forget_database
    from trace_assets.store.item_locks import mark_due
    from trace_assets.store.moving import to_files
    from trace_assets.study import Study

    go_to_study()
    home = Home.open()
    if lost:
        forget_database(home)
        for batch in batches(Study(home)):  # what came in last may not have been made
            for asset in ("tasks", "trajectories"):
                mark_due(home, asset, batch, "the database that knew what is due was lost")
    else:
        to_files(home, lambda: settled(home.answers))
    if as_json:
        print(json.dumps({"home": str(home.path), "leases": "files"}))
        return
    print(f"files hold the leases of {home.path} now; leave [cluster] database empty.")


@cluster.command("check")
def check(
    address: Annotated[str, typer.Option(help="Of the cluster, in the place of cluster.address.")] = "",
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Ask every node for its code, what it offers and what it sees of the home; exit 3 if one is wrong.

    Nothing is made. The clocks are shown and not relied on.
    """
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    study = open_study(config, overrides)
    settings = study.settings.cluster
    with RayPool(Cluster(engine="ray", address=address or settings.address)) as pool:
        nodes = pool.nodes(study.home)
    wrong = any(node.problem for node in nodes)
    if as_json:
        document = {"home": str(study.home.path), "ok": not wrong, "nodes": [asdict(node) for node in nodes]}
        print(json.dumps(document, indent=2))
        raise typer.Exit(3 if wrong else 0)
    console = make_console()
    table = Table("node", "offers", "code", "Python", "home", "sandbox", "clock ahead, s")
    for node in nodes:
        report = node.report
        offers = ", ".join(
            f"{value:g} {name}" if name != "memory" else f"{value / 2**30:.0f} GiB"
            for name, value in sorted(node.resources.items())
        )
        table.add_row(
            escape(node.name),
            escape(offers),
            f"{report.package} {report.source}" if report else "?",
            report.python if report else "?",
            "[red]✗[/]" if node.problem else "[green]✓[/]",
            ", ".join(report.sandboxes) or "none" if report else "?",
            str(node.clock or "?"),
        )
    console.print(table)
    for node in nodes:
        if node.problem:
            console.print(f"[red]✗[/] {escape(f'{node.name} {node.problem}')}", soft_wrap=True)
    if not wrong:
        console.print(f"{len(nodes)} node{'s' if len(nodes) != 1 else ''} can work on {study.home.path}.")
    raise typer.Exit(3 if wrong else 0)
