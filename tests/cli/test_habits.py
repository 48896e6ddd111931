"""What people expect of a command line: version, examples, quiet and verbose, completion, home further up."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import click
import pytest
from rich.console import Console
from typer.main import get_command

from tests.cli.test_cli import trace
from tests.orchestration.simulations import simulation_file
from trace_assets.cli import loudness
from trace_assets.cli.commands import COMMANDS
from trace_assets.cli.diagnosis import _print
from trace_assets.cli.lazy import LazyCommand, _leaves, study_above
from trace_assets.cli.loudness import Loudness, heartbeat
from trace_assets.cli.main import app
from trace_assets.errors import InputError
from trace_assets.records import PolicyContrast
from trace_assets.store.names import chosen_name

PRINT_NO_RESULT = {"router", "ui", "tasks make", "targets new", "targets install"}
"""They serve, or what they print is a file's content or its name."""


def completed(line: str) -> list[str]:
    words = line.split(" ")
    environment = {
        **os.environ,
        "_TRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "import sys; sys.argv = ['trace']; from trace_assets.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    return done.stdout.split()


def test_the_version_is_that_of_the_distribution(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, "--version") == 0
    assert re.fullmatch(r"trace-assets \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_examples_that_parse(command: LazyCommand) -> None:
    assert command.examples
    group = get_command(app)
    for example in command.examples:
        words = shlex.split(example.partition("#")[0].partition(" > ")[0])
        assert words[:2] == ["trace", command.name], example
        found: click.Command = command.load()
        rest = words[2:]
        while isinstance(found, click.Group):
            _, inner, rest = found.resolve_command(click.Context(found), rest)
            assert inner is not None, example
            found = inner
        found.make_context(found.name, rest, parent=click.Context(group)).close()


def test_every_command_that_prints_a_result_prints_json_too() -> None:
    for command in COMMANDS:
        real = command.load()
        for leaf in _leaves(real):
            name = command.name if leaf is real else f"{command.name} {leaf.name}"
            has = any("--json" in parameter.opts for parameter in leaf.params)
            assert has != (name in PRINT_NO_RESULT), name
            assert any("--quiet" in parameter.opts for parameter in leaf.params), name


def test_report_and_sql_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, "report", "-o", str(tmp_path / "page.html"), "--json") == 0
    assert Path(json.loads(capsys.readouterr().out)["path"]).is_file()
    assert trace(monkeypatch, "sql", "SELECT 1 AS one", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [{"one": 1}]
    assert trace(monkeypatch, "sql", "SELECT 1", "--json", "--format", "csv") == 2
    assert "contradict" in capsys.readouterr().err


@pytest.mark.ci
def test_quiet_says_the_result_alone_and_verbose_what_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(simulation_file(tmp_path / "desk.json", "desk", n=2))
    assert trace(monkeypatch, "ingest", path) == 0
    capsys.readouterr()
    settings = ("sync", "--select", "config/discovery", "--set")
    assert trace(monkeypatch, *settings, "discovery.seed=101", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert trace(monkeypatch, "--verbose", *settings, "discovery.seed=102") == 0
    said = capsys.readouterr().err
    assert "→ config/discovery" in said and "✓ config/discovery" in said and os.environ["TRACE_HOME"] in said


def test_settings_that_are_written_for_the_first_time_are_no_line_and_changed_ones_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sync = ("sync", "--select", "config/discovery")
    assert trace(monkeypatch, *sync) == 0
    assert "✓ config/discovery" not in capsys.readouterr().err
    assert trace(monkeypatch, *sync, "--set", "discovery.seed=103") == 0
    assert "✓ config/discovery" in capsys.readouterr().err


def test_an_error_shows_where_it_arose_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, told in ((["-v"], True), ([], False)):
        assert trace(monkeypatch, "sql", "missing.sql", *arguments) == 2
        assert ("Traceback" in capsys.readouterr().err) is told


def test_silence_is_broken_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loudness, "SILENCE_SECONDS", 0.01)
    with heartbeat("trace x is at work"), loudness.described(lambda: "labels[a]"):
        said, patience = "", time.monotonic() + 60
        while "labels[a]" not in said and time.monotonic() < patience:
            time.sleep(0.01)
            said += capsys.readouterr().err
    assert re.search(r"… labels\[a\], for \d+ s", said)
    loudness.choose(Loudness.quiet)
    with heartbeat("trace x is at work"):
        time.sleep(0.1)
    loudness.choose(Loudness.normal)
    assert capsys.readouterr().err == ""


def test_a_study_is_found_further_up_and_files_stay_where_they_were_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TRACE_HOME")
    below = tmp_path / "study" / "notes" / "deep"
    below.mkdir(parents=True)
    (tmp_path / "study" / "trace.toml").write_text("[selection]\nmin_gap = 0.33\n")
    (below / "one.sql").write_text("SELECT 1 AS one")
    monkeypatch.chdir(below)
    assert trace(monkeypatch, "settings", "selection", "--json") == 0
    values = {row["key"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert values["min_gap"] == 0.33
    assert not (tmp_path / "study" / ".trace").exists() and not (below / ".trace").exists(), "it only looked"
    for name in ("TRACE_HOME", "TRACE_CONFIG", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(below)
    assert trace(monkeypatch, "sql", "one.sql", "-o", "one.csv", "--format", "csv") == 0
    assert (below / "one.csv").read_text().split() == ["one", "1"]
    for name in ("TRACE_HOME", "TRACE_CONFIG", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(below)
    (below / "run.jsonl").write_text(
        json.dumps(
            {
                "target": "x",
                "task_id": "x/1",
                "success": True,
                "messages": [{"role": "user", "content": "Hi"}],
            }
        )
    )
    assert trace(monkeypatch, "ingest", "run.jsonl") == 0, capsys.readouterr().err
    assert (tmp_path / "study" / ".trace").is_dir() and not (below / ".trace").exists()


def test_leases_move_in_the_study_further_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".trace").mkdir()
    below = tmp_path / "below"
    below.mkdir()
    for name in ("TRACE_HOME", "TRACE_CONFIG", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(below)
    assert trace(monkeypatch, "cluster", "files") == 2  # no database holds them
    assert not (below / ".trace").exists()


def test_a_study_of_somebody_else_further_up_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trace.toml").touch()
    below = tmp_path / "below"
    below.mkdir()
    assert study_above(below) == tmp_path and study_above(tmp_path) is None
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    os.chown(tmp_path / "trace.toml", *((4343, -1) if os.geteuid() == 0 else (-1, -1)))
    assert study_above(below) is None


@pytest.mark.slow
def test_completion_knows_commands_settings_and_ready_queries() -> None:
    assert completed("trace dia") == ["diagnose"]
    assert "selection.min_gap=" in completed("trace sync --set selection.min_g")
    assert "gap_table" in completed("trace sql gap")
    assert "new" in completed("trace targets n")


@pytest.mark.ci
def test_colours_are_left_out_when_asked() -> None:
    code = "import sys; sys.argv = ['trace', 'show', '--help']; from trace_assets.cli import main; main()"
    environment = {**os.environ, "FORCE_COLOR": "1"}
    coloured = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, timeout=300)
    plain = subprocess.run(
        [sys.executable, "-c", code], env={**environment, "NO_COLOR": "1"}, capture_output=True, timeout=300
    )
    assert re.search(rb"\x1b\[[0-9;]*3[0-9]m", coloured.stdout)
    assert not re.search(rb"\x1b\[[0-9;]*3[0-9]m", plain.stdout)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("nothing", "no policy is called"),
        ("gpt", "several policies begin"),
        ("pt-", "several policies hold"),
        ("gtp-4", "did you"),
    ],
)
def test_a_name_that_is_none_or_several(wanted: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        chosen_name("policy", wanted, ["gpt-4.1", "gpt-5"])


def test_a_ready_query_takes_the_beginning_of_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(simulation_file(tmp_path / "desk.json", "desk", n=2))
    assert trace(monkeypatch, "ingest", path) == 0
    capsys.readouterr()
    assert trace(monkeypatch, "sql", "SELECT DISTINCT target FROM trajectories", "--json") == 0
    target = json.loads(capsys.readouterr().out)[0]["target"]
    assert trace(monkeypatch, "sql", "pass_rate_by_task", "-p", f"target={target[:-1]}", "--json") == 0
    assert json.loads(capsys.readouterr().out)
    assert trace(monkeypatch, "sql", "lacking", "-p", "capability=nonsense") == 2
    assert "no capability is called 'nonsense'" in capsys.readouterr().err
    assert trace(monkeypatch, "sql", "failure_causes", "-p", "party=agentt") == 2
    assert "did you mean 'agent'?" in capsys.readouterr().err
    assert trace(monkeypatch, "sql", "evidence", "-p", "label=present", "-p", "trajectory=zzz") == 0


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_comparison_keeps_names_and_intervals_on_a_narrow_screen(width: int) -> None:
    fields = dict.fromkeys(PolicyContrast.model_fields, 0)
    texts = {"target": "desk", "weak": "small", "strong": "large"}
    row = PolicyContrast.model_validate(fields | texts | {"capability_id": "c", "name": "Greet, then look"})
    console = Console(file=StringIO(), width=width)
    _print([row], console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in said and "[0.00, 0.00]" in said
    assert "Greet, then look" in " ".join(said.split())


def test_an_interruption_of_a_command_ends_in_one_sentence() -> None:
    code = """
import sys, typer
import trace_assets.cli.main
main = sys.modules["trace_assets.cli.main"]
main.app = typer.Typer()

@main.app.command()
def interrupted():
    raise KeyboardInterrupt

main.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, text=True)
    assert done.returncode == 130
    assert done.stderr.splitlines() == [
        "trace: interrupted; what was finished is kept, the same command goes on from there."
    ]


@pytest.mark.parametrize("question", ["confirm('Go on?')", "choose_answer('Go on?', ['yes', 'no'], 'no')"])
def test_an_interruption_ends_a_question(question: str) -> None:
    code = f"import polars\nfrom trace_assets.cli.options import confirm, choose_answer\n{question}"
    asked = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert asked.stderr is not None
    try:
        while asked.stderr.read(1) != b"?":
            assert asked.poll() is None
        time.sleep(0.5)  # not before it reads: that ends in any case
        asked.send_signal(signal.SIGINT)
        assert asked.wait(60) == 1
    finally:
        asked.kill()
        asked.communicate()


def test_every_question_can_be_interrupted() -> None:
    asking = re.compile(r"typer\.(confirm|prompt)\(|click\.(confirm|prompt)\(")
    files = Path(loudness.__file__).parents[1].rglob("*.py")
    assert [path.name for path in files if asking.search(path.read_text())] == ["options.py"]


def test_an_interruption_of_a_library_that_tidies_up_prints_no_traceback() -> None:
    code = """
import logging, time
from trace_assets.errors import plain_interrupts

class Late:
    def __init__(self, error): self.error = error
    def __del__(self): raise self.error

plain_interrupts()
for error in (KeyboardInterrupt(), ValueError("a real fault")):
    try:
        raise error
    except BaseException:
        logging.getLogger("sqlalchemy.pool").error("Exception closing connection", exc_info=True)
    try:
        Late(error)
        time.sleep(3600 if isinstance(error, KeyboardInterrupt) else 0)
    except KeyboardInterrupt:
        print("it came again")
"""
    # The sleep outlasts this patience by far: what waits for it to end fails here.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "KeyboardInterrupt" not in done.stderr and done.stdout == "it came again\n"
    assert done.stderr.count("Exception closing connection") == 1
    assert done.stderr.count("Exception ignored in") == 1 and done.stderr.count("a real fault") >= 2
