"""`trace export` from the command line's side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.formats.test_round_trip import trajectory
from trace_assets.cli.main import app
from trace_assets.errors import InputError
from trace_assets.records import Message
from trace_assets.store import Home, Store
from trace_assets.store.trajectories import write_trajectories


def test_export_writes_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "home"))
    said = (Message(role="user", content="hi"),)
    home = Home.open(tmp_path / "home")
    write_trajectories(Store(home.tables), [trajectory("a", said), trajectory("b", ())], "b")
    target = tmp_path / "out.jsonl"
    done = CliRunner().invoke(app, ["export", str(target), "--format", "atif"])
    assert done.exit_code == 0 and "1 trajectories written" in done.output
    assert "1 without messages were left out" in " ".join(done.output.split())
    assert json.loads(target.read_text())["trajectory_id"] == "a"
    told = CliRunner().invoke(app, ["export", str(target), "--format", "scout", "--json"])
    assert json.loads(told.stdout)["written"] == 2
    wrong = CliRunner().invoke(app, ["export", str(target), "--format", "csv"])
    assert isinstance(wrong.exception, InputError) and wrong.exception.exit_code == 2
