"""`trace audit`: exit codes, both forms of output, a policy of one's own."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from tests.audit_fixtures.broken_environment import SOUND_FOLDER, sound_source
from trace_assets.cli.main import main
from trace_assets.environments.audit.battery import CHECKS
from trace_assets.environments.audit.severity import RULES

SANDBOX = ("--set", "sandbox.backend=unsafe-subprocess", "--set", "synthesis.audit_seeds=8")


def audit(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["trace", "audit", *arguments])
    with pytest.raises(SystemExit) as leaving, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
    return int(leaving.value.code or 0)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "home"))
    for name in ("max_seconds_reset", "max_seconds_step"):  # a busy machine is not the module's fault
        monkeypatch.setitem(RULES.__dict__, name, 60.0)


def test_a_sound_module_is_accepted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit(monkeypatch, str(SOUND_FOLDER / "door.py"), "--json", *SANDBOX) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["accepted"] is True and document["reasons"] == []
    assert document["policy"] == RULES.version
    assert [row["check_id"] for row in document["checks"]] == [check.check_id for check in CHECKS]
    killed = next(row for row in document["checks"] if row["check_id"] == "trace.mutation.kill_rate")
    assert killed["value"] == 1.0 and 0 < killed["low"] < killed["high"] == 1.0 and killed["n"] > 20


@pytest.mark.slow
def test_a_module_that_pays_for_nothing_is_rejected_unless_ones_own_policy_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "module.py"
    fault = "\n[red]0.2[/] "
    path.write_text(sound_source("door").replace("(looked + settled", "0.5 + (looked + settled"))
    assert audit(monkeypatch, str(path), *SANDBOX) == 1
    text = capsys.readouterr().out
    assert "rejected: semantic.floor_gap" in text and fault not in text
    own = tmp_path / "policy.toml"
    own.write_text('max_floor = 1.0\nmin_floor_gap = 0.0\nmin_attack_margin = 0.0\nmin_kill_rate = 0.0\n'
                   'min_operator_rate = 0.0\n[severities]\n"semantic.oracle_max" = "warning"\n')  # fmt: skip
    assert audit(monkeypatch, str(path), "--policy", str(own), *SANDBOX) == 0
    text = capsys.readouterr().out
    assert "pass semantic.floor_gap 0.5 " in text and "rejected" not in text and "accepted" in text


def test_evidence_is_printed_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "module.py"
    path.write_text('raise ValueError("[bold red]\\x1b[2J\\u202e")\n' + sound_source("door"))
    assert audit(monkeypatch, str(path), *SANDBOX) == 1
    text = capsys.readouterr().out
    assert "[bold red]" in text and "\x1b[2J" not in text and "\u202e" not in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "FILE"),
        (("nowhere.py",), "nowhere.py"),
        (("latin.py",), "latin.py"),
        (("door.py", "--policy", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_unusable_input_is_two(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "latin.py").write_bytes(b"# \xe9\xff\n")
    (tmp_path / "door.py").write_text(sound_source("door"))
    assert audit(monkeypatch, *arguments, *SANDBOX) == 2
    assert words in capsys.readouterr().err


def test_no_sandbox_is_three(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert audit(monkeypatch, str(SOUND_FOLDER / "door.py"), "--set", "sandbox.backend=docker") == 3
    assert "docker" in capsys.readouterr().err.lower()
