"""Small homes to be copied, and buckets in memory whose user may be killed at any request."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from trace_assets.records import Task
from trace_assets.store import Home, Store
from trace_assets.store.lines import append_lines
from trace_assets.store.objects.bucket import Bucket
from trace_assets.store.objects.home_files import COPIES
from trace_assets.store.objects.remote import RemoteHome

obstore = pytest.importorskip("obstore", reason="the extra `objects` (obstore) is not installed")
T = TypeVar("T")


def make_home(folder: Path, words: str = "first") -> Home:
    """Make a home with tables, a journal, a database and files of this machine alone."""
    home = Home.open(folder)
    write(home, "shop", words)
    write(home, "same", "the same in all")
    (folder / "journals").mkdir()
    append_lines(folder / "journals" / "played.jsonl", ['{"episode": 1}'])
    (folder / "journals" / "empty.jsonl").touch()
    (folder / "environments").mkdir()
    secret = folder / "environments" / "seeds.json"
    secret.write_text("{}")
    secret.chmod(0o600)
    (folder / "dagster").mkdir()
    with closing(sqlite3.connect(folder / "dagster" / "runs.db")) as database, database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE runs (id TEXT)")
        database.execute("INSERT INTO runs VALUES (?)", [words])
    (folder / "targets").mkdir()
    (folder / "targets" / "python").write_text("of this machine")
    (folder / "locks" / "due").mkdir(parents=True, exist_ok=True)
    (folder / "locks" / "due" / "labels@shop.0123.due").write_text("a reason")
    (folder / "locks" / "items").mkdir()
    (folder / "locks" / "items" / "labels.lock").touch()
    return home


def write(home: Home, batch: str, words: str) -> None:
    """Write one table of a home."""
    row = Task(task_id=f"{batch}/1", target="desk", task_batch=batch, instruction=words)
    Store.of(home).write([row], Task, batch)


def words_of(folder: Path, batch: str = "shop") -> str:
    """Return what was written; an error where the table is not what its manifest says."""
    (row,) = Store.of(Home(folder)).read(Task, batch)
    return row.instruction


def contents(folder: Path) -> dict[str, bytes]:
    """Return what a home holds that is copied, databases aside."""
    aside = ("targets/", "dagster/", "locks/items/", "locks/processes/", "sync.lock", COPIES)
    return {
        name: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not (name := path.relative_to(folder).as_posix()).startswith(aside)
    }


class Killed(BaseException):
    """The process ends here, as far as the bucket can see."""


class Watched(Bucket):
    """A bucket in memory.

    Args:
        store: What it holds; several may have one.

    Attributes:
        asked: What was asked so far.
        before: Called before each request is sent, with its number and what it is.
        after: Called after each was carried out, before its answer is heard.
    """

    def __init__(self, store: Any = None, name: str = "s3://bucket/study") -> None:
        self.store = obstore.store.MemoryStore() if store is None else store
        super().__init__(self.store, name)
        self.asked: list[str] = []
        self.before: Callable[[int, str], None] = lambda number, what: None
        self.after: Callable[[int, str], None] = lambda number, what: None

    def _ask(self, what: str, request: Callable[[], T], **absent: Any) -> T:
        self.asked.append(what)
        number = len(self.asked)
        self.before(number, what)
        answer = super()._ask(what, request, **absent)
        self.after(number, what)
        return answer

    def put_parts(self, key: str, parts: Any) -> None:
        """Write a large object: a store in memory takes it as one."""
        self.put(key, b"".join(parts()))


def remote(store: Any = None) -> RemoteHome:
    """Return a home in memory."""
    return RemoteHome(Watched(store))


def kill_at(number: int) -> Callable[[int, str], None]:
    """Return what ends the process at a request."""

    def hook(at: int, what: str) -> None:
        if at == number:
            raise Killed(what)

    return hook
