"""Tells a running Dagster page that the settings file changed, so that it reads the definitions anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from trace_assets.proxies import through_proxies

LOCATION = "trace_assets.definitions"
"""The code location's name when it is loaded with `dagster dev -m`."""
MUTATION = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) { __typename }
}
"""
EVERY_SECONDS = 1.0


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
