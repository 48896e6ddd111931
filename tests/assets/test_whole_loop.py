"""The job for the UI runs the project's own sync, says how it went, and stops with its run."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from trace_assets.orchestration import jobs as module
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.jobs import _reason, sync_process, whole_loop
from trace_assets.study import Study

EASY = ["config/targets", "config/selection"]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("TRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", "")
    return Study.open(tmp_path / "home", overrides=[])


def run(study: Study, instance: dg.DagsterInstance, select: list[str]) -> dg.ExecuteInProcessResult:
    return whole_loop.execute_in_process(
        run_config={"ops": {"bring_up_to_date": {"config": {"select": select}}}},
        instance=instance,
        resources={"study": study},
        raise_on_error=False,
    )


def failure(result: dg.ExecuteInProcessResult) -> str:
    event = next(event for event in result.all_events if event.is_step_failure)
    raised = event.step_failure_data.user_failure_data
    assert raised is not None and raised.description is not None
    return raised.description


@pytest.mark.ci
def test_it_makes_what_is_due_and_then_nothing(study: Study) -> None:
    with prepare_instance(study.home) as instance:
        assert run(study, instance, EASY).success
        for name in EASY:
            assert instance.fetch_materializations(dg.AssetKey(name.split("/")), limit=2).records
        said = [entry.user_message for entry in instance.all_logs(instance.get_runs()[-1].run_id)]
        again = run(study, instance, EASY)
        assert again.success
        assert len(instance.fetch_materializations(dg.AssetKey(["config", "targets"]), limit=9).records) == 1
    assert any("config/targets" in (line or "") for line in said)


@pytest.mark.ci
def test_it_says_which_asset_is_not_known(study: Study) -> None:
    with prepare_instance(study.home) as instance:
        result = run(study, instance, ["no_such_asset"])
        assert not result.success
        assert "exit code 2" in failure(result)


def test_it_refuses_a_page_whose_history_is_elsewhere(study: Study) -> None:
    with dg.DagsterInstance.ephemeral() as elsewhere:
        result = run(study, elsewhere, EASY)
    assert not result.success and "trace ui" in failure(result)


def test_the_sync_ends_with_its_run(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.5)
    mark = tmp_path / "children"
    code = (
        "import subprocess, sys, time, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid)); time.sleep(600)"
    )
    with pytest.raises(KeyboardInterrupt), sync_process([sys.executable, "-c", code], study) as process:
        for _ in range(12_000):
            if mark.exists() and mark.read_text():
                break
            time.sleep(0.05)
        raise KeyboardInterrupt
    assert process.poll() == -signal.SIGKILL
    child = int(mark.read_text())
    for _ in range(12_000):
        try:
            if Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except (FileNotFoundError, ProcessLookupError):  # before it was opened, or while it was read
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the grandchild outlived the run")


def test_reasons_are_sentences() -> None:
    result = {"failed": {"adapter[x]": "no GPU"}, "failed_checks": {}, "held_back": ["routing"]}
    assert _reason(result, 3, "") == "failed: adapter[x]: no GPU. held back: routing"
    assert "exit code 2" in _reason({}, 2, "")
