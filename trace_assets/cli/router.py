"""`trace router`: an OpenAI-compatible endpoint that sends each conversation to its adapter."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from trace_assets.cli.console import console as make_console
from trace_assets.cli.options import Config, Set, open_study
from trace_assets.errors import Unavailable
from trace_assets.store.home import Home

if TYPE_CHECKING:
    from trace_assets.routing.proxy.open import ServedRouting


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

    from trace_assets.routing.proxy.app import RouterProxy
    from trace_assets.routing.proxy.decisions import Decisions
    from trace_assets.routing.proxy.limits import own_names, server_settings
    from trace_assets.routing.proxy.open import open_decider, routing_of_release
    from trace_assets.routing.proxy.upstream import Upstream

    server = Upstream(upstream)
    routing = routing_of_release(bundle, which) if bundle is not None else _of_study(which, config, overrides)
    decider = open_decider(routing, server)
    file = record or Home.open().path / "serving" / "decisions.jsonl"
    proxy = RouterProxy(server, Decisions(decider, routing.models, file), own_names(host, allow_host or ()))
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
    from trace_assets.stages.routing import routing_of_study

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
