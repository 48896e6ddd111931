"""Lines may end as on old Macs, with a carriage return alone, and are the same lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.formats.forms import CHAT, lines
from tests.formats.reading import read_trajectories
from tests.formats.span_forms import FORMS
from trace_assets.errors import InputError
from trace_assets.untrusted.allowance import open_lines

ROWS = [{"messages": CHAT, "reward": n % 2, "id": f"run-number-{n:08}"} for n in range(3)]


def _returned(path: Path) -> Path:
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r"))
    return path


@pytest.mark.parametrize("ends", ["\r", "\r\n", "\n", "\r\r", " \r"])
def test_chat_lines_are_the_same_however_they_end(ends: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes("".join(json.dumps(row) + ends for row in ROWS).encode())
    read = read_trajectories([path])
    assert [one.trajectory_id for one in read.trajectories] == [row["id"] for row in ROWS]
    assert not [one for one in read.problems if one.severity == "error"]


def test_a_bad_line_is_named_by_its_number_and_costs_no_other(tmp_path: Path) -> None:
    path = _returned(lines(tmp_path / "run.jsonl", ROWS[0], "{nonsense", ROWS[1]))
    read = read_trajectories([path])
    assert [one.trajectory_id for one in read.trajectories] == [ROWS[0]["id"], ROWS[1]["id"]]
    (bad,) = [one for one in read.problems if one.severity == "error"]
    assert bad.position == "line 2"


def test_a_first_line_that_is_longer_than_what_is_looked_at(tmp_path: Path) -> None:
    long = {**ROWS[0], "messages": [*CHAT, {"role": "user", "content": "x" * (2 << 20)}]}
    path = _returned(lines(tmp_path / "run.jsonl", long, *ROWS[1:]))
    assert len(read_trajectories([path]).trajectories) == 3


@pytest.mark.parametrize("form", FORMS)
def test_exports_of_tracing_tools_read_alike(form: str, tmp_path: Path) -> None:
    value = FORMS[form]()
    rows = value if isinstance(value, list) else [value]
    plain = lines(_folder(tmp_path, "a") / "spans.jsonl", *rows)
    macs = _returned(lines(_folder(tmp_path, "b") / "spans.jsonl", *rows))
    ours, theirs = (read_trajectories([path]).trajectories for path in (macs, plain))
    assert [one.messages for one in ours] == [one.messages for one in theirs] and theirs


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def test_a_carriage_return_in_a_text_is_spelt_and_stays(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "a\rb"}, {"role": "assistant", "content": "c\r\nd"}]
    path = _returned(lines(tmp_path / "run.jsonl", {"messages": chat, "reward": 1}))
    (one,) = read_trajectories([path]).trajectories
    assert [message.content for message in one.messages] == ["a\rb", "c\r\nd"]


def test_a_position_is_the_files_own(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"ab\rcd\ref")
    with open_lines(path) as stream:
        assert stream.readline() == b"ab\n" and stream.tell() == 3
        stream.seek(1)
        assert stream.read() == b"b\ncd\nef"
    path.write_bytes(b"ab\r\ncd\re")
    with open_lines(path) as stream:
        assert stream.read() == b"ab\r\ncd\re"
    path.write_bytes(b"ab\r")
    with open_lines(path) as stream:
        assert stream.readlines() == [b"ab\n"]


def test_other_files_with_returns_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(b"a note\ranother\r")
    with pytest.raises(InputError, match="not JSON"):
        read_trajectories([path])
