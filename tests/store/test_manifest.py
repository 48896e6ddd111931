"""A manifest says what is wrong with files, and is itself no worse off for a kill or a flipped bit."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.errors import InputError
from trace_assets.store import manifest as module
from trace_assets.store.files import replacing_file
from trace_assets.store.lines import append_lines, parse_lines, read_lines, sealed
from trace_assets.store.manifest import ENDS, Manifest


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    (tmp_path / "files").mkdir()
    return Manifest(tmp_path / "manifest.jsonl", tmp_path / "files")


def put(manifest: Manifest, name: str, content: bytes) -> Path:
    path = manifest.path(name)
    with replacing_file(path, lambda partial: manifest.placing(name, partial)) as partial:
        partial.write_bytes(content)
    return path


def test_it_says_what_is_wrong(manifest: Manifest) -> None:
    path = put(manifest, "a", b"0123456789")
    assert manifest.problem("a") == "" and manifest.problem("unknown") == ""
    path.write_bytes(b"01234")
    assert manifest.problem("a") == "has 5 bytes in place of 10"
    path.write_bytes(b"0123456780")
    assert "altered" in manifest.problem("a")
    path.unlink()
    assert manifest.problem("a") == "is gone"
    put(manifest, "a", b"new")
    assert manifest.problem("a") == ""
    assert Manifest(manifest.file, manifest.root).problem("a") == "", "another process sees it"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
def test_what_may_not_be_read_is_not_taken_for_lost(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A sync would make it again, and play paid episodes again, because of another user's umask."""
    put(manifest, "a", b"0123456789")
    assert manifest.problem("a") == ""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="nothing is made in its place"):
        manifest.problem("a")
    number = errno.EIO
    assert "cannot be read" in manifest.problem("a")


def test_of_a_large_file_ends_are_compared_where_the_whole_is_too_much(manifest: Manifest) -> None:
    path = put(manifest, "a", bytes(4 * ENDS))
    for place, seen in ((0, True), (ENDS - 1, True), (2 * ENDS, False), (4 * ENDS - 1, True)):
        content = bytearray(4 * ENDS)
        content[place] = 1
        path.write_bytes(content)
        assert bool(manifest.problem("a", whole=0)) is seen
        assert manifest.problem("a")


def test_a_budget_goes_to_the_smallest(manifest: Manifest) -> None:
    for name, size in (("big", 9 * ENDS), ("small", 4 * ENDS)):
        put(manifest, name, bytes(size))
        content = bytearray(size)
        content[size // 2] = 1
        manifest.path(name).write_bytes(content)
    assert set(manifest.problems(["big", "small"], 5 * ENDS)) == {"small"}
    assert set(manifest.problems(["big", "small"])) == {"big", "small"}


def test_what_nothing_touches_is_read_once(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(manifest, "a", b"x" * 100)
    assert manifest.unchanged("a") == ""
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "problem", lambda *_: pytest.fail("it was read again"))
        assert manifest.unchanged("a") == ""
    found = path.stat()
    path.write_bytes(b"y" * 100)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert "altered" in manifest.unchanged("a")


def test_removed_files_are_forgotten_and_unlisted_ones_are_taken(manifest: Manifest) -> None:
    path = put(manifest, "a", b"1")
    with manifest.removing(["a"]):
        path.unlink()
    assert manifest.entries() == {} and manifest.problem("a") == ""
    (manifest.root / "b").write_bytes(b"2")
    (manifest.root / ".hidden").write_bytes(b"3")
    (manifest.root / "broken").write_bytes(b"4")
    assert manifest.note_unlisted("*", lambda path: path.name != "broken") == ["b"]
    assert manifest.note_unlisted("*", lambda path: path.name != "broken") == []


def test_a_reader_waits_for_the_writer_between_its_two_steps(manifest: Manifest) -> None:
    path = put(manifest, "a", b"old")
    replaced, looked = threading.Event(), threading.Event()
    partial = path.with_name("partial")
    partial.write_bytes(b"newer")

    def slow_writer() -> None:
        with manifest.placing("a", partial):
            os.replace(partial, path)
            replaced.set()
            looked.wait(0.3)  # the entry still says that the old one lies here

    thread = threading.Thread(target=slow_writer)
    thread.start()
    replaced.wait()
    said = Manifest(manifest.file, manifest.root).problem("a")
    looked.set()
    thread.join()
    assert said == ""


def test_it_is_written_anew_when_most_of_it_is_outdated(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COMPACT_BYTES", 2000)
    for number in range(100):
        put(manifest, f"{number % 3}", b"%d" % number)
    assert len(read_lines(manifest.file).whole) < 30
    assert set(manifest.entries()) == {"0", "1", "2"} and manifest.problems(manifest.entries()) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(st.data())
def test_a_flipped_bit_of_it_hides_no_damage(manifest: Manifest, data: st.DataObject) -> None:
    manifest.file.unlink(missing_ok=True)
    manifest.file.with_name(f"{manifest.file.name}.lock").unlink(missing_ok=True)
    for name in "abc":
        put(manifest, name, name.encode() * 50)
    content = bytearray(manifest.file.read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    manifest.file.write_bytes(content)
    fresh = Manifest(manifest.file, manifest.root)
    assert fresh.problems(fresh.entries()) == {}
    assert len(fresh.entries()) >= 2 or fresh.altered_lines() == 1


@settings(max_examples=examples(60))
@given(
    st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1)),
    st.data(),
)
def test_a_torn_file_loses_its_last_line_alone(texts: list[str], data: st.DataObject) -> None:
    content = b"".join(sealed(text) for text in texts)
    cut = data.draw(st.integers(0, len(content)))
    found = parse_lines(content[:cut])
    assert [text for _, text in found.whole] == texts[: len(found.whole)] and not found.altered
    assert len(found.whole) == content[:cut].count(b"\n")
    assert found.torn == (not content[:cut].endswith(b"\n") and cut > 0)


def test_a_line_behind_a_torn_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    append_lines(file, ["one", "two"])
    file.write_bytes(file.read_bytes()[:-3])
    append_lines(file, ["three"])
    found = read_lines(file)
    assert [text for _, text in found.whole] == ["one", "three"] and found.altered == [2]
