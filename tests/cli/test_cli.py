"""The command line: what it prints, what it exits with, and that a repeated command changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trace_assets.cli.main import main

SIMULATION = {
    "id": "s1",
    "task_id": "7",
    "timestamp": "2025-01-01",
    "start_time": "2025-01-01",
    "end_time": "2025-01-01",
    "duration": 1.0,
    "termination_reason": "user_stop",
    "agent_cost": 0.1,
    "user_cost": 0.1,
    "reward_info": {"reward": 1.0, "db_check": {"db_match": True, "db_reward": 1.0}, "reward_basis": ["DB"]},
    "messages": [
        {"role": "assistant", "content": "Hi!", "turn_idx": 0},
        {"role": "user", "content": "Cancel order K1.", "turn_idx": 1},
    ],
    "trial": 0,
    "seed": 1,
}


def tau2_file(folder: Path, name: str, rewards: list[float]) -> Path:
    simulations = []
    for number, reward in enumerate(rewards):
        one = json.loads(json.dumps(SIMULATION))
        one.update(id=f"{name}-{number}", task_id=str(number))
        one["reward_info"]["reward"] = reward
        simulations.append(one)
    tasks = [
        {"id": str(number), "description": {}, "user_scenario": {"instructions": "Cancel order K1."}}
        for number in range(len(rewards))
    ]
    info = {
        "git_commit": "c",
        "num_trials": 1,
        "max_steps": 10,
        "max_errors": 3,
        "user_info": {"implementation": "user_simulator", "llm": "u", "llm_args": {}},
        "agent_info": {"implementation": "llm_agent", "llm": "a", "llm_args": {}},
        "environment_info": {"domain_name": "desk", "policy": "Be kind."},
        "seed": 1,
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"timestamp": "t", "info": info, "tasks": tasks, "simulations": simulations}))
    return path


def trace(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["trace", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    code = exit.value.code
    return code if isinstance(code, int) else 0


def test_ingest_twice_changes_nothing_and_sql_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tau2_file(tmp_path, "desk", [1.0, 0.0, 1.0]))
    assert trace(monkeypatch, "ingest", path) == 0
    assert "3 trajectories" in capsys.readouterr().out
    assert trace(monkeypatch, "ingest", path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["new"] == {}
    assert trace(monkeypatch, "sql", "SELECT count(*) AS n FROM trajectories", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 3}]
    assert trace(monkeypatch, "sql", "pass_rate", "--format", "csv") == 0
    assert ",3,2,0.667," in capsys.readouterr().out


def test_bad_file_beside_a_good_one_is_told_and_the_good_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"simulations": [')
    assert trace(monkeypatch, "ingest", str(bad), str(tau2_file(tmp_path, "desk", [0.0]))) == 1
    captured = capsys.readouterr()
    assert "bad.json" in captured.err and "1 trajectories" in captured.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ingest", "nowhere.json"], "nowhere.json"),
        (["diagnose"], "trace ingest"),
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


def test_definitions_load_without_torch() -> None:
    code = (
        "import sys; from trace_assets.definitions import load; load()[0].resolve_asset_graph();"
        "bad = {'torch', 'transformers', 'trl', 'peft', 'openai', 'docker'} & set(sys.modules);"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_demo_without_a_sandbox_stops_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert trace(monkeypatch, "demo") == 3
    assert "start_docker.sh" in capsys.readouterr().err
    assert not (Path(os.environ["TRACE_HOME"]) / "tables").exists()
