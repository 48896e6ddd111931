"""A home in a bucket to look at: a folder of this machine's cache for each state, never written to again."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from trace_assets.store.files import MIRROR, make_folder, replace_folder
from trace_assets.store.locks import exclusive
from trace_assets.store.objects.bucket import Bucket
from trace_assets.store.objects.download import THREADS, fetch, read_home, require_names
from trace_assets.store.objects.remote import RemoteHome, State, Stored
from trace_assets.system.object_address import Address, parse_address

CACHE_VARIABLE = "TRACE_CACHE"
NOT_TO_LOOK_AT = frozenset(
    ("models", "journals", "answers", "dagster", "damaged", "serving", "reports", "environments", "locks")
)
"""Folders of a home that no query and no page reads."""
KEPT_STATES = 2
"""The last one and the one before, which somebody may still be reading."""


def cache_folder() -> Path:
    """Return the folder of what this machine keeps of homes in object stores."""
    named = os.environ.get(CACHE_VARIABLE)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(named) if named else Path(caches) / "trace-assets" / "homes").expanduser().absolute()


def place_of(address: Address) -> Path:
    """Return the folder of what this machine keeps of one of them."""
    endpoints = (
        os.environ.get(name, "") for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
    )
    said = "\n".join((str(address), *endpoints))
    name = address.prefix.rpartition("/")[2] or address.bucket
    return cache_folder() / f"{name}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def make_place(place: Path) -> None:
    """Make the folder of what this machine keeps of a home: no other user looks into it."""
    make_folder(place)
    place.chmod(0o700)


def mirror(text: str, *, whole: bool = False) -> Path:
    """Return a folder that holds the home at an address as it is now.

    What is on this machine already is compared with its hash, and not fetched again.

    Args:
        text: The address.
        whole: Also models, journals and history; otherwise what queries and pages read.

    Raises:
        InputError: There is no home, or a file of it was altered.
        Unavailable: The store does not answer.
    """
    address = parse_address(text)
    remote = RemoteHome(Bucket.open(address))
    return read_home(remote, lambda state: _folder(remote, state, place_of(address), whole))


def _folder(remote: RemoteHome, state: State, place: Path, whole: bool) -> Path:
    everything = place / f"whole-{state.pointer.home}"
    folder = everything if whole else place / f"tables-{state.pointer.home}"
    make_place(place)
    for found in (everything, folder):
        if (found / MIRROR).is_file():
            return found
    with exclusive(place / "lock", f"fetching {remote.name}"):
        if not (folder / MIRROR).is_file():
            files = remote.files(state)
            require_names(remote, files)
            _make({name: one for name, one in files.items() if whole or _is_looked_at(name)}, remote, folder)
            _forget_old(place)
    return folder


def _is_looked_at(name: str) -> bool:
    parts = name.split("/")
    place = parts[2:] if parts[0] == "rounds" else parts
    return place[:1] == [] or place[0] not in NOT_TO_LOOK_AT


def _make(files: dict[str, Stored], remote: RemoteHome, folder: Path) -> None:
    contents = folder.parent / "contents"
    contents.mkdir(exist_ok=True)
    fetch(remote, files, contents, {}, THREADS)
    building = Path(tempfile.mkdtemp(prefix=".", suffix=".making", dir=folder.parent))
    try:
        for name, one in files.items():
            path = building / name
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(contents / one.content.sha256, path)  # nobody writes into it
        (building / MIRROR).write_text(f"{remote.name}\n", encoding="utf-8")
        replace_folder(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _forget_old(place: Path) -> None:
    for kind in ("whole", "tables"):
        states = sorted(place.glob(f"{kind}-*"), key=lambda one: one.stat().st_mtime_ns, reverse=True)
        for old in states[KEPT_STATES:]:
            shutil.rmtree(old, ignore_errors=True)
    for content in (place / "contents").iterdir():
        if content.stat().st_nlink == 1:  # no state that is kept holds it
            content.unlink()
