import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from trace_assets.assets.pipes_process import ProcessLauncher
from trace_assets.assets.pipes_training import run_training
from trace_assets.records import TrainingPoint

HERE = Path(__file__).parent
PROGRAM = [sys.executable, str(HERE / "piped_words.py")]
POINT = Callable[[TrainingPoint], None]


def materialize(
    request: dict[str, Any], on_point: POINT = lambda point: None, command: list[str] = PROGRAM
) -> list[Any]:
    """Run one asset whose step trains in another process, and return what that said."""
    said: list[Any] = []

    @dg.asset
    def words(context: dg.AssetExecutionContext):  # type: ignore[no-untyped-def]
        said.append(run_training(context, ProcessLauncher(command), request, on_point))
        yield dg.MaterializeResult()

    dg.materialize([words], raise_on_error=True)
    return said


def gone(pids: Path, seconds: float = 15.0) -> bool:
    """Say whether none of the processes runs any more (one that is dead and not waited for does not)."""
    until = time.monotonic() + seconds
    while any(map(runs, map(int, pids.read_text().split()))):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_what_it_says_is_wrong_is_said_by_the_step() -> None:
    with pytest.raises(Exception, match="the target has no tasks; ask for more"):
        materialize({"name": "refused"})
    with pytest.raises(Exception, match="ended with code 7 and without a result"):
        materialize({"name": "dies"})
    with pytest.raises(Exception, match=r"/no/python cannot be started .* mend training.python"):
        materialize({"name": "dies"}, command=["/no/python"])


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_step_leaves_no_training_behind(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        f"import sys; sys.path.insert(0, {str(HERE)!r}); import test_pipes as t; "
        f"t.materialize({{'name': 'hangs', 'pids': {str(pids)!r}}})"
    )
    step = subprocess.Popen([sys.executable, "-c", code], cwd=HERE.parents[1], stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while not (pids.exists() and pids.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        assert all(map(runs, map(int, pids.read_text().split())))
    finally:
        step.kill()
        step.wait()
    assert gone(pids), "a process of the training outlived the step"


@pytest.mark.train
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_cancelled_training_ends_whole_and_goes_on_to_the_same_adapter(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    sys.path.insert(0, str(HERE))
    try:
        import word_target
    finally:
        sys.path.remove(str(HERE))
    from trace_assets.training.adapter import adapter_id
    from trace_assets.training.grpo import train_adapter

    base, folder, pids = word_target.write_base(tmp_path / "base"), tmp_path / "words", tmp_path / "pids"
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

    arguments: dict[str, Any] = {
        "name": "words",
        "kind": "capability",
        "capability_id": "words",
        "environment_id": None,
        "target": word_target.WordTarget(),
        "base_dir": base,
        "base_id": "base",
        "section": word_target.SECTION,
    }
    read, points = train_adapter(**arguments, folder=folder, on_point=never)
    assert (read.adapter_id, len(points)) == (adapter_id(folder), 12)
    here, _ = train_adapter(**arguments, folder=tmp_path / "here")
    assert here.adapter_id == read.adapter_id
