"""A query that would take the machine ends in a sentence, and every digit of a whole number is written."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.cli.test_cli import trace
from trace_assets.cli import sql as command
from trace_assets.store import Home

LARGEST = 2**127 - 1
ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"


def test_a_query_that_runs_too_long_is_called_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, "sql", ENDLESS, "--seconds", "0.2") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "more than 0.2 s" in said and "--seconds N" in said
    assert trace(monkeypatch, "sql", "SELECT 1 AS n", "--seconds", "0") == 0


@pytest.mark.ci
def test_a_function_that_never_looks_up_is_ended_with_its_process(home: Home, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trace_assets", "sql", "SELECT repeat('x', 3000000000)"]
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TRACE_HOME": str(home.path), "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run([*command, "--seconds", "1"], env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "more than 1 s" in done.stderr and "Traceback" not in done.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_texts_that_fill_the_memory_are_refused_and_the_limit_is_lifted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(command, "memory_bytes", lambda: 400 << 20)
    query = "SELECT list(repeat(repeat('x', 1000), 1000) || i) FROM range(100000) t(i)"
    assert trace(monkeypatch, "sql", query) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "more memory than this machine has for it" in said
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_stricter_limit_of_somebody_else_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(command, "memory_bytes", lambda: 1 << 60)
    resource.setrlimit(resource.RLIMIT_DATA, (1 << 42, before[1]))
    try:
        with command.bounded_memory():
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 1 << 42
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@pytest.mark.parametrize(
    ("asked", "reader", "kind"),
    [
        (("--format", "csv"), "from_arrow", OSError),
        ((), "DataFrame", pl.exceptions.ComputeError),  # of the stream that DuckDB hands to polars itself
    ],
)
def test_a_value_that_arrow_cannot_hold_is_one_sentence(
    asked: tuple[str, ...],
    reader: str,
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> None:
        raise kind("Invalid Input Error: the maximum total string size is 2147483647\n* SET x")

    monkeypatch.setattr(f"trace_assets.store.warehouse.pl.{reader}", refuse)
    assert trace(monkeypatch, "sql", "SELECT 1", *asked) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "too large to be written" in said and "left(...)" in said


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"{LARGEST}::HUGEINT", LARGEST),
        (f"{-LARGEST}::HUGEINT - 1", -LARGEST - 1),
        (f"[{LARGEST}::HUGEINT]", [LARGEST]),
        (f"[[{LARGEST}::HUGEINT], []]", [[LARGEST], []]),
        (f"{{'x': {LARGEST}::HUGEINT}}", {"x": LARGEST}),
        (f"array_value({LARGEST}::HUGEINT, 1)", [LARGEST, 1]),
        ("sum(9223372036854775807)", 2**63 - 1),
        ("NULL::HUGEINT", None),
        ("1.50::DECIMAL(5, 2)", "1.50"),
    ],
)
def test_every_digit_of_a_whole_number_is_written(
    value: str, expected: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, "sql", f"SELECT {value} AS n", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"n": expected}]
    for format in ("csv", "table"):
        assert trace(monkeypatch, "sql", f"SELECT {value} AS n", "--format", format) == 0
        assert str(LARGEST) not in str(expected) or str(LARGEST) in capsys.readouterr().out
