"""Several at once: of two writers one is refused, a reader has one home, no cleaner takes what is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.store.objects.homes import Watched, contents, make_home, remote, words_of, write
from trace_assets.errors import TraceError
from trace_assets.store import Home
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import Overtaken, RemoteHome
from trace_assets.store.objects.upload import copy_up


def once(word: str, act: Callable[[], object]) -> Callable[[int, str], None]:
    """Return a hook that acts before the first request that holds a word."""
    left = [act]

    def hook(number: int, what: str) -> None:
        if word in what and left:
            left.pop()()

    return hook


@pytest.mark.parametrize("moment", ["writing of blobs", "writing of home.json"])
@pytest.mark.parametrize("there_before", [True, False])
def test_of_two_writers_the_one_that_commits_later_is_refused(
    tmp_path: Path, moment: str, there_before: bool
) -> None:
    slow, quick, bucket = make_home(tmp_path / "slow"), tmp_path / "quick", Watched()
    if there_before:
        copy_up(slow, RemoteHome(bucket))
        copy_down(RemoteHome(bucket), quick)
        fast = Home(quick)
        write(fast, "shop", "of the quick one")
    else:
        fast = make_home(quick, "of the quick one")
    write(slow, "shop", "of the slow one")
    mine = Watched(bucket.store)
    mine.before = once(moment, lambda: copy_up(fast, RemoteHome(Watched(bucket.store))))
    with pytest.raises(Overtaken, match=r"was written by process \d+ on .* meanwhile: nothing"):
        copy_up(slow, RemoteHome(mine), threads=1)
    copy_down(RemoteHome(bucket), tmp_path / "back")
    assert words_of(tmp_path / "back") == "of the quick one"
    assert contents(tmp_path / "back") == contents(quick)


def test_of_many_writers_at_once_one_is_heard_and_the_others_are_told(tmp_path: Path) -> None:
    store = Watched().store
    homes = [make_home(tmp_path / f"{number}", f"of {number}") for number in range(4)]
    told: list[str] = []
    gate = threading.Barrier(len(homes))

    def work(number: int) -> None:
        bucket = Watched(store)
        bucket.before = once("writing of home.json", lambda: gate.wait(timeout=60))
        try:
            copy_up(homes[number], RemoteHome(bucket), threads=1)
            told.append(f"of {number}")
        except TraceError as error:
            told.append(str(error))

    threads = [threading.Thread(target=work, args=[number]) for number in range(len(homes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (heard,) = (one for one in told if one.startswith("of "))
    assert sum("meanwhile" in one for one in told) == len(homes) - 1
    copy_down(RemoteHome(Watched(store)), tmp_path / "back")
    assert words_of(tmp_path / "back") == heard


def test_a_writer_who_sends_while_others_clean_is_refused_and_nothing_that_is_needed_goes(
    tmp_path: Path,
) -> None:
    home, bucket = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(bucket))
    write(home, "shop", "second")
    mine = Watched(bucket.store)
    mine.before = once("writing of home.json", lambda: RemoteHome(Watched(bucket.store)).clean())
    with pytest.raises(Overtaken):
        copy_up(home, RemoteHome(mine))
    copy_down(RemoteHome(bucket), tmp_path / "back")
    assert words_of(tmp_path / "back") == "first"
    copy_up(home, RemoteHome(bucket))
    copy_down(RemoteHome(bucket), tmp_path / "again")
    assert words_of(tmp_path / "again") == "second"


@pytest.mark.parametrize("moment", ["reading of home.json", "writing of home.json", "removal"])
def test_a_cleaner_who_is_stopped_and_wakes_removes_nothing_of_a_newer_home(
    tmp_path: Path, moment: str
) -> None:
    """The newer home holds again what the cleaner found to be needed no more."""
    home, bucket = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(bucket))
    write(home, "shop", "second")
    copy_up(home, RemoteHome(bucket))

    def newer() -> None:
        write(home, "shop", "first")
        copy_up(home, RemoteHome(Watched(bucket.store)))

    cleaner = Watched(bucket.store)
    cleaner.before = once(moment, newer)
    try:
        RemoteHome(cleaner).clean()
    except Overtaken:
        assert moment == "writing of home.json"
    copy_down(RemoteHome(bucket), tmp_path / "back")
    assert words_of(tmp_path / "back") == "first"


def test_a_listing_that_lags_costs_no_content(tmp_path: Path) -> None:
    home, bucket = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(bucket))
    old = bucket.keys("blobs/")
    for words in ("second", "third"):
        write(home, "shop", words)
        copy_up(home, RemoteHome(bucket))
    bucket.keys = lambda prefix: old  # type: ignore[method-assign]
    assert RemoteHome(bucket).clean() > 0
    assert RemoteHome(bucket).clean() > 0  # removed ones are still listed
    copy_down(RemoteHome(Watched(bucket.store)), tmp_path / "back")
    assert words_of(tmp_path / "back") == "third"


def test_a_reader_whose_home_is_replaced_and_cleaned_away_has_the_new_one(tmp_path: Path) -> None:
    home, bucket = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(bucket))

    def replaced() -> None:
        write(home, "shop", "second")
        other = RemoteHome(Watched(bucket.store))
        copy_up(home, other, again=True)
        assert other.clean() > 5

    reader = Watched(bucket.store)
    reader.before = once("reading of blobs", replaced)
    copy_down(RemoteHome(reader), tmp_path / "back", threads=1)
    assert contents(tmp_path / "back") == contents(home.path)


def test_cleaning_keeps_the_home_and_removes_the_rest(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    copy_up(home, there)
    lean = len(there.bucket.keys("blobs/"))
    for words in ("second", "third", "fourth"):
        write(home, "shop", words)
        copy_up(home, there)
    assert there.clean() == 3 * 3  # the table, the manifest and the list, three times over
    assert len(there.bucket.keys("blobs/")) == lean
    copy_down(there, tmp_path / "back")
    assert contents(tmp_path / "back") == contents(home.path)
    assert remote().clean() == 0
