"""A copy is killed at any request, before it is sent or before its answer is heard: no home is ever half."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quick import one_of_each
from tests.store.objects.homes import Killed, Watched, contents, kill_at, make_home, remote, words_of, write
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.store.objects.upload import copy_up

NOTED_BYTES = 3000
"""So small that what was sent is noted in the middle of these copies."""


def requests_of_a_second_copy(tmp_path: Path) -> int:
    home, there = make_home(tmp_path / "counted"), remote()
    copy_up(home, there, threads=1)
    bucket = there.bucket
    assert isinstance(bucket, Watched)
    bucket.asked.clear()
    write(home, "shop", "second")
    write(home, "more", "and more")
    copy_up(home, there, threads=1, noted_bytes=NOTED_BYTES)
    assert sum("writing of home.json" in one for one in bucket.asked) > 1
    return len(bucket.asked)


@pytest.mark.parametrize("when", one_of_each(["after", "before"]))
def test_a_copy_that_is_killed_at_any_request_leaves_the_old_home_or_the_new(
    tmp_path: Path, when: str
) -> None:
    total, seen = requests_of_a_second_copy(tmp_path), set[str]()
    for number in range(1, total + 1):
        folder = tmp_path / f"{number}"
        home, bucket = make_home(folder / "home"), Watched()
        copy_up(home, RemoteHome(bucket), threads=1)
        write(home, "shop", "second")
        write(home, "more", "and more")
        dying = Watched(bucket.store)
        setattr(dying, when, kill_at(number))
        with pytest.raises(Killed):
            copy_up(home, RemoteHome(dying), threads=1, noted_bytes=NOTED_BYTES)
        copy_down(RemoteHome(bucket), folder / "found")
        seen.add(words_of(folder / "found"))
        # Once more, and it is whole; nobody takes it for another's home.
        copy_up(home, RemoteHome(bucket), threads=1)
        copy_down(RemoteHome(bucket), folder / "again")
        assert contents(folder / "again") == contents(home.path)
        assert RemoteHome(bucket).clean() or when == "before"
        copy_down(RemoteHome(bucket), folder / "cleaned")
    assert seen == ({"first"} if when == "before" else {"first", "second"})


@pytest.mark.parametrize("when", one_of_each(["after", "before"]))
def test_a_first_copy_that_is_killed_leaves_no_home_or_the_whole(tmp_path: Path, when: str) -> None:
    home, counted = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(counted), threads=1, noted_bytes=NOTED_BYTES)
    for number in range(len(counted.asked) - 6, len(counted.asked) + 1):
        bucket = Watched()
        setattr(bucket, when, kill_at(number))
        with pytest.raises(Killed):
            copy_up(home, RemoteHome(bucket), threads=1, noted_bytes=NOTED_BYTES)
        bucket = Watched(bucket.store)
        copy_up(home, RemoteHome(bucket), threads=1)
        copy_down(RemoteHome(bucket), tmp_path / f"{number}")
        assert contents(tmp_path / f"{number}") == contents(home.path)


def test_what_a_killed_copy_had_noted_is_not_sent_again_nor_cleaned_away(tmp_path: Path) -> None:
    home, bucket = make_home(tmp_path / "home"), Watched()
    for number in range(20):
        (home.path / f"{number}.bin").write_bytes(bytes([number]) * 1000)
    sent = [0]

    def die_late(number: int, what: str) -> None:
        sent[0] += "writing of blobs" in what
        if sent[0] == 15:
            raise Killed

    bucket.before = die_late
    with pytest.raises(Killed):
        copy_up(home, RemoteHome(bucket), threads=1, noted_bytes=4000)
    bucket = Watched(bucket.store)
    RemoteHome(bucket).clean()
    done = copy_up(home, RemoteHome(bucket), threads=1)
    assert 5 < done.moved < done.files - 8
    copy_down(RemoteHome(bucket), tmp_path / "back")
    assert contents(tmp_path / "back") == contents(home.path)


def test_a_fetch_that_is_killed_anywhere_leaves_no_folder_and_goes_on_where_it_was(tmp_path: Path) -> None:
    home, bucket = make_home(tmp_path / "home"), Watched()
    copy_up(home, RemoteHome(bucket))
    counted = Watched(bucket.store)
    whole = copy_down(RemoteHome(counted), tmp_path / "counted")
    for number in range(1, len(counted.asked) + 1):
        back, dying = tmp_path / f"{number}", Watched(bucket.store)
        dying.before = kill_at(number)
        with pytest.raises(Killed):
            copy_down(RemoteHome(dying), back, threads=1)
        assert not back.exists()
        done = copy_down(RemoteHome(Watched(bucket.store)), back)
        assert 1 <= done.moved <= whole.moved - max(0, number - 3)  # two requests say what there is
        assert contents(back) == contents(home.path)
        assert not list(tmp_path.glob(".*.copying"))
