"""A home in a bucket is looked at through a folder of this machine: equal answers, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

import trace_assets
from tests.store.objects.homes import Watched, make_home, words_of, write
from trace_assets.errors import InputError, TraceError
from trace_assets.store import Home, Warehouse
from trace_assets.store.files import chosen_folder
from trace_assets.store.objects.bucket import Bucket
from trace_assets.store.objects.download import CACHE_VARIABLE, mirror
from trace_assets.store.objects.remote import RemoteHome
from trace_assets.store.objects.upload import copy_up
from trace_assets.store.views import ready_queries

URL = "s3://bucket/study"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    one = Watched()
    monkeypatch.setattr(Bucket, "open", lambda address, **options: one)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return one


def test_queries_have_equal_answers_and_read_nothing_outside(tmp_path: Path, bucket: Watched) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, RemoteHome(bucket))
    with Warehouse(home) as here, trace_assets.warehouse(URL) as there:
        assert here.row_counts() == there.row_counts() and here.row_counts()["tasks"] == 2
        for name in ready_queries():
            answers = []
            for warehouse in (here, there):
                try:
                    answers.append(warehouse.ready(name).write_json())
                except TraceError as error:
                    answers.append(str(error))
            assert answers[0] == answers[1], name
        with pytest.raises(InputError, match="Permission"):
            there.query(f"SELECT * FROM read_parquet('{home.tables}/tasks/shop.parquet')")


def test_models_and_history_are_fetched_only_where_they_are_needed(tmp_path: Path, bucket: Watched) -> None:
    home = make_home(tmp_path / "home")
    for place in (home.models, home.path / "rounds" / "2" / "models"):
        place.mkdir(parents=True)
        (place / "weights").write_bytes(b"many")
    copy_up(home, RemoteHome(bucket))
    tables = mirror(URL)
    assert words_of(tables) == "first"
    assert not list(tables.rglob("weights")) and not (tables / "dagster").exists()
    whole = mirror(URL, whole=True)
    assert len(list(whole.rglob("weights"))) == 2 and (whole / "dagster" / "runs.db").is_file()
    bucket.asked.clear()
    assert mirror(URL) == whole and len(bucket.asked) == 1


def test_a_new_state_is_a_new_folder_and_who_reads_the_old_one_is_not_disturbed(
    tmp_path: Path, bucket: Watched
) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, RemoteHome(bucket))
    first = mirror(URL)
    write(home, "shop", "second")
    copy_up(home, RemoteHome(bucket))
    bucket.asked.clear()
    second = mirror(URL)
    assert (words_of(first), words_of(second)) == ("first", "second")
    assert sum("reading of blobs" in one for one in bucket.asked) == 3  # the list, a table, the manifest
    write(home, "shop", "third")
    copy_up(home, RemoteHome(bucket))
    assert words_of(mirror(URL)) == "third"
    assert not first.exists() and second.exists()
    last = mirror(URL)
    held = {path.stat().st_ino for one in (second, last) for path in one.rglob("*.*")}
    assert {path.stat().st_ino for path in (last.parent / "contents").iterdir()} <= held


def test_it_cannot_be_written_to(tmp_path: Path, bucket: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    copy_up(make_home(tmp_path / "home"), RemoteHome(bucket))
    monkeypatch.setenv("TRACE_HOME", URL)
    home = Home.open(mirror(URL), writable=False)
    assert not home.is_writable
    with pytest.raises(InputError, match="is not writable"):
        Home.open(home.path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="no folder"):
        Home.open()
    with pytest.raises(InputError, match="no folder"):
        chosen_folder()
    with trace_assets.warehouse() as warehouse:
        assert warehouse.row_counts()["tasks"] == 2
    assert not list(tmp_path.glob("s3*"))


def test_what_was_altered_on_this_machine_is_fetched_again(tmp_path: Path, bucket: Watched) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, RemoteHome(bucket))
    table = mirror(URL) / "tables" / "tasks" / "same.parquet"
    content = bytearray(table.read_bytes())
    content[40] ^= 1
    table.write_bytes(content)
    write(home, "shop", "second")
    copy_up(home, RemoteHome(bucket))
    assert words_of(mirror(URL), "same") == "the same in all"


def test_what_was_altered_in_the_store_is_named_and_leaves_no_folder(tmp_path: Path, bucket: Watched) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, RemoteHome(bucket))
    for key in bucket.keys("blobs"):
        found = bucket.get(key)
        assert found is not None
        if found.content.startswith(b"PAR1"):
            bucket.put(key, found.content[:-1])
    with pytest.raises(InputError, match=r"tables/tasks/\w+\.parquet has .* bytes in place of"):
        mirror(URL)
    assert not list((tmp_path / "cache").glob("*/tables-*"))
