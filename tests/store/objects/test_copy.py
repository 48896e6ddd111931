"""A home goes into a store and comes back: whole, once, and never in the place of somebody else's."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.postgres_server import VARIABLES
from tests.store.objects.homes import Watched, contents, make_home, remote, words_of, write
from trace_assets.errors import InputError, Unavailable
from trace_assets.store import Home
from trace_assets.store.locks import exclusive, sync_lock
from trace_assets.store.moving import to_database
from trace_assets.store.objects import remote as remotes
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import Content, RemoteHome, Stored, following
from trace_assets.store.objects.upload import copy_up
from trace_assets.store.presence import withdraw


def test_a_home_comes_back_as_it_was(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    done = copy_up(home, there)
    assert done.changed and done.files == len(contents(home.path)) + 1
    back = tmp_path / "back"
    copy_down(there, back)
    assert contents(back) == contents(home.path)
    assert words_of(back) == "first"
    assert (back / "environments" / "seeds.json").stat().st_mode & 0o777 == 0o600
    assert not (back / "targets").exists() and not (back / "locks" / "items").exists()
    with closing(sqlite3.connect(back / "dagster" / "runs.db")) as database:
        assert database.execute("SELECT id FROM runs").fetchall() == [("first",)]


def test_equal_contents_are_sent_once_and_what_is_there_never_again(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    (home.path / "one.txt").write_text("equal")
    (home.path / "two.txt").write_text("equal")
    first = copy_up(home, there)
    assert first.moved == first.files - 1  # the two texts are one content
    assert copy_up(home, there).moved == 0 and not copy_up(home, there).changed
    write(home, "shop", "second")
    second = copy_up(home, there)
    assert second.changed and second.moved == 2  # the table and the manifest


def test_files_that_are_equal_may_grow_apart_in_the_copy(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    (home.path / "journals" / "other.jsonl").touch()  # as empty as another one
    copy_up(home, there)
    copy_down(there, tmp_path / "back")
    with (tmp_path / "back" / "journals" / "other.jsonl").open("a") as file:
        file.write("a line")
    assert (tmp_path / "back" / "journals" / "empty.jsonl").read_text() == ""


def test_a_copy_follows_its_home_and_keeps_what_is_of_its_machine(tmp_path: Path) -> None:
    home, there, back = make_home(tmp_path / "home"), remote(), tmp_path / "back"
    copy_up(home, there)
    copy_down(there, back)
    (back / "targets").mkdir()
    (back / "targets" / "python").write_text("of the other machine")
    (back / "targets" / "link").symlink_to("python")
    write(home, "shop", "second")
    (home.path / "journals" / "played.jsonl").unlink()
    copy_up(home, there)
    done = copy_down(there, back)
    assert (done.moved, words_of(back)) == (2, "second")
    assert contents(back) == contents(home.path)
    assert (back / "targets" / "link").read_text() == "of the other machine"
    assert not copy_down(there, back).changed
    # and the copy may be worked on in its turn
    write(Home(back), "shop", "third")
    assert copy_up(Home(back), there).changed
    copy_down(there, home.path)
    assert words_of(home.path) == "third"
    assert (home.path / "targets" / "python").read_text() == "of this machine"


def test_a_copy_that_was_worked_on_is_replaced_only_when_asked(tmp_path: Path) -> None:
    home, there, back = make_home(tmp_path / "home"), remote(), tmp_path / "back"
    copy_up(home, there)
    copy_down(there, back)
    write(Home(back), "shop", "of the copy")
    with pytest.raises(InputError, match="that was worked on since"):
        copy_down(there, back)
    assert words_of(back) == "of the copy"
    copy_down(there, back, replace=True)
    assert words_of(back) == "first"


def test_a_folder_that_holds_something_else_stays_as_it_is(tmp_path: Path) -> None:
    there, other = remote(), tmp_path / "other"
    copy_up(make_home(tmp_path / "home"), there)
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        copy_down(there, other)
    assert (other / "thesis.txt").read_text() == "mine"
    with pytest.raises(InputError, match="no folder"):
        copy_down(there, other / "thesis.txt")


def test_another_home_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    mine, other, there = make_home(tmp_path / "a", "mine"), make_home(tmp_path / "b", "other"), remote()
    copy_up(mine, there)
    with pytest.raises(InputError, match=r"holds a home that .* did not come from"):
        copy_up(other, there)
    copy_up(other, there, replace=True)
    with pytest.raises(InputError, match="or that was written since"):
        copy_up(mine, there)
    copy_down(there, tmp_path / "back")
    assert words_of(tmp_path / "back") == "other"


def test_a_home_that_is_not_whole_is_not_sent(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    copy_up(home, there)
    table = home.tables / "tasks" / "shop.parquet"
    write(home, "shop", "second")
    altered = bytearray(table.read_bytes())
    altered[40] ^= 1
    table.write_bytes(altered)
    with pytest.raises(InputError, match=r"shop\.parquet is not what was written"):
        copy_up(home, there)
    table.write_bytes(altered[:-1])
    with pytest.raises(InputError, match=r"shop\.parquet has .* bytes in place of"):
        copy_up(home, there)
    table.unlink()
    with pytest.raises(InputError, match=r"shop\.parquet is gone"):
        copy_up(home, there)
    copy_down(there, tmp_path / "back")
    assert words_of(tmp_path / "back") == "first"


def test_a_home_that_is_written_to_meanwhile_is_not_sent_half_and_half(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    copy_up(home, there)
    write(home, "shop", "second")
    bucket = there.bucket
    assert isinstance(bucket, Watched)

    def disturb(number: int, what: str) -> None:
        if "writing of blobs" in what:
            bucket.before = lambda number, what: None
            write(home, "late", "came in between")

    bucket.before = disturb
    with pytest.raises(Unavailable, match="was written to while it was copied"):
        copy_up(home, there, threads=1)
    copy_up(home, there)
    copy_down(there, tmp_path / "back")
    assert words_of(tmp_path / "back", "late") == "came in between"


def test_a_home_at_work_is_not_copied(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    with exclusive(sync_lock(home), "trace sync"), pytest.raises(Unavailable, match="trace sync, process"):
        copy_up(home, there)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_home_that_cannot_be_written_to_can_be_copied(tmp_path: Path) -> None:
    home, there = make_home(tmp_path / "home"), remote()
    home.path.chmod(0o555)
    try:
        assert copy_up(home, there).changed
    finally:
        home.path.chmod(0o755)


def test_a_home_of_which_a_database_holds_a_part_is_not_copied(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = request.getfixturevalue("postgres")
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    home, there = make_home(tmp_path / "home"), remote()
    copy_up(home, there)
    to_database(home, server.database(), lambda: (0.0, 0))
    write(home, "shop", "second")
    with pytest.raises(InputError, match="trace cluster files"):
        copy_up(home, there)
    with pytest.raises(InputError, match="trace cluster files"):
        copy_down(there, home.path, replace=True)
    withdraw()


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home.path / "models").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link to a folder"):
        copy_up(home, remote())


def test_a_store_without_a_home_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no home"):
        copy_down(remote(), tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/outside", "a//b", "a/./b", "targets/python", ".copies.json"]
)
def test_a_list_that_names_files_outside_a_home_is_refused(tmp_path: Path, name: str) -> None:
    there = remote()
    text = there.new_content("0" * 64, 1)
    there.bucket.put(text.key, b"x")
    listed = there.send_list([Stored(name, Content(text.key, 1, "0" * 64))])
    new = following(remotes.NOTHING)
    there.commit(remotes.NOTHING, remotes.Pointer(new.commit, new.commit, "x", "x", files=listed))
    with pytest.raises(InputError, match="which no home holds"):
        copy_down(there, tmp_path / "in" / "back")
    assert [one.name for one in tmp_path.rglob("*")] == []


def test_a_home_of_a_later_version_is_refused(tmp_path: Path) -> None:
    there = remote()
    there.commit(remotes.NOTHING, remotes.Pointer("c", "c", "x", "x", format=remotes.FORMAT + 1))
    with pytest.raises(InputError, match="later version"):
        copy_down(RemoteHome(there.bucket), tmp_path / "back")
