"""`trace show`: one trajectory in a terminal, whatever its texts hold."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from trace_assets.cli.main import main
from trace_assets.cli.options import PrintableConsole, leave_home_alone
from trace_assets.cli.show import print_trajectory
from trace_assets.errors import InputError
from trace_assets.records import (
    ActionDiff,
    Capability,
    FailureCause,
    Label,
    LuckyPass,
    Message,
    ToolCall,
    Trajectory,
    Triage,
)
from trace_assets.report.one_trajectory import chosen_id, gather_trajectory
from trace_assets.settings import load_settings
from trace_assets.store import Home, Store
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study

NASTY = "hello \x1b[2J[bold]you[/] \u202egnp.exe\nline two " + 90 * "word "
COMMON = {"target": "gym", "task_id": "gym/1"}


def trajectory(name: str, *, success: bool = False) -> Trajectory:
    call = ToolCall(id="1", name="book\x1b[1m", arguments={"course": "[red]K1[/]", "seats": 2})
    return Trajectory(
        trajectory_id=name,
        task_id="gym/1",
        target="gym",
        task_batch="b",
        policy="p\x07",
        success=success,
        reward=float(success),
        messages=(
            Message(role="user", content=NASTY),
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", content="no \x1b]0;title\x07such", tool_call_id="1", is_error=True),
            Message(role="assistant", content=None),
        ),
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.open(tmp_path / "home")
    store = Store(home.tables)
    write_trajectories(store, [trajectory("ab12"), trajectory("ab34", success=True), trajectory("cd56")], "b")
    triage = {**COMMON, "rule": "agent"}
    store.write(
        [
            Triage.model_validate({**triage, "trajectory_id": "ab12", "outcome": "failed", "fault": "agent"}),
            Triage.model_validate({**triage, "trajectory_id": "ab34", "outcome": "passed", "fault": None}),
        ],
        Triage,
        "b",
    )
    store.write(
        [
            Capability(capability_id=one, target="gym", name=f"Do {one} [x]", description="", analyst="m")
            for one in ("look", "ask", "far")
        ],
        Capability,
    )
    store.write(
        [
            Label.model_validate(
                {"trajectory_id": "ab12", "labeller": "detectors", "rationale": "because [/]", **row}
            )
            for row in (
                {"capability_id": "ask", "label": "LACKING", "evidence": (0,)},
                {"capability_id": "look", "label": "LACKING", "evidence": (1,)},
                {"capability_id": "far", "label": "NA"},
            )
        ],
        Label,
        "b",
    )
    cause = {**COMMON, "trajectory_id": "ab12", "party": "agent", "decisive_message": 1}
    cause |= {"suspected": "environment", "suspicion": "r2 (message 1): it [broke]"}
    store.write(
        [
            FailureCause.model_validate(
                {**cause, "capability": "look", "words": "it [did] \x1b[3m", "rule": "r", "repaired": True}
            )
        ],
        FailureCause,
    )
    diff = {**COMMON, "trajectory_id": "ab12", "policy": "p", "number": 0, "kind": "missed", "tool": "pay"}
    store.write([ActionDiff.model_validate({**diff, "expected_arguments": {"n": 1}})], ActionDiff, "b")
    luck = {**COMMON, "trajectory_id": "ab34", "policy": "p", "kind": "no_write_needed", "detail": "idle"}
    store.write([LuckyPass.model_validate(luck)], LuckyPass)
    return home


def shown(home: Home, name: str, longest: int | None = 300) -> str:
    out = io.StringIO()
    one = gather_trajectory(Store(home.tables), name)
    print_trajectory(one, PrintableConsole(file=out, width=400, highlight=False), longest)
    return out.getvalue()


def test_the_decisive_message_and_the_lacks_are_marked_and_the_cause_is_told(home: Home) -> None:
    text = shown(home, "ab12")
    lines = text.splitlines()
    decisive = next(line for line in lines if line.startswith("►"))
    assert decisive.split()[1] == "1" and "◄ decisive, lacks 1" in decisive
    assert any("0 user" in line and "◄ lacks 2" in line for line in lines)
    assert "Why it failed: agent, message 1; confidence low, by rule (r)" in text
    assert "repaired and replayed it passes" in text and "(empty)" in text
    assert "suspected, not decided: environment, by r2 (message 1): it [broke]" in text
    assert "1. LACKING Do look [x] (message 1): because [/]" in text
    assert "missed: never did pay(n=1)" in text and "Do far" not in text


def test_nothing_in_a_text_reaches_the_terminal_as_more_than_text(home: Home) -> None:
    for longest in (300, None):
        text = shown(home, "ab12", longest)
        assert not any(sign in text for sign in ("\x1b", "\x07", "\u202e"))
        assert "[bold]you[/]" in text and "[red]K1[/]" in text
    assert "more" in shown(home, "ab12") and "line two" in shown(home, "ab12", None)


def test_a_pass_says_why_it_says_little_and_a_failure_not_explained_says_so(home: Home) -> None:
    text = shown(home, "ab34")
    assert "no write needed: idle" in text and "Why it failed" not in text
    assert "not known yet: run `trace diagnose`" in shown(home, "cd56")


def test_an_id_may_be_shortened_and_what_is_meant_is_asked(home: Home) -> None:
    assert gather_trajectory(Store(home.tables), "c").head.trajectory_id == "cd56"
    for name, said in (
        ("ab", "beginning of 2 ids; write more of one: ab12, ab34."),
        ("b3", "did you mean ab34?"),
        ("ab13", "did you mean ab12, ab34?"),
        ("", "there are ab12, ab34, cd56."),
    ):
        with pytest.raises(InputError, match="id") as found:
            gather_trajectory(Store(home.tables), name)
        assert said in str(found.value), name
    with pytest.raises(InputError, match="no trajectories yet"):
        chosen_id([], "x")


def test_the_command_prints_json_that_holds_everything(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACE_HOME", str(home.path))
    monkeypatch.setattr(sys, "argv", ["trace", "show", "ab1", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0 and document["trajectory"]["trajectory_id"] == "ab12"
    assert document["messages"][0]["content"] == NASTY and document["failure_cause"]["repaired"] is True
    assert [row["name"] for row in document["labels"]] == ["Do ask [x]", "Do look [x]"]
    monkeypatch.setattr(sys, "argv", ["trace", "show", "zz"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and "no trajectory's id is or begins with 'zz'" in capsys.readouterr().err


def test_the_page_holds_every_message_whole_and_nothing_active(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACE_HOME", str(home.path))
    monkeypatch.setattr(sys, "argv", ["trace", "show", "ab12", "-o", str(tmp_path / "deep" / "one.html")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    file = Path(capsys.readouterr().out.strip())
    page = file.read_text(encoding="utf-8")
    assert file == tmp_path / "deep" / "one.html"
    assert "word " * 89 in page and "[bold]you[/]" in page  # neither cut nor read as markup
    assert "\x1b" not in page and "\u202e" not in page and "<script" not in page
    found = gather_trajectory(Store.of(home), "ab12")
    assert page.count('class="turn') == len(found.messages) == 4
    ids = [f'id="m{row.index}"' for row in found.messages]
    assert all(page.count(one) == 1 for one in ids)
    assert found.cause is not None and found.cause.decisive_message is not None
    assert f'href="#m{found.cause.decisive_message}"' in page and "· decisive" in page


@pytest.mark.parametrize(
    "command",
    [
        ("sql", "SELECT 1 AS trajectory_id", "-o"),
        ("show", "ab12", "-o"),
        ("report", "-o"),
        ("export", "--format", "huggingface"),
    ],
    ids=lambda command: command[0],
)
def test_no_result_is_written_over_what_the_home_keeps(
    command: tuple[str, ...], home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRACE_HOME", str(home.path))
    kept = home.path / "manifest.jsonl"
    kept.write_text("")
    table = home.tables / "trajectories"
    before = sorted(home.path.rglob("*"))
    for place in (kept, table / "b.parquet", table / "new.parquet"):
        monkeypatch.setattr(sys, "argv", ["trace", *command, str(place)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2 and "name a place outside it" in capsys.readouterr().err
    assert sorted(home.path.rglob("*")) == before and kept.read_text() == ""


def test_pages_and_new_files_may_lie_in_the_home(home: Home) -> None:
    study = Study(home, load_settings(None, []))
    for place in (None, home.reports / "page.html", home.path / "gap.csv", home.path.parent / "gap.csv"):
        leave_home_alone(study, place)
    for place in (home.tables / "x.parquet", home.path / "inbox" / ".." / "tables" / "x", home.path):
        with pytest.raises(InputError):
            leave_home_alone(study, place)
