"""The command line: what it prints, what it exits with, and that a repeated command changes nothing."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path

import pytest

from tests.orchestration.simulations import simulation_file
from trace_assets.cli.main import main
from trace_assets.errors import InputError
from trace_assets.study import Study


def trace(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["trace", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    code = exit.value.code
    return code if isinstance(code, int) else 0


def test_ingest_twice_changes_nothing_and_sql_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(simulation_file(tmp_path / "desk.json", "desk", n=3, lacking=1))
    assert trace(monkeypatch, "ingest", path) == 0
    assert "3 trajectories" in capsys.readouterr().out
    assert trace(monkeypatch, "ingest", path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["new"] == {}
    assert trace(monkeypatch, "sql", "SELECT count(*) AS n FROM trajectories", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 3}]
    assert trace(monkeypatch, "sql", "pass_rate", "--format", "csv") == 0
    assert ",3,2,0.667," in capsys.readouterr().out


def test_a_model_without_a_server_is_told_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(simulation_file(tmp_path / "desk.json", "desk", n=3, lacking=1))
    assert trace(monkeypatch, "diagnose", path, "--analyst", "m") == 2
    captured = capsys.readouterr()
    assert "analyst.base_url" in captured.err and not captured.out


def test_what_a_model_costs_and_is_not_told_is_said_before_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(simulation_file(tmp_path / "desk.json", "desk", n=3, lacking=1))
    server = ("--analyst", "m", "--base-url", "http://127.0.0.1:9/v1", "--set", "analyst.retries=0")
    assert trace(monkeypatch, "diagnose", path, *server) == 3
    said = capfd.readouterr().err
    warned, foreseen, failed = (
        said.find(one) for one in ("warning", "triage: 1 requests", "mend analyst.base_url")
    )
    assert 0 <= warned < foreseen < failed, said
    assert "trace contract tau2:desk --policy FILE --tools FILE" in said


def test_bad_file_beside_a_good_one_is_told_and_the_good_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"simulations": [')
    assert (
        trace(monkeypatch, "ingest", str(bad), str(simulation_file(tmp_path / "desk.json", "desk", n=1))) == 1
    )
    captured = capsys.readouterr()
    assert "bad.json" in captured.err and "1 trajectories" in captured.out


@pytest.mark.ci
def test_diagnose_takes_files_in_first_tells_what_it_cannot_read_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(simulation_file(tmp_path / "desk.json", "desk", n=3, lacking=1))
    assert trace(monkeypatch, "diagnose", path, "nowhere.json") == 1
    captured = capsys.readouterr()
    assert "nowhere.json" in captured.err and "3 trajectories" in captured.out
    assert "Report: " in captured.out
    assert trace(monkeypatch, "diagnose", path, "--json") == 0
    json.loads(capsys.readouterr().out)
    assert trace(monkeypatch, "plan") == 0
    planned = " ".join(capsys.readouterr().out.split())
    assert "this is for the live target, 'embedded'" in planned and "played elsewhere" in planned
    assert "capabilities: 0 to 6" in planned  # those of other targets are not taught here


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ingest", "nowhere.json"], "nowhere.json"),
        (["diagnose"], "trace diagnose FILE"),
        (["sql", "SELECT x FROM nothing"], "nothing"),
        (["sql", "missing.sql"], "missing.sql"),
        (["sync", "--select", "nonsense"], "nonsense"),
        (["sync", "--dry-run", "--set", "selection.min_gap=high"], "selection.min_gap"),
        (["sync", "--dry-run", "--set", "selection.nothing=1"], "selection.nothing"),
        (["sync", "--dry-run", "--config", "nowhere.toml"], "nowhere.toml"),
        (["route", "Cancel my order K1."], "trace sync"),
        (["audit", "nowhere.py"], "nowhere.py"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_two(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trace(monkeypatch, *arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err and "Traceback" not in captured.err


def test_dry_run_says_what_is_due_and_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trace(monkeypatch, "sync", "--dry-run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    due = {step["item"]: step["reason"] for step in found["due"]}
    assert found["may_follow"] == [] and "trajectories[embedded]" in found["without_history"]
    assert due["trajectories[embedded]"] == "never materialized" and "config/selection" in due
    assert trace(monkeypatch, "sql", "SELECT count(*) AS n FROM tasks", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 0}]


def test_demo_without_a_sandbox_stops_before_any_work(
    no_sandbox: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    assert trace(monkeypatch, "demo") == 3
    said = capsys.readouterr().err
    assert "start_docker.sh" in said and "bubblewrap is not installed" in " ".join(said.split())
    assert not (Path(os.environ["TRACE_HOME"]) / "tables").exists()


def test_the_help_swallows_no_brackets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, "sync", "--help") == 0
    assert capsys.readouterr().out.count("asset[partition]") == 2


@pytest.mark.parametrize(
    ("asked", "single_arms"),
    [
        (["--rounds", "2"], ("joint",)),
        (["--rounds", "1"], ()),
        (["--rounds", "2", "--set", "training.single_arms=[]"], ()),
        (["--rounds", "2", "--desk", "b"], ("together", "joint", "joining", "consolidated")),
    ],
)
def test_the_demo_in_rounds_also_trains_one_adapter_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str], single_arms: tuple[str, ...]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    found: list[Study] = []

    def look(study: Study) -> bool:
        found.append(study)
        raise InputError("seen")

    monkeypatch.setattr("trace_assets.cli.forecast.needs_sandbox", look)
    assert trace(monkeypatch, "demo", *asked) == 2
    (study,) = found
    assert study.settings.training.single_arms == single_arms
    assert study.settings.rounds.most == int(asked[1])


def test_the_demo_refuses_a_desk_that_there_is_none_of(
    no_sandbox: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert trace(monkeypatch, "demo", "--desk", "z") == 2
    assert "one of a, b" in " ".join(capsys.readouterr().err.split())
    assert trace(monkeypatch, "demo", "--desk", "b", "--set", "targets.name=tau2:retail") == 2
    assert "--desk is for the embedded target" in " ".join(capsys.readouterr().err.split())
    assert not (Path(os.environ["TRACE_HOME"]) / "tables").exists()


def test_a_full_disk_is_no_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was to be written there: another place, as is advised otherwise, would not help."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("trace_assets.cli.sql_output.replacing_file", refuse)
    assert trace(monkeypatch, "sql", "SELECT 1", "--output", str(tmp_path / "one.csv")) == 3
    said = capsys.readouterr().err
    assert "No space left on device" in said and "free some space" in said and "--output" not in said
