"""Tells a running Dagster page that the settings file changed, so that it reads the definitions anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

LOCATION = "trace_assets.definitions"
"""The code location's name when it is loaded with `dagster dev -m`."""
MUTATION = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) {
    __typename
    ... on PythonError { message }
    ... on WorkspaceLocationEntry { locationOrLoadError { __typename ... on PythonError { message } } }
  }
}
"""
EVERY_SECONDS = 1.0


@contextmanager
def reloading(page: str, settings: Path | None) -> Iterator[None]:
    """Reload the code location of a page whenever a settings file changes, until the body ends.

    An edit that cannot be read leaves the page with the error; the next edit is tried again.

    Args:
        page: The page's address, such as http://127.0.0.1:3000.
        settings: The file; None, or a file that does not exist, is watched for nothing.
    """
    if settings is None or not settings.is_file():
        yield
        return
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(page, settings, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(EVERY_SECONDS + 1)


def reload_definitions(page: str) -> bool:
    """Have a page read its definitions anew; tell whether it answered without an error."""
    with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
        query = {"query": MUTATION, "variables": {"name": LOCATION}}
        answer = httpx.post(f"{page}/graphql", json=query, timeout=120).json()
        return bool(answer["data"]["reloadRepositoryLocation"]["__typename"] == "WorkspaceLocationEntry")
    return False


def _watch(page: str, settings: Path, stop: threading.Event) -> None:
    seen = _content(settings)
    while not stop.wait(EVERY_SECONDS):
        now = _content(settings)
        if now is not None and now != seen and reload_definitions(page):
            seen = now


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None  # an editor is putting another file in its place
