"""`trace ui`: Dagster's page and its daemon on a study, one of them at a time."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from trace_assets.cli.options import Config, Set, open_study
from trace_assets.cli.options import console as make_console
from trace_assets.errors import InputError, Unavailable
from trace_assets.system.machine import certificates, through_proxies
from trace_assets.system.processes import ask_to_end_with_parent

if TYPE_CHECKING:
    from trace_assets.store import Home

LOG = "ui.log"
"""In the Dagster home: what its services say."""
STOP_SECONDS = 60.0
"""How long its services may take to end."""
LOCATION = "trace_assets.definitions"
"""The code location's name when it is loaded with `dagster dev -m`."""
MUTATION = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) { __typename }
}
"""
EVERY_SECONDS = 1.0
PATIENCE = {"DAGSTER_GRPC_TIMEOUT_SECONDS": "600"}
"""How long Dagster's services wait for the process that has the definitions, which begins every run. Its
minute by default is too short beside a training: runs were marked as failed before they began."""


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the web page.")] = 3000,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    config: Config = None,
    overrides: Set = None,
) -> None:
    """Open the Dagster UI on this study, with sensors and schedule; an edit of trace.toml is seen at once."""
    from trace_assets.orchestration.instance import prepare_instance, register_batches
    from trace_assets.study import CONFIG_VARIABLE
    from trace_assets.workflows.made_with import live_in_use

    study = open_study(config, overrides)
    address = page_address(host, port)
    with held(study.home, address):
        check_free(host, port)
        with prepare_instance(study.home) as instance:
            register_batches(instance, study, live=live_in_use(study))
        log = study.home.dagster / LOG
        settings = os.environ.get(CONFIG_VARIABLE)
        with (
            reloading(address, Path(settings) if settings else None),
            _dagster(host, port, log) as process,
        ):
            _wait_for(address, process, log)
            words = f"open at [bold]{address}[/]; stop with Ctrl-C; log: {escape(str(log))}"
            make_console().print(words, soft_wrap=True)
            process.wait()
            raise _ended(process, log)


def page_address(host: str, port: int) -> str:
    """Return where a page that listens on a host can be opened from this machine.

    >>> page_address("127.0.0.1", 3000), page_address("0.0.0.0", 80), page_address("::1", 80)
    ('http://127.0.0.1:3000', 'http://127.0.0.1:80', 'http://[::1]:80')
    """
    name = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


@contextmanager
def held(home: Home, address: str) -> Iterator[None]:
    """Be the only page with a daemon on a home: two daemons would each start what is due.

    Raises:
        Unavailable: Another one is open.
    """
    from trace_assets.store.locks import exclusive

    path = home.path / "locks" / "ui.lock"
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(path, address, patience=0.0))
        except TimeoutError:
            raise _open_already(path) from None
        yield


def _open_already(path: Path) -> Unavailable:
    from trace_assets.store.locks import holder

    found = holder(path)
    where = f"at {found.what} (process {found.pid} on {found.host})" if found else "already"
    return Unavailable(
        f"this home is open {where}: use that page, or stop it first; two would both start what is due."
    )


def check_free(host: str, port: int) -> None:
    """Find out whether a port can be listened on.

    Raises:
        Unavailable: Something listens there, or it may not be used.
        InputError: There is no such address here.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise InputError(f"--host {host} is no address of this machine ({error.strerror}).") from error
    family, kind, _, _, place = found[0]
    with socket.socket(family, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(place)
            probe.listen()
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {host}:{port} ({error.strerror}); choose another --port."
            ) from error


@contextmanager
def _dagster(host: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run Dagster's services, until the body ends or this process does."""
    command = [sys.executable, "-m", "dagster", "dev", "-m", "trace_assets.definitions"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, "-h", host, "-p", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**PATIENCE, **os.environ},
            # Ctrl-C reaches it once, from here: at a second one it would not wait for its services.
            start_new_session=True,
            preexec_fn=_begin,
        )
    try:
        yield process
    except KeyboardInterrupt:
        make_console().print("stopped")
    finally:
        _stop(process)


def _begin() -> None:
    """In the child: a shell that starts this command in the background has it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ask_to_end_with_parent()


def _stop(process: subprocess.Popen[bytes]) -> None:
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(ending)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the page answers.

    Raises:
        Unavailable: Dagster ended before.
    """
    import httpx

    while process.poll() is None:
        try:
            asked = f"{address}/server_info"
            if httpx.get(asked, timeout=5.0, trust_env=False, verify=certificates(False)).is_success:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
    raise _ended(process, log)


def _ended(process: subprocess.Popen[bytes], log: Path) -> Unavailable:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    said = next((line for line in reversed(lines) if "Error" in line or "Exception" in line), "")
    return Unavailable(
        f"Dagster ended with exit code {process.returncode}{': ' + said[:300] if said else ''}; see {log}."
    )


@contextmanager
def reloading(page: str, settings: Path | None) -> Iterator[None]:
    """Reload the code location of a page whenever a settings file changes, until the body ends.

    Of an edit that cannot be read the page shows the error; the next edit is tried again.

    Args:
        page: The page's address, such as http://127.0.0.1:3000.
        settings: The file; None, or a file that does not exist, is watched for nothing.
    """
    if settings is None or not settings.is_file():
        yield
        return
    stop = threading.Event()
    seen = _content(settings)  # before the thread runs: an edit in between must not be missed
    thread = threading.Thread(target=_watch, args=(page, settings, seen, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(EVERY_SECONDS + 1)


def reload_definitions(page: str) -> bool:
    """Have a page read its definitions anew; tell whether it heard. What is wrong with them it shows."""
    import httpx

    query = {"query": MUTATION, "variables": {"name": LOCATION}}
    with suppress(httpx.HTTPError):
        answer = httpx.post(f"{page}/graphql", json=query, timeout=120, trust_env=through_proxies(page))
        return answer.is_success
    return False


def _watch(page: str, settings: Path, seen: bytes | None, stop: threading.Event) -> None:
    while not stop.wait(EVERY_SECONDS):
        now = _content(settings)
        if now is not None and now != seen and reload_definitions(page):
            seen = now


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None  # an editor is putting another file in its place
