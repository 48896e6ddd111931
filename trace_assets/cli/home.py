"""`trace home`, a home that goes into an object store and back; `trace cluster`, nodes that share one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from trace_assets.cli.lazy import go_to_study
from trace_assets.cli.options import Config, Json, Set, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError
from trace_assets.system.object_address import is_address, parse_address

home = typer.Typer(
    name="home",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="A home in an object store: copy it there and back.",
)
cluster = typer.Typer(
    name="cluster",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Whether the nodes of a Ray cluster can work on this home together; who holds its leases.",
)


@home.callback()
def _home() -> None:
    """A home in an object store: copy it there and back."""


@home.command("copy")
def copy(
    source: Annotated[str, typer.Argument(help="A folder, or s3://BUCKET/PREFIX (gs://, az://).")],
    destination: Annotated[str, typer.Argument(help="The other of the two.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of what the destination holds.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="To a store: send everything, also what is said to be there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy a home into an object store or out of it; what is there already is not sent again.

    The destination is the old home until all has come, and the new one from then on. Locks, installed
    targets and what is half made are left out.
    """
    if is_address(source) == is_address(destination):
        raise InputError(
            "one of the two is a folder and the other an address such as s3://BUCKET/PREFIX; a folder "
            "is copied to another by `cp -a`."
        )
    from trace_assets.store.files import Home
    from trace_assets.store.objects.bucket import Bucket
    from trace_assets.store.objects.download import copy_down
    from trace_assets.store.objects.remote import RemoteHome
    from trace_assets.store.objects.upload import copy_up

    if is_address(destination):
        folder = Path(source).expanduser().absolute()
        if not (folder / "manifest.jsonl").is_file():
            raise InputError(
                f"{folder} is no home: it holds no manifest.jsonl. Name the folder of TRACE_HOME."
            )
        remote = RemoteHome(Bucket.open(parse_address(destination)))
        done = copy_up(Home(folder), remote, replace=replace, again=again)
    else:
        if again:
            raise InputError("--again is for a copy to a store; what is fetched is always compared.")
        remote = RemoteHome(Bucket.open(parse_address(source)))
        done = copy_down(remote, Path(destination).expanduser().absolute(), replace=replace)
    if as_json:
        print(json.dumps({"from": source, "to": destination, **asdict(done)}))
        return
    way = "sent" if is_address(destination) else "fetched"
    moved = f"{done.moved:,} contents of {done.moved_bytes:,} bytes {way}"
    what = f"holds {source} now" if done.changed else f"held {source} already"
    make_console().print(
        f"{escape(destination)} {escape(what)}: {done.files:,} files of {done.size:,} bytes; {moved}.",
        soft_wrap=True,
    )


@home.command("clean")
def clean(
    address: Annotated[str, typer.Argument(help="s3://BUCKET/PREFIX (gs://, az://).")],
    as_json: Json = False,
) -> None:
    """Remove from an object store what its home no longer needs: contents of earlier states.

    A copy that is under way to it is refused when it ends, and has to be begun again.
    """
    from trace_assets.store.objects.bucket import Bucket
    from trace_assets.store.objects.remote import RemoteHome

    removed = RemoteHome(Bucket.open(parse_address(address))).clean()
    if as_json:
        print(json.dumps({"address": address, "removed": removed}))
        return
    make_console().print(f"{removed:,} contents that nothing needs were removed from {escape(address)}.")


@home.command("release")
def release(
    address: Annotated[str, typer.Argument(help="s3://BUCKET/PREFIX (gs://, az://).")],
    as_json: Json = False,
) -> None:
    """Give a home in an object store free whose worker is gone for good, with what it had not sent."""
    from trace_assets.store.objects.bucket import Bucket
    from trace_assets.store.objects.remote import RemoteHome
    from trace_assets.store.objects.work import release as give_free

    by = give_free(RemoteHome(Bucket.open(parse_address(address))))
    if as_json:
        print(json.dumps({"address": address, "held_by": by}))
        return
    said = f"{address} is free; it was held by {by}." if by else f"{address} was free."
    make_console().print(escape(said), soft_wrap=True)


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
    from trace_assets.settings.operation import Cluster

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
