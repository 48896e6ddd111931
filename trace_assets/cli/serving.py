"""`trace serve`: the base model and its accepted adapters behind an OpenAI-compatible server."""

from __future__ import annotations

import json
import shlex
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from trace_assets.cli.options import (
    Config,
    DryRun,
    Json,
    Public,
    Set,
    open_study,
    push,
    refuse_without_owner,
    tell_pushed,
)
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError, Unavailable

if TYPE_CHECKING:
    from trace_assets.records import ServedParity
    from trace_assets.serving.router.app import ServedRouting
    from trace_assets.study import Study


ENDING = 10.0
"""Seconds in which a server whose engine has died closes itself."""


def serve(
    check_only: Annotated[
        bool, typer.Option("--check", help="Start, compare every adapter with the trained model, and stop.")
    ] = False,
    unchecked: Annotated[
        bool, typer.Option("--unchecked", help="Serve without comparing anything first.")
    ] = False,
    show: Annotated[bool, typer.Option("--print", help="Print vLLM's command line only.")] = False,
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Serve the base model and every accepted adapter through vLLM until interrupted.

    Adapters are named by the hash of their content. Before anything is announced, every adapter's
    log-probabilities are compared with the trained model's: a server that differs is stopped, exit 1.
    """
    from trace_assets.serving.server import ModelServer
    from trace_assets.system.vllm import find_vllm
    from trace_assets.workflows.serve import check_served, launch_of, log_file, served_sums

    study = open_study(config, overrides)
    launch = launch_of(study)
    for why in served_sums(study)[1]:
        make_console(stderr=True).print(f"[yellow]note[/] not served: {escape(why)}", soft_wrap=True)
    section = study.settings.serving
    if show:
        if as_json:
            command = [*find_vllm(section.command), *launch.arguments()]
            print(json.dumps({"variables": launch.variables(), "command": command}, indent=2))
            return
        variables = [f"{name}={value}" for name, value in launch.variables().items()]
        print(" ".join([*variables, *map(shlex.quote, [*find_vllm(section.command), *launch.arguments()])]))
        return
    console = make_console(stderr=as_json)
    server = ModelServer(
        launch,
        log_file(study),
        command=find_vllm(section.command),
        start_seconds=section.start_seconds,
    )
    with server:
        rows = [] if unchecked else check_served(study, launch.base_url)
        if any(not row.passed and not row.n_episodes for row in rows) and (gone := server.why_gone(ENDING)):
            raise Unavailable(gone)  # not compared: whether an adapter differs is not known
        _show(rows, console)
        if as_json:
            document = {
                "base_url": launch.base_url,
                "models": [launch.name, *launch.adapters],
                "adapters": [row.model_dump(mode="json") for row in rows],
            }
            print(json.dumps(document, indent=2), flush=True)
        if not all(row.passed for row in rows):
            raise typer.Exit(1)
        if check_only:
            return
        names = [launch.name, *launch.adapters]
        console.print(
            f"serving at [bold]{launch.base_url}[/]; models: {escape(', '.join(names))}", soft_wrap=True
        )
        console.print(f"[dim]log: {escape(str(server.log))}; stop with Ctrl-C[/]", soft_wrap=True)
        try:
            while server.alive:
                time.sleep(0.5)
        except KeyboardInterrupt:
            console.print("stopping")
            return
        raise Unavailable(f"the model server ended by itself; its last words are in {server.log}.")


def _show(rows: list[ServedParity], console: Console) -> None:
    for row in rows:
        mark = "[green]same[/]" if row.passed else "[red]DIFFERS[/]" if row.n_episodes else "[red]UNKNOWN[/]"
        console.print(f"{mark} {escape(row.served_as)}  [dim]{escape(row.detail)}[/]", soft_wrap=True)


# `trace release`: adapters, router, launch files and cards in one folder.


JUDGING = ("adapter_validation", "routing", "evaluation")
"""Assets whose figures about the adapters a release repeats."""


def release(
    folder: Annotated[
        Path, typer.Argument(help="Where it is written: a new or empty folder, or an earlier release.")
    ] = Path("release"),
    hub: Annotated[
        str,
        typer.Option(help="Also push each adapter with its card to the Hugging Face hub, as OWNER/ADAPTER."),
    ] = "",
    dry_run: DryRun = False,
    public: Public = False,
    base_model: Annotated[
        str, typer.Option(help="With --hub: name of the base model there, for the cards.")
    ] = "",
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Write what was taught, ready to be served: adapters that a router may choose, the router, how to start.

    The folder is put in place in one step, and the same study gives the same bytes. Exit 1 when no adapter
    is fit to be released, 2 when one was trained anew and not judged since.
    """
    from trace_assets.serving.release.hub import stage_uploads
    from trace_assets.workflows.release import release_words, write_release

    study = open_study(config, overrides)
    refuse_figures_of_others(study)
    refuse_without_owner(hub, dry_run=dry_run, public=public)
    made = write_release(study, folder)
    pushed = None
    if hub:
        beside = folder.with_name(f"{folder.name}-hub")
        staged = stage_uploads(folder, hub, beside, base_model=base_model)
        pushed = push(staged, dry_run=dry_run, public=public)
    if as_json:
        print(json.dumps({**json.loads(made.text()), "hub": pushed}) if hub else made.text().rstrip("\n"))
        return
    console = make_console()
    for name, words in release_words(made).items():
        console.print(f"[bold]{escape(name)}[/]  {escape(words)}", soft_wrap=True)
    console.print(f"released in {escape(str(folder))}; README.md there says how to serve it", soft_wrap=True)
    tell_pushed(pushed or ())


def refuse_figures_of_others(study: Study) -> None:
    """Refuse a study in which an adapter was made anew after it was validated, routed to or evaluated.

    Tables name adapters, not their weights, so the figures would be printed as the new one's.

    Raises:
        InputError: There is such an adapter.
    """
    from trace_assets.definitions import graph
    from trace_assets.orchestration.instance import prepare_instance
    from trace_assets.orchestration.planner import plan

    with prepare_instance(study.home) as instance:
        for step in plan(graph(study), instance, JUDGING):
            for why in step.reason.split("; "):
                if step.item.asset in JUDGING and why.startswith(("adapter[", "a partition of adapter ")):
                    raise InputError(
                        f"the figures of {step.item} are those of other adapters ({why}): "
                        "run `trace sync`, then release."
                    )


def route(
    text: Annotated[str, typer.Argument(help="The first user message of the task.")],
    config: Config = None,
    overrides: Set = None,
    as_json: Json = False,
) -> None:
    """Say which adapter a task would be sent to, with probabilities; "none" is the base model."""
    from trace_assets.workflows.serve import route_text

    decision = route_text(open_study(config, overrides, writable=False, whole=True), text)
    if as_json:
        print(json.dumps({"choice": decision.choice, "probabilities": decision.probabilities}, indent=2))
        return
    console = make_console()
    for name, probability in sorted(decision.probabilities.items(), key=lambda item: -item[1]):
        mark = "[bold green]→[/]" if name == decision.choice else " "
        console.print(f"{mark} {probability:6.1%}  {escape(name)}")


# `trace router`: an OpenAI-compatible endpoint that sends each conversation to its adapter.


def router(
    upstream: Annotated[str, typer.Option(help="The model server, such as http://127.0.0.1:8000/v1.")],
    bundle: Annotated[
        Path | None, typer.Option(help="A release; the study in TRACE_HOME unless given.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    which: Annotated[
        Literal["classifier", "label_logits"] | None,
        typer.Option("--router", help="Who decides; what the release or the settings say unless given."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Decisions, a line of JSON each; TRACE_HOME/serving/decisions.jsonl unless given."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name by which clients call this machine, beside its own and its addresses; requests that "
            "name another are refused. May be given several times."
        ),
    ] = None,
    config: Config = None,
    overrides: Set = None,
) -> None:
    """Serve the model `routed` in front of a model server that serves the adapters, until interrupted.

    The first user message decides, so a conversation keeps its adapter. Requests for other models pass.
    """
    import uvicorn

    from trace_assets.serving.router.app import RouterProxy, open_decisions, routing_of_release
    from trace_assets.serving.router.limits import own_names, server_settings
    from trace_assets.serving.router.upstream import Upstream
    from trace_assets.store.files import Home

    server = Upstream(upstream)
    routing = routing_of_release(bundle, which) if bundle is not None else _of_study(which, config, overrides)
    file = record or Home.open().path / "serving" / "decisions.jsonl"
    decisions = open_decisions(routing, server, file)
    decider = decisions.decider
    proxy = RouterProxy(server, decisions, own_names(host, allow_host or ()))
    console = make_console()
    with _listening(host, port) as listener:
        console.print(
            f"routing at [bold]http://{escape(host)}:{port}/v1[/], model [bold]routed[/], by "
            f"{escape(decider.name)} among {escape(', '.join(decider.choices))}; "
            f"server: {escape(server.base_url)}",
            soft_wrap=True,
        )
        console.print(f"[dim]decisions: {escape(str(file))}; stop with Ctrl-C[/]", soft_wrap=True)
        settings = server_settings(proxy.app(), log_level="warning")
        with suppress(KeyboardInterrupt):  # uvicorn has ended in good order, and raises the signal again
            uvicorn.Server(settings).run(sockets=[listener])
        console.print("stopped")


def _of_study(
    which: Literal["classifier", "label_logits"] | None, config: Path | None, overrides: list[str] | None
) -> ServedRouting:
    from trace_assets.workflows.serve import routing_of_study

    return routing_of_study(open_study(config, overrides), which)


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Unavailable(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --port."
        ) from error
    return listener
