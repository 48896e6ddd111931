"""`python -m tests.audit_fixtures` says which broken environments the audit takes for sound."""

import json

import pytest

from tests.audit_fixtures import __main__ as command
from tests.audit_fixtures import runner
from tests.audit_fixtures.broken_environment import Animal

SANDBOX = ("--set", "sandbox.backend=unsafe-subprocess")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_audit_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sound = Animal("nothing is wrong", "semantic.floor_gap", "door", ())
    broken = Animal("not Python", "trace.parses", "door", (("def tools()", "def tools(:"),))
    monkeypatch.setattr(runner, "ANIMALS", (broken, sound))
    monkeypatch.setattr(runner, "sound_names", lambda: [])
    assert command.main(SANDBOX) == 1
    text = capsys.readouterr().out
    assert "right not Python (door) fails trace.parses" in text
    assert "WRONG nothing is wrong (door) fails nothing, should fail semantic.floor_gap" in text
    assert "2 broken and 0 sound environments, 1 audited wrongly" in text
    monkeypatch.setattr(runner, "ANIMALS", (broken,))
    assert command.main(["--json", *SANDBOX]) == 0
    assert json.loads(capsys.readouterr().out)["visits"][0]["expected"] == "trace.parses"
