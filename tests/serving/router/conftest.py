"""A pretended model server, and a router proxy in front of it, both over real sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvicorn

from tests.serving.router.pretend_server import PretendServer
from trace_assets.serving.router.app import RouterProxy
from trace_assets.serving.router.decisions import Decider, Decisions
from trace_assets.serving.router.limits import server_settings
from trace_assets.serving.router.upstream import Upstream

MODELS = {"cancel": "cancel@0f3a9b2c", "multi": "multi@1c2d3e4f", "none": "base"}


class ByWord:
    """Decides by a word of the opening, and counts."""

    name, version, choices = "by_word", "v1", ("cancel", "multi", "none")

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def decide(self, text: str, headers: object) -> dict[str, float]:
        self.asked.append(text)
        chosen = next((name for name in ("cancel", "multi") if name in text.lower()), "none")
        return {name: 0.8 if name == chosen else 0.1 for name in self.choices}


@pytest.fixture
def server() -> Iterator[PretendServer]:
    with PretendServer() as one:
        yield one


Start = Callable[..., str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a proxy in front of an address; return its own, up to `/v1`."""
    with ExitStack() as stack:

        def begin(url: str, decider: Decider | None = None, **options: object) -> str:
            upstream = Upstream(url)
            decisions = Decisions(
                decider or ByWord(),
                MODELS,
                tmp_path / "decisions.jsonl",
                **options,  # type: ignore[arg-type]
            )
            app = RouterProxy(upstream, decisions).app()
            config = server_settings(app, host="127.0.0.1", port=0, log_level="debug")
            served = uvicorn.Server(config)
            thread = threading.Thread(target=served.run, daemon=True)
            thread.start()
            until = time.monotonic() + 600
            while not served.started:
                assert time.monotonic() < until and thread.is_alive()
                time.sleep(0.01)

            def end() -> None:
                served.should_exit = True
                thread.join(10)

            stack.callback(end)
            port = served.servers[0].sockets[0].getsockname()[1]
            return f"http://127.0.0.1:{port}/v1"

        yield begin
