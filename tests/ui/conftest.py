"""A study that is opened in the Dagster UI, and a browser to look at it; neither is there, no test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.crash.loop_process import TINY
from trace_assets.system.machine import free_port

SMALL = {**TINY, "sandbox.backend": "auto"}
"""A loop so small that its figures say little: plots are to be drawn here, not to be believed."""


@dataclass
class Opened:
    """A study in the UI."""

    address: str
    home: Path

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """Ask the GraphQL endpoint that the pages themselves ask."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=900) as answer:
            data: dict[str, Any] = json.load(answer)["data"]
        return data


def open_ui(arguments: list[str], home: Path, folder: Path, **variables: str) -> Iterator[Opened]:
    """Start a UI on a free port, wait for its page, and end all of its processes with the body."""
    port = free_port()
    settings = "\n".join(f"{key}={value}" for key, value in SMALL.items())
    environment = {**os.environ, "TRACE_HOME": str(home), "TRACE_SET": settings, **variables}
    for name in [name for name, value in environment.items() if value == ""]:
        del environment[name]
    log = folder / "ui.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments, "--port", str(port)],
            env=environment,
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(360):
                assert process.poll() is None, log.read_text()
                try:
                    with urlopen(f"{address}/server_info", timeout=5):
                        break
                except OSError:
                    time.sleep(0.5)
            else:
                pytest.fail(f"no page after three minutes: {log.read_text()[-2000:]}")
            yield Opened(address, home)
        finally:
            for end in (signal.SIGINT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, end)
                    process.wait(30)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install -e '.[browser]'"
    )
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium on PATH; install one or name it in the variable CHROMIUM")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()
