"""`trace sql`: formats, files, parameters, and one clear sentence for what is wrong."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from trace_assets.cli.main import main
from trace_assets.cli.sql_output import CELL_CHARACTERS, Format, flat, format_of
from trace_assets.store import Home, Warehouse
from trace_assets.store.manifest import manifest_of

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def trace(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Return a function that runs `trace sql ...` on the small home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACE_HOME", str(home.path))

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["trace", "sql", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        out, err = capfdbinary.readouterr()
        return int(exit.value.code or 0), out.decode(errors="replace"), err.decode()

    return run


def test_without_a_query_lists_tables_with_rows_and_ready_queries(trace: Run) -> None:
    code, out, _ = trace()
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith("  ")}
    assert code == 0 and lines["trajectories"][1] == "8" and lines["messages"][1] == "32"
    assert "disagreeing_tasks" in lines and "min_trials: leave out" in out and "(default 2)" in out
    _, document, _ = trace("--format", "json")
    listed = json.loads(document)
    assert listed["tables"]["labels"] == 16 and "gap_table" in listed["views"]
    ready = {one["name"]: one["parameters"] for one in listed["ready_queries"]}
    assert ready["disagreeing_tasks"]["min_trials"]["default"] == "2"


def test_formats_hold_the_same_rows(trace: Run, tmp_path: Path) -> None:
    query = "SELECT trajectory_id, capability_id, evidence, rationale FROM labels ORDER BY ALL"
    expected = json.loads(trace(query, "--format", "json")[1])
    assert len(expected) == 16
    csv = pl.read_csv(io.StringIO(trace(query, "--format", "csv")[1]))
    assert [json.loads(text) for text in csv["evidence"]] == [row["evidence"] for row in expected]
    for name in ("rows.parquet", "rows.csv", "rows.json", "rows.txt"):
        code, out, err = trace(query, "--output", name)
        assert (code, out) == (0, "") and f"16 rows written to {name}" in err
    assert pl.read_parquet(tmp_path / "rows.parquet").to_dicts() == expected
    assert pl.read_csv(tmp_path / "rows.csv").equals(csv)
    assert json.loads((tmp_path / "rows.json").read_text()) == expected
    assert "16 rows" in (tmp_path / "rows.txt").read_text()
    assert sorted(path.name for path in tmp_path.glob("*rows*")) == [
        "rows.csv",
        "rows.json",
        "rows.parquet",
        "rows.txt",
    ]


def test_no_rows_are_well_formed_in_every_format(trace: Run, tmp_path: Path) -> None:
    query = "SELECT trajectory_id, evidence FROM labels WHERE false"
    assert json.loads(trace(query, "--format", "json")[1]) == []
    assert trace(query, "--format", "csv")[1] == "trajectory_id,evidence\n"
    trace(query, "--output", "none.parquet")
    assert pl.read_parquet(tmp_path / "none.parquet").schema == {
        "trajectory_id": pl.String(),
        "evidence": pl.List(pl.Int64()),
    }
    assert "0 rows" in trace(query)[1]


def test_parquet_goes_into_a_pipe_but_not_onto_a_terminal(home: Home) -> None:
    command = [sys.executable, "-m", "trace_assets", "sql", "trajectories", "--format", "parquet"]
    environment = {"TRACE_HOME": str(home.path), "PATH": "/usr/bin:/bin"}
    piped = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert pl.read_parquet(io.BytesIO(piped.stdout)).height == 8
    import pty

    _, other = pty.openpty()
    refused = subprocess.run(command, env=environment, stdout=other, stderr=subprocess.PIPE)
    assert refused.returncode == 2 and b"--output FILE.parquet" in refused.stderr


def test_reader_that_stops_early_is_no_error(home: Home) -> None:
    command = f"{sys.executable} -m trace_assets sql 'FROM range(2000000)' --format csv | head -n 1"
    environment = {"TRACE_HOME": str(home.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, check=True)
    told = [line for line in done.stderr.splitlines() if b"is at work, for" not in line]  # on a busy machine
    assert (done.stdout, told) == (b"range\n", [])


def test_tables_are_cut_with_a_note(trace: Run) -> None:
    _, out, _ = trace("SELECT range AS n FROM range(100000)", "--limit", "3")
    assert "the first 3 rows" in out and len(out.splitlines()) < 10
    _, out, _ = trace("SELECT range AS n FROM range(250)", "--limit", "0")
    assert "250 rows" in out
    _, out, _ = trace("SELECT range AS n FROM range(201)")
    assert "the first 200 rows" in out
    _, out, _ = trace(f"SELECT repeat('x', {CELL_CHARACTERS + 50}) AS text")
    assert out.count("x") - out.count("text") == CELL_CHARACTERS and "…" in out
    assert "1 row\n" in out


def test_what_does_not_fit_side_by_side_stands_in_blocks(trace: Run) -> None:
    many = ", ".join(f"{number}/3 AS column_{number}" for number in range(20))
    _, out, _ = trace(f"SELECT {many} FROM range(2)")
    lines = out.splitlines()
    assert [line[:5] for line in lines if line.startswith("row ")] == ["row 1", "row 2"]
    assert lines[2].split() == ["column_1", "0.3333"]
    assert len(lines) == 2 * 21 + 1
    _, out, _ = trace(f"SELECT {many} LIMIT 0")
    assert out.split()[:2] == ["column_0,", "column_1,"] and "0 rows" in out
    _, out, _ = trace("SELECT 1/3 AS third, 2e6/3 AS more")
    assert out.splitlines()[2].split() == ["0.3333", "│", "666667"]


@pytest.mark.parametrize("query", ["lacking", "labels", "some.sql"])
def test_query_is_a_ready_one_a_table_or_a_file(trace: Run, tmp_path: Path, query: str) -> None:
    (tmp_path / "some.sql").write_text("-- mine\nFROM labels WHERE label = 'LACKING' AND $x::INT = 1")
    arguments = ["--param", "x=1"] if query == "some.sql" else []
    code, out, _ = trace(query, *arguments, "--format", "json")
    assert code == 0 and len(json.loads(out)) == {"lacking": 2, "labels": 16, "some.sql": 3}[query]


def test_a_wide_result_leaves_out_what_is_empty_in_every_row_and_names_it(trace: Run) -> None:
    wide = ", ".join(f"repeat('x', 90) AS a{n}" for n in range(9))
    code, out, _ = trace(f"SELECT {wide}, '' AS c, NULL AS d, 0 AS e")
    assert code == 0 and "empty in every row: c, d" in out
    assert [line.split()[0] for line in out.splitlines() if line[:1] in "acde"][:-1] == [
        *(f"a{n}" for n in range(9)),
        "e",
    ]


def test_parameters_reach_ready_queries(trace: Run) -> None:
    _, out, _ = trace("lacking", "-p", "capability=greet first", "-p", "target=desk", "--format", "json")
    assert [row["trajectory_id"] for row in json.loads(out)] == ["t1"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["labelz"], "did you mean 'labels'"),
        (["lackin"], "did you mean 'lacking'"),
        (["gap_tabel"], "did you mean 'gap_table'?"),
        (["xyzzy"], "`trace sql` lists"),
        (["SELECT * FROM labelz"], 'Did you mean "labels"'),
        (["SELEC 1"], "syntax error"),
        (["DROP TABLE labels"], "read-only"),
        (["COPY labels TO 'x.csv'"], "read-only"),
        (["nowhere.sql"], "nowhere.sql cannot be read"),
        (["lacking", "-p", "capabilty=x"], "did you mean 'capability'"),
        (["lacking", "-p", "capability"], "is not NAME=VALUE"),
        (["lacking", "-p", "target=a", "-p", "target=b"], "given twice"),
        (["SELECT $a"], "--param a=VALUE"),
        (["SELECT 1", "-p", "a=1"], "no parameter $a"),
        (["-p", "a=1"], "belongs to a query"),
        (["labels", "--output", "nowhere/x.csv"], "nowhere/x.csv cannot be written"),
        (["SELECT error('own words')"], "own words"),
        (["SELECT 'a'::INT", "--output", "x.csv"], "Could not convert"),
    ],
)
def test_what_is_wrong_is_said_once_with_exit_code_two(
    trace: Run, tmp_path: Path, arguments: list[str], word: str
) -> None:
    code, out, err = trace(*arguments)
    assert (code, out) == (2, "") and word in err and "Traceback" not in err
    assert not list(tmp_path.glob("*x.csv*"))


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT 1 AS a, 2 AS a, INTERVAL 1 DAY AS d, union_value(x := 1) AS u", ""),
        ("SELECT 'nan'::DOUBLE AS n, ['-inf'::DOUBLE] AS l, {'x': 'inf'::DOUBLE} AS s", ""),
        ("SELECT 'infinity'::TIMESTAMP AS t", "VARCHAR"),
    ],
)
def test_every_value_is_written_or_told_of(
    trace: Run, tmp_path: Path, format: Format, query: str, words: str
) -> None:
    code, out, err = trace(query, "--format", format.value, "--output", "out")
    assert "Traceback" not in err and out == ""
    if code:
        assert code == 2 and words and words in err and not (tmp_path / "out").exists()
    elif format is Format.json and not words:

        def refuse(word: str) -> None:
            raise AssertionError(f"{word} is not JSON")

        (row,) = json.loads((tmp_path / "out").read_text(), parse_constant=refuse)
        assert row in (
            {"a": 1, "a_1": 2, "d": "1 day", "u": "1"},
            {"n": "NaN", "l": ["-Infinity"], "s": {"x": "Infinity"}},
        )


def test_a_query_that_is_no_text_is_one_sentence(trace: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SELECT '\xff'"), encoding="utf-8"))
    code, out, err = trace("-")
    assert (code, out) == (2, "") and "not UTF-8" in err and "Traceback" not in err


def test_format_follows_the_file_name() -> None:
    assert format_of(None, Path("a.PARQUET")) is Format.parquet
    assert format_of(None, Path("a.md")) is Format.table
    assert format_of(Format.json, Path("a.csv")) is Format.json
    assert format_of(None, None) is Format.table


def test_flat_keeps_null_apart_from_text() -> None:
    frame = pl.DataFrame({"a": [[1], None], "b": [{"x": "é"}, None], "c": ["null", None]})
    assert flat(frame).rows() == [("[1]", '{"x": "é"}', "null"), (None, None, None)]


@pytest.mark.parametrize(("read", "asked"), [("head", ()), ("stream", ("--format", "csv"))])
def test_interrupt_ends_the_process_while_duckdb_computes(
    read: str, asked: tuple[str, ...], trace: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def rows(self: Warehouse, sql: str, parameters: object, **_: int) -> Iterator[pl.DataFrame]:
        seen.append(signal.getsignal(signal.SIGINT))
        yield pl.DataFrame({"n": [1]})

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(Warehouse, read, rows)
    assert trace("SELECT 1 AS n", *asked)[0] == 0
    assert seen == [signal.SIG_DFL] and signal.getsignal(signal.SIGINT) == before


def test_rows_that_somebody_put_among_a_table_are_told_of(trace: Run, home: Home) -> None:
    folder = home.tables / "labels"
    whole = trace("SELECT count(*) AS n FROM labels", "--format", "json")
    assert whole[::2] == (0, "")
    manifest_of(home.path).note_files(home.tables.glob("*/*.parquet"))
    other = pl.read_parquet(next(folder.glob("*.parquet"))).head(1)
    other.write_parquet(folder / "another-home.parquet")
    code, out, err = trace("SELECT count(*) AS n FROM labels", "--format", "json")
    assert code == 0 and json.loads(out) == [{"n": 17}]
    assert "another-home.parquet: put there by hand" in err and err.count("note") == 1
    assert trace("SELECT count(*) AS n FROM messages", "--format", "json")[2] == ""


@pytest.mark.parametrize("asked", [("SELECT count(*) AS n FROM labels",), (), ("labels", "--format", "csv")])
def test_a_folder_that_is_no_study_does_not_look_like_one_without_findings(
    trace: Run, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]
) -> None:
    assert "holds no row" not in trace(*asked)[2]
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "elsewhere"))
    code, _, err = trace(*asked)
    assert code == 0 and f"{tmp_path / 'elsewhere'} holds no row of any table yet" in " ".join(err.split())
    assert not (tmp_path / "elsewhere").exists(), "who only looks makes no folder"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_takes_nothing_is_named_and_the_home_is_not(tmp_path: Path, unbuffered: str) -> None:
    command = [sys.executable, "-m", "trace_assets", "--help"]
    environment = {**os.environ, "TRACE_HOME": str(tmp_path), "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3 and str(tmp_path) not in done.stderr
    assert done.stderr.startswith(
        "trace: what is printed cannot be written where it is sent to (No space left"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, ""), "as the shell says it of a program that SIGPIPE ended"
