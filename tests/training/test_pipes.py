import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import dagster as dg
import pytest

from tests.training.piped_asset import gone, materialize, runs, within
from trace_assets.errors import InputError
from trace_assets.orchestration.remote import process
from trace_assets.orchestration.remote.launcher import elsewhere
from trace_assets.orchestration.remote.process import ProcessLauncher
from trace_assets.records import TrainingPoint
from trace_assets.settings import Settings, Training
from trace_assets.store import Home
from trace_assets.study import Study

looks_into_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.mark.ci
def test_what_it_says_is_wrong_is_said_by_the_step() -> None:
    with pytest.raises(Exception, match="the target has no tasks; ask for more"):
        materialize({"name": "refused"})
    with pytest.raises(Exception, match="ended with code 7 and without a result"):
        materialize({"name": "dies"})
    with pytest.raises(Exception, match=r"/no/python cannot be started .* mend training.python"):
        materialize({"name": "dies"}, launcher=ProcessLauncher(["/no/python"]))


def test_a_rank_that_the_step_has_from_its_cluster_is_not_the_trainings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "1")  # by which a process of several knows that another one speaks
    with pytest.raises(Exception, match="the target has no tasks; ask for more"):
        materialize({"name": "refused"})


def test_several_processes_are_not_the_step_alone(tmp_path: Path) -> None:
    study = Study(Home.open(tmp_path), Settings(training=Training(processes=2)))
    with pytest.raises(InputError, match=r"training.processes is 2 .* set training.launcher"):
        elsewhere(study, dg.build_asset_context())


def test_other_training_code_than_the_steps_is_refused() -> None:
    with pytest.raises(InputError, match="has other training code than the one that asks"):
        process._train({"name": "words", "code": "older"}, lambda point: None)


@pytest.mark.slow
@looks_into_proc
def test_several_processes_speak_with_one_voice_and_end_together(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    request = {"name": "counts", "pids": str(pids), "processes": 2}
    assert materialize(request) == [{"world": "2", "rank": "0"}]
    assert len(pids.read_text().split()) == 4
    assert gone(pids, 0), "what a finished training had started went on"
    pids.unlink()
    with pytest.raises(Exception, match="ended with code 137 and without a result"):
        materialize(request | {"name": "hangs", "killed_rank": "1"})
    assert gone(pids, 0), "a process outlived the one that was killed"


@pytest.mark.ci
@looks_into_proc
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_killed_step_leaves_no_training_behind(project_root: Path, tmp_path: Path, processes: int) -> None:
    pids = tmp_path / "pids"
    request = {"name": "hangs", "pids": str(pids), "processes": processes}
    code = f"from tests.training.piped_asset import materialize; materialize({request!r})"
    step = subprocess.Popen([sys.executable, "-c", code], cwd=project_root, stderr=subprocess.DEVNULL)
    try:
        assert within(lambda: pids.exists() and len(pids.read_text().split()) == 2 * processes, 600, step)
        assert all(map(runs, map(int, pids.read_text().split())))
    finally:
        step.kill()
        step.wait()
    assert gone(pids), "a process of the training outlived the step"


@pytest.mark.train
@looks_into_proc
@pytest.mark.slow
def test_a_cancelled_training_ends_whole_and_goes_on_to_the_same_adapter(
    tmp_path: Path, base: Path, words: ModuleType
) -> None:
    pytest.importorskip("trl")
    from trace_assets.training.checkpoints import adapter_id

    folder, pids = tmp_path / "words", tmp_path / "pids"
    request = {"name": "words", "base": str(base), "folder": str(folder), "pids": str(pids)}

    def cancel(point: TrainingPoint) -> None:
        if point.iteration == 5:
            os.kill(os.getpid(), signal.SIGINT)  # as a cancelled run is told

    with pytest.raises((dg.DagsterExecutionInterruptedError, KeyboardInterrupt)):
        materialize({**request, "waits_at": 5}, cancel)
    assert gone(pids, 0), "a process of the training outlived the cancelled step"
    assert not folder.exists()
    told: list[TrainingPoint] = []
    assert materialize(request, told.append) == [{"episodes": 480, "recomputed": 9, "unconfirmed": 0}]
    assert gone(pids, 0), "what a finished training had started went on"
    assert told[0].iteration == 5, "it did not go on from the checkpoint"
    assert told[-1].iteration == 12

    def never(point: TrainingPoint) -> None:
        raise AssertionError("a finished run was made again")

    read, points = words.train(base, folder, on_point=never)
    assert (read.adapter_id, len(points)) == (adapter_id(folder), 12)
    here, _ = words.train(base, tmp_path / "here")
    assert here.adapter_id == read.adapter_id
