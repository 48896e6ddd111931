"""A real client against a server that refuses, loses answers and is slow; contents altered there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.quick import one_of_each
from tests.store.objects.homes import contents, make_home, words_of, write
from tests.store.objects.s3_server import BUCKET, KEY, SECRET, S3Server, first, serving
from trace_assets.errors import InputError, Unavailable
from trace_assets.store.objects.bucket import PART_BYTES, Bucket
from trace_assets.store.objects.download import copy_down
from trace_assets.store.objects.remote import POINTER, Overtaken, RemoteHome
from trace_assets.store.objects.upload import copy_up
from trace_assets.system.object_address import parse_address

LARGE = "trace_assets.store.objects.{}.SMALL_BYTES"


@pytest.fixture
def server() -> Iterator[S3Server]:
    with serving() as one:
        yield one


def at(prefix: str = "study", retries: int = 3) -> RemoteHome:
    return RemoteHome(Bucket.open(parse_address(f"s3://{BUCKET}/{prefix}"), retries=retries))


@pytest.mark.parametrize("what", ["503", "409", "lost", "slow"])
@pytest.mark.parametrize("part", one_of_each(["/blobs/", POINTER]))
def test_a_write_that_fails_once_or_loses_its_answer_is_a_write(
    server: S3Server, tmp_path: Path, what: str, part: str
) -> None:
    home = make_home(tmp_path / "home")
    server.fault = first(what, "PUT", part)  # the first is made by If-None-Match
    copy_up(home, at())
    write(home, "shop", "second")
    server.fault = first(what, "PUT", part)  # this one by If-Match
    copy_up(home, at())
    assert not copy_up(home, at()).changed
    copy_down(at(), tmp_path / "back")
    assert words_of(tmp_path / "back") == "second"
    assert contents(tmp_path / "back") == contents(home.path)


@pytest.mark.parametrize("what", ["503", "lost"])
def test_a_read_that_fails_once_is_a_read(server: S3Server, tmp_path: Path, what: str) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, at())
    server.fault = first(what, "GET", "/blobs/", times=2)
    copy_down(at(), tmp_path / "back")
    assert contents(tmp_path / "back") == contents(home.path)


def test_a_commit_whose_answer_never_comes_is_this_homes_own_afterwards(
    server: S3Server, tmp_path: Path
) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, at())
    write(home, "shop", "second")
    lost = [False]

    def fault(request: dict[str, Any]) -> str:
        if request["REQUEST_METHOD"] == "PUT" and POINTER in request["PATH_INFO"]:
            lost[0] = True
            return "lost"
        return "503" if lost[0] else ""  # and then nothing is to be had any more

    server.fault = fault
    with pytest.raises(Unavailable):
        copy_up(home, at(retries=0))
    server.fault = lambda request: ""
    write(home, "shop", "third")
    copy_up(home, at())  # it is not taken for another's
    copy_down(at(), tmp_path / "back")
    assert words_of(tmp_path / "back") == "third"


def test_another_writer_between_the_lost_answer_and_the_next_look_is_not_undone(
    server: S3Server, tmp_path: Path
) -> None:
    home, other = make_home(tmp_path / "home"), make_home(tmp_path / "other", "of another")
    copy_up(home, at())
    write(home, "shop", "second")
    quiet = [False]

    def fault(request: dict[str, Any]) -> str:
        if request["REQUEST_METHOD"] == "PUT" and POINTER in request["PATH_INFO"] and not quiet[0]:
            quiet[0] = True
            copy_up(other, at(), replace=True)
        return ""

    server.fault = fault
    with pytest.raises(Overtaken):
        copy_up(home, at())
    copy_down(at(), tmp_path / "back")
    assert words_of(tmp_path / "back") == "of another"


def test_a_store_that_ignores_conditions_gets_no_home(server: S3Server, tmp_path: Path) -> None:
    server.fault = lambda request: "unconditional"
    with pytest.raises(Unavailable, match="cannot hold a home"):
        copy_up(make_home(tmp_path / "home"), at())
    assert at().bucket.keys("") == []


@pytest.mark.ci
def test_a_large_file_goes_in_parts_and_comes_back(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("remote", "upload"):
        monkeypatch.setattr(LARGE.format(module), 1 << 20)
    home = make_home(tmp_path / "home")
    (home.path / "models").mkdir()
    large = home.path / "models" / "base.safetensors"
    large.write_bytes(b"0123456789abcdef" * (PART_BYTES // 8))  # two parts
    copy_up(home, at())
    assert sum(large_part.startswith("/bucket/study/blobs/") for large_part in server.puts("/blobs/")) > 8
    copy_down(at(), tmp_path / "back")
    assert (tmp_path / "back" / "models" / "base.safetensors").read_bytes() == large.read_bytes()
    truncated = key_of(home.path / "models" / "base.safetensors")
    at().bucket.put(truncated, b"short")
    with pytest.raises(InputError, match=r"models/base\.safetensors is gone"):
        copy_down(at(), tmp_path / "other")


def key_of(path: Path) -> str:
    """Return the object of a file's content."""

    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    (key,) = (one for one in at().bucket.keys("blobs") if sha256 in one)
    return key


def flipped(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flipped, "is not what was written"),
        (lambda content: content[:-1], "bytes in place of"),
        (lambda content: b"", "0 bytes in place of"),
        (None, "is gone"),
    ],
)
def test_an_altered_content_is_named_and_sent_again_when_asked(
    server: S3Server, tmp_path: Path, damage: Callable[[bytes], bytes] | None, said: str
) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, at())
    bucket, key = at().bucket, key_of(home.tables / "tasks" / "shop.parquet")
    found = bucket.get(key)
    assert found is not None
    if damage is None:
        bucket.delete([key])
    else:
        bucket.put(key, damage(found.content))
    back = tmp_path / "back"
    with pytest.raises(InputError, match=rf"tables/tasks/shop\.parquet .*{said}.*blobs/"):
        copy_down(at(), back)
    assert not back.exists()
    copy_up(home, at(), again=True)
    copy_down(at(), back)
    assert contents(back) == contents(home.path)


def test_an_altered_list_or_pointer_is_named(server: S3Server, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, at())
    bucket = at().bucket
    pointer = bucket.get(POINTER)
    assert pointer is not None
    key = json.loads(pointer.content[9:])["files"]["key"]
    listed = bucket.get(key)
    assert listed is not None
    bucket.put(key, listed.content.replace(b"shop", b"shap"))
    with pytest.raises(InputError, match="its list of files is not what was written"):
        copy_down(at(), tmp_path / "back")
    bucket.put(POINTER, pointer.content.replace(b'"home"', b'"hame"'))
    with pytest.raises(InputError, match=r"home\.json is not what was written"):
        copy_down(at(), tmp_path / "back")
    with pytest.raises(InputError, match=r"home\.json is not what was written"):
        copy_up(home, at())
    assert not (tmp_path / "back").exists()


def test_no_credential_is_written_anywhere(server: S3Server, tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    copy_up(home, at())
    copy_down(at(), tmp_path / "back")
    bucket = at().bucket
    written = [found.content for key in bucket.keys("") if (found := bucket.get(key)) is not None]
    written += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 10
    for content in written:
        assert KEY.encode() not in content and SECRET.encode() not in content


def test_a_store_that_stays_in_conflict_is_told_of_in_one_sentence(server: S3Server, tmp_path: Path) -> None:
    server.fault = first("409", "PUT", "/blobs/", times=999)
    with pytest.raises(Unavailable, match="for a conflict"):
        copy_up(make_home(tmp_path / "home"), at())
