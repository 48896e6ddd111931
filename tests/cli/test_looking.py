"""A command that only looks leaves an empty folder empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import trace

LOOKING = (
    "sql",
    "sql trajectories",
    "show x",
    "plan --gap 0.3",
    "settings",
    "contract",
    *(pytest.param(one, marks=pytest.mark.ci) for one in ("plan", "sync --dry-run", "doctor --quick")),
)


@pytest.mark.parametrize("command", LOOKING)
def test_nothing_is_made_where_nothing_is(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TRACE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert trace(monkeypatch, *command.split()) == (2 if command.startswith("show") else 0)
    assert list(tmp_path.iterdir()) == []
    assert "Traceback" not in capsys.readouterr().err


def test_a_file_in_the_place_of_the_home_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "home"))
    assert trace(monkeypatch, "sql") == 2
    assert "cannot be made" in capsys.readouterr().err
