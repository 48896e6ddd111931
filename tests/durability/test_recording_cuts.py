"""Answers that were paid for are on the disk when they are used, whatever is cut and whoever else writes."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from tests.durability.crash_layer import VARIANTS, CrashLayer, lay
from trace_assets.diagnosis.llm.recording import Recording
from trace_assets.errors import InputError

SERVER = "http://127.0.0.1:9/v1"
TEXTS = ("yes", "a line\nand another", "Ünïcödé 🙂", "")


def add(recording: Recording, number: int) -> None:
    recording.add(f"hash-{number}", "label", {"model": "m"}, {"text": TEXTS[number % len(TEXTS)]}, None)


def kept(path: Path) -> list[str]:
    """The prompts whose answers a new process finds, in their order."""
    recording = Recording(path, SERVER)
    return [f"hash-{number}" for number in range(99) if recording.get(f"hash-{number}") is not None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("recording") / "answers.jsonl"
    recording = Recording(path, SERVER)
    for number in range(4):
        add(recording, number)
    assert len(kept(path)) == 4
    return path.read_bytes()


def test_a_file_that_was_cut_anywhere_is_gone_on_with(whole: bytes, tmp_path: Path) -> None:
    """The whole lines are kept, and what is added stands behind them."""
    path = tmp_path / "answers.jsonl"
    lines = whole.splitlines(keepends=True)
    ends = [sum(map(len, lines[:n])) for n in range(1, len(lines) + 1)]
    near = {end + by for end in (0, *ends) for by in (-2, -1, 0, 1, 2, 9) if 0 <= end + by <= len(whole)}
    for size in sorted(near | set(range(0, len(whole), 61))):
        path.write_bytes(whole[:size])
        # The last line may have lost what ends it and nothing else: it can be read, and is written anew.
        there = sum(end <= size for end in ends)
        found = kept(path)
        assert found[: max(0, there - 1)] == [f"hash-{n}" for n in range(max(0, there - 1))]
        recording = Recording(path, SERVER)
        for number in range(9):
            add(recording, number)
        again = kept(path)
        assert set(again) >= {f"hash-{n}" for n in (*range(max(0, there - 1)), 8)}, size


@pytest.mark.parametrize(
    "tail", [b"\0" * 40, b"\n", b'{"prompt"', b"\xff\xfe", b"[1]\n", b'{"prompt": 1}\n', b"\n\n"]
)
def test_what_stands_behind_the_last_line_costs_no_other(tail: bytes, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(whole + tail)
    assert kept(path) == [f"hash-{n}" for n in range(4)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_damage_in_the_middle_is_told_of(place: int, whole: bytes, tmp_path: Path) -> None:
    lines = whole.splitlines(keepends=True)
    lines[place] = b"{nonsense}\n"
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=f"line {place + 1}: it is no line of a recording"):
        Recording(path, SERVER)


def test_an_answer_is_on_the_disk_before_it_is_used(tmp_path: Path) -> None:
    layer = CrashLayer(tmp_path / "disk")
    path = layer.root / "tables" / "below" / "answers.jsonl"
    with layer.listening():
        recording = Recording(path, SERVER)
        marks = []
        for number in range(3):
            add(recording, number)
            layer._note("used", str(number))
            marks.append(len(layer.steps) - 1)
    for number, mark in enumerate(marks):
        for variant in VARIANTS:
            lay(layer.root, layer.tree(mark, variant))
            assert kept(path) == [f"hash-{n}" for n in range(number + 1)], f"{number}, {variant}"


def test_a_cut_at_any_step_leaves_a_file_that_can_be_gone_on_with(tmp_path: Path) -> None:
    layer = CrashLayer(tmp_path / "disk")
    path = layer.root / "a" / "answers.jsonl"
    with layer.listening():
        recording = Recording(path, SERVER)
        for number in range(3):
            add(recording, number)
    for step in range(len(layer.steps)):
        for variant in VARIANTS:
            lay(layer.root, layer.tree(step, variant))
            recording = Recording(path, SERVER)
            for number in range(3):
                add(recording, number)
            assert kept(path) == [f"hash-{n}" for n in range(3)], f"{layer.steps[step].call}, {variant}"


def _write(path: str, first: int) -> None:
    recording = Recording(Path(path), SERVER)
    for number in range(first, 60, 3):
        add(recording, number)


def test_processes_beside_each_other_lose_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(str(path), first)) for first in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(300)
        assert one.exitcode == 0
    assert kept(path) == [f"hash-{n}" for n in range(60)]
    assert sum("begun" in json.loads(line) for line in path.read_text().splitlines()) == 1


def test_two_that_began_when_nothing_was_there_write_one_beginning(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    one, other = Recording(path, SERVER), Recording(path, SERVER)
    add(one, 0)
    add(other, 1)
    add(one, 2)
    assert kept(path) == ["hash-0", "hash-1", "hash-2"]
