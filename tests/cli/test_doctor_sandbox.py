"""`trace doctor --sandbox`: played, printed, stored, and held against the sandbox that is in use."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from trace_assets.cli.checkup.services import battery_finding
from trace_assets.cli.main import main
from trace_assets.definitions import build
from trace_assets.orchestration import configuration as checks
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.records import EnvironmentCheck, SandboxCheck
from trace_assets.sandbox.selftest.attack import load_attacks
from trace_assets.sandbox.selftest.runner import battery_size
from trace_assets.store.warehouse import Warehouse
from trace_assets.study import Study
from trace_assets.workflows import sandbox_selftest as stage
from trace_assets.workflows.sandbox_selftest import Present, judge_battery

FEW = ("fork_bomb", "infinite_loop", "repeated_key", "host_file")
NOW = Present("v1", "docker")


@pytest.fixture(autouse=True)
def _own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program tells its children of its settings by variables: not those of the next test."""
    for name in ("TRACE_SET", "TRACE_CONFIG", "DAGSTER_HOME"):
        monkeypatch.setenv(name, "")


def trace(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["trace", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    return exit.value.code if isinstance(exit.value.code, int) else 0


def row(attack: str = "x", status: str = "pass", **fields: object) -> SandboxCheck:
    given: dict[str, object] = {
        "attack": attack,
        "family": "escape",
        "tries": "to get out",
        "status": status,
        "expected": "contained",
        "outcome": "contained" if status == "pass" else "escaped",
        "isolation_level": "docker",
        "sandbox_version": "v1",
        "checked_at": datetime(2026, 1, 2, tzinfo=UTC),
    }
    return SandboxCheck.model_validate({**given, **fields})


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.open(tmp_path / "home", overrides=[])


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A battery of four attacks, without scenarios: the whole of it is played by other tests."""
    chosen = tuple(one for one in load_attacks() if one.name in FEW)
    monkeypatch.setattr("trace_assets.sandbox.selftest.runner.load_attacks", lambda: chosen)
    monkeypatch.setattr("trace_assets.sandbox.selftest.runner.SCENARIOS", ())
    assert battery_size() == len(FEW) + 1  # and what is left


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Present], None]]:
    """Say which sandbox is in use."""

    def say(present: Present) -> None:
        for module in (stage, checks):
            monkeypatch.setattr(module, "present_sandbox", lambda _: present)

    yield say


@pytest.mark.parametrize(
    ("rows", "present", "passed", "words"),
    [
        ([], NOW, None, "never attacked here"),
        ([row()], NOW, True, "docker sandbox v1 held 1 attacks of 1."),
        ([row(), row("y", "fail")], NOW, False, "did not hold 1 attacks of 2: y"),
        ([row(), row("y", "skip")], NOW, True, "1 skipped"),
        ([row("y", "skip")], NOW, False, "did not hold"),
        (
            [row()],
            Present("v2", "docker"),
            None,
            "stale: the battery of 2026-01-02 attacked docker sandbox v1",
        ),
        ([row()], Present("v1", "bubblewrap"), None, "stale"),
        ([row("y", "fail")], Present("v2", "docker"), None, "stale"),
        ([row()], Present(problem="no daemon"), None, "cannot be told.*no daemon"),
        ([row(), row("y", "fail", isolation_level="bubblewrap")], NOW, True, "held 1 attacks of 1"),
    ],
)
def test_a_result_counts_for_the_sandbox_it_was_made_with(
    rows: list[SandboxCheck], present: Present, passed: bool | None, words: str
) -> None:
    import re

    judged = judge_battery(rows, present)
    assert judged.passed is passed and re.search(words, judged.detail), judged


def test_the_doctor_tells_what_the_battery_said(study: Study, use: Callable[[Present], None]) -> None:
    use(NOW)
    never = battery_finding(study)
    assert (never.state, never.fix) == ("degraded", "trace doctor --sandbox")
    study.store.write([row()], SandboxCheck, "docker")
    assert battery_finding(study).state == "ok"
    use(Present("v2", "docker"))
    assert battery_finding(study).state == "degraded" and "stale" in battery_finding(study).detail
    study.store.write([row(status="fail")], SandboxCheck, "docker")
    use(NOW)
    assert battery_finding(study).state == "missing" and "sandbox_attacks" in battery_finding(study).fix


def latest(instance: dg.DagsterInstance) -> tuple[bool, str]:
    key = dg.AssetCheckKey(checks.SANDBOX, stage.CHECK)
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
    assert record.event is not None and record.event.dagster_event is not None
    evaluation = record.event.dagster_event.asset_check_evaluation_data
    return evaluation.passed, evaluation.description or ""


def test_the_check_is_in_dagsters_history_and_turns_stale(
    study: Study, use: Callable[[Present], None]
) -> None:
    study.store.write([row()], SandboxCheck, "docker")
    with prepare_instance(study.home) as instance:
        assert not checks.report_when_stale(instance, study, NOW)  # nothing was ever reported
        assert checks.report_battery(instance, study, NOW).passed
        assert latest(instance)[0]
        assert not checks.report_when_stale(instance, study, NOW)
        other = Present("v2", "docker")
        assert checks.report_when_stale(instance, study, other)
        passed, words = latest(instance)
        assert not passed and words.startswith("not run: stale")
        assert not checks.report_when_stale(instance, study, other)  # told once
        checks.report_battery(instance, study, NOW)
        audited = {"environment_id": "e", "capability_id": "c", "check_id": "x", "level": "static"}
        rest = {"status": "pass", "severity": "info", "sandbox_version": "v2", "isolation_level": "docker"}
        study.store.write([EnvironmentCheck.model_validate(audited | rest)], EnvironmentCheck, "c")
        checks.tell_when_stale(instance, study, "c")
        assert not latest(instance)[0]
    definitions = build(study)
    node = definitions.resolve_asset_graph().get(checks.SANDBOX)
    assert stage.CHECK in {key.name for key in node.check_keys}


@pytest.mark.parametrize(("version", "passed"), [("v1", True), ("v2", False)])
def test_the_check_can_be_run_from_the_page(
    study: Study, use: Callable[[Present], None], version: str, passed: bool
) -> None:
    study.store.write([row()], SandboxCheck, "docker")
    use(Present(version, "docker"))
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize(
            [checks.sandbox_battery, *(build(study).assets or [])],
            selection=dg.AssetSelection.checks(dg.AssetCheckKey(checks.SANDBOX, stage.CHECK)),
            instance=instance,
            resources={"study": study},
        )
        (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed is passed


@pytest.mark.docker
@pytest.mark.ci
def test_attacks_are_played_printed_and_stored(
    few: None,
    docker_daemon: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert trace(monkeypatch, "doctor", "--sandbox", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["passed"] and told["counts"] == {"pass": len(FEW) + 1}
    assert {one["attack"] for one in told["attacks"]} == {*FEW, "nothing_is_left"}
    study = Study.open(overrides=[])
    with Warehouse(study.home) as warehouse:
        rows = warehouse.ready("sandbox_attacks", status="any")
        assert set(rows["attack"]) > set(FEW) and set(rows["sandbox_version"]) == {told["sandbox_version"]}
        assert warehouse.ready("sandbox_attacks").is_empty()
    with prepare_instance(study.home) as instance:
        assert latest(instance) == (True, told["detail"])
    assert battery_finding(study).state == "ok"
    assert (
        battery_finding(Study.open(study.home.path, overrides=["sandbox.memory_mb=300"])).state == "degraded"
    )


def test_what_is_not_held_is_exit_code_1(
    few: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without isolation a file of the host is read: the battery says so, and leaves the harmful ones out."""
    arguments = ("doctor", "--sandbox", "--set", "sandbox.backend=unsafe-subprocess")
    with pytest.warns(UserWarning, match="isolates nothing"):
        assert trace(monkeypatch, *arguments) == 1
    shown = capsys.readouterr().out
    assert "none sandbox" in shown and "did not hold 1 attacks of 5, 2 skipped: host_file" in shown
    assert "would do what it tries" in " ".join(shown.split())


def test_no_sandbox_is_exit_code_3(
    no_sandbox: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(monkeypatch, "doctor", "--sandbox") == 3
    assert "no Docker daemon answers" in " ".join(capsys.readouterr().err.split())
