"""What a home and its copies in object stores know of each other, and what a copy needs of a home: rest."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from trace_assets.errors import InputError, Unavailable
from trace_assets.store.content import text_version
from trace_assets.store.database import database_of
from trace_assets.store.files import Home, replacing_file
from trace_assets.store.locks import exclusive, sync_lock
from trace_assets.store.objects.home_files import COPIES
from trace_assets.store.presence import announce


@dataclass(frozen=True)
class Copied:
    """What a copy did.

    Attributes:
        files: Files of the home.
        size: Their bytes.
        moved: Contents that were sent or fetched; equal ones are one.
        moved_bytes: Their bytes.
        changed: Whether the destination is another home than before.
    """

    files: int
    size: int
    moved: int
    moved_bytes: int
    changed: bool


@dataclass(frozen=True)
class Known:
    """What a home knows of one in an object store.

    Attributes:
        commits: Ids of the writes that made that one what this one is; two where the answer to the last is
            not known yet.
        version: That of the home's files then.
    """

    commits: tuple[str, ...]
    version: str


def known_copies(home: Path) -> dict[str, Known]:
    """Return what a home knows of homes in object stores, by their addresses."""
    try:
        found = json.loads((home / COPIES).read_text(encoding="utf-8"))
        return {
            str(name): Known(tuple(str(one) for one in said["commits"]), str(said["version"]))
            for name, said in found.items()
        }
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return {}


def note_copy(home: Path, name: str, known: Known) -> None:
    """Note what a home knows of one in an object store; one that cannot be written to notes nothing."""
    if os.access(home, os.W_OK):
        text = json.dumps(
            {one: asdict(said) for one, said in {**known_copies(home), name: known}.items()}, indent=1
        )
        with replacing_file(home / COPIES) as partial:
            partial.write_text(text, encoding="utf-8")


def files_version(files: Mapping[str, str]) -> str:
    """Return one version for the files of a home; without Dagster's own, which looking changes."""
    chosen = sorted(one for one in files.items() if not one[0].startswith("dagster/"))
    return text_version(*(part for one in chosen for part in one))


@contextmanager
def at_rest(home: Home) -> Iterator[None]:
    """Keep syncs away from a home; one that cannot be written to has none.

    Raises:
        InputError: A database holds a part of it.
        Unavailable: One is under way, here or on another machine.
    """
    if database_of(home.path) is not None:
        raise InputError(
            f"a database holds the leases of {home.path}, what is due there and what was spent: a copy of "
            "the folder would lack them. Run `trace cluster files` first."
        )
    if not home.is_writable:
        yield
        return
    announce(home)
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(sync_lock(home), "trace home copy", patience=0))
        except TimeoutError as error:
            raise Unavailable(
                f"{home.path} is being worked on: {error}; copy it when that has ended."
            ) from None
        yield
