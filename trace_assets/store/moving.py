"""The leases of a home on their way from files to a database, and back, while nobody is at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

from trace_assets.errors import Unavailable
from trace_assets.store.database import Carried, database_of, join, leave
from trace_assets.store.files import Home, make_folder, write_text
from trace_assets.store.locks import exclusive, holder, sync_lock
from trace_assets.store.presence import living, withdraw
from trace_assets.store.shared_rows import taken_items


def to_database(home: Home, url: str, spent: Callable[[], tuple[float, int]]) -> None:
    """Have a database hold the leases of a home from now on, unless it does already.

    Args:
        home: The home.
        url: Address of the database.
        spent: Says what the home's model calls have cost, in USD, and how many there were.

    Raises:
        InputError: Another database holds them, or the address is none.
        Unavailable: The database does not answer, or somebody is at work on the home.
    """
    if (there := database_of(home.path)) is not None:
        if there.url != url:
            join(home, url, lambda: Carried({}, []))
        return
    with _nobody_at_work(home):
        join(home, url, lambda: _carried(home, *spent()))


def to_files(home: Home, settled: Callable[[], None]) -> None:
    """Have files of a home hold its leases again.

    Args:
        home: The home.
        settled: Books what killed processes had in flight to the files of the account.

    Raises:
        InputError: No database holds them.
        Unavailable: The database does not answer, or somebody is at work on the home.
    """
    withdraw()
    if (database := database_of(home.path)) is not None:
        if living(home):
            raise _busy(home, f"{len(living(home))} processes are")
        if taken := sorted(taken_items(database)):
            raise _busy(home, f"whoever holds {taken[0]} is")
        settled()
    leave(home, lambda carried: _lay(home, carried))


@contextmanager
def _nobody_at_work(home: Home) -> Iterator[None]:
    path = sync_lock(home)
    try:
        with exclusive(path, "moving the leases of the home", patience=0.0):
            withdraw()
            if others := living(home):
                raise _busy(home, f"{len(others)} processes are")
            yield
    except TimeoutError as error:
        raise _busy(home, f"{holder(path) or 'another process'} is") from error


def _busy(home: Home, who: str) -> Unavailable:
    return Unavailable(
        f"{who} at work on {home.path}: its leases move between files and a database only while nobody is."
    )


def _carried(home: Home, usd: float, calls: int) -> Carried:
    locks = home.path / "locks"
    epochs = {}
    for file in sorted((locks / "epochs").glob("*")):
        number = file.read_text(encoding="utf-8", errors="replace").partition(" ")[0]
        if number.isdecimal():
            epochs[file.name] = int(number)
    marks = []
    for file in sorted((locks / "due").glob("*.due"), key=lambda one: one.stat().st_mtime_ns):
        item, run, _ = file.name.rsplit(".", 2)
        marks.append((f"{item}.{run}", item, file.read_text(encoding="utf-8"), run))
    return Carried(epochs, marks, usd, calls)


def _lay(home: Home, carried: Carried) -> None:
    locks = home.path / "locks"
    for folder in (locks / "epochs", locks / "due"):
        make_folder(folder)
    for file in (locks / "due").glob("*.due"):
        file.unlink()  # of the time before the database
    for item, epoch in carried.epochs.items():
        if "/" not in item and not item.endswith(".lock"):
            write_text(locks / "epochs" / item, f"{epoch} {uuid4().hex}\n")
    for mark, _, reason, _ in carried.marks:
        write_text(locks / "due" / f"{mark}.due", reason)
