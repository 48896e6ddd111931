"""Worker processes: they end with their parent at once, and one's death is no other's concern."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from tests.quick import one_of_each
from trace_assets.orchestration.worker_pool import WorkerDied, WorkerPool

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from killed_processes import answer, fail, own_pid, pid_and_wait  # noqa: E402

PROGRAM = """
import sys
from pathlib import Path
import killed_processes as here

if __name__ == "__main__":
    folder, start, work = Path(sys.argv[1]), sys.argv[2], getattr(here, sys.argv[3])
    arguments = (folder, 3600.0) if work is here.pid_and_wait else (folder,)
    if start == "pool":
        from trace_assets.orchestration.worker_pool import WorkerPool
        pool = WorkerPool(2)
        for _ in range(2):
            pool.submit(work, *arguments)
    else:
        import multiprocessing
        context = multiprocessing.get_context(start)
        children = [context.Process(target=here.with_lifeline, args=(work, *arguments)) for _ in range(2)]
        for child in children:
            child.start()
    import time
    time.sleep(3600)
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def until(condition, seconds: float) -> bool:  # type: ignore[no-untyped-def]
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.parametrize("start", one_of_each(["pool", "forkserver", "spawn"]))
@pytest.mark.parametrize("work", one_of_each(["spin_in_one_call", "pid_and_wait"]))
def test_workers_end_with_a_killed_parent(tmp_path: Path, start: str, work: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    parent = subprocess.Popen(
        [sys.executable, str(program), str(tmp_path), start, work],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert until(lambda: len(list(tmp_path.glob("*.pid"))) == 2, 600)
        pids = [int(file.stem) for file in tmp_path.glob("*.pid")]
        assert all(is_running(pid) for pid in pids)
        parent.kill()  # the parent alone: what it started must notice by itself
        assert until(lambda: not any(is_running(pid) for pid in pids), 300), "orphans are still at work"
    finally:
        parent.kill()
        parent.wait()
        for file in tmp_path.glob("*.pid"):
            if is_running(int(file.stem)):
                os.kill(int(file.stem), signal.SIGKILL)


def test_answers_errors_and_reuse() -> None:
    with WorkerPool(1) as pool:
        assert pool.submit(answer, {"a": 1}).result(600) == {"a": 1}
        first = pool.submit(own_pid).result(600)
        with pytest.raises(ValueError, match="no good"):
            pool.submit(fail, "no good").result(600)
        assert pool.submit(own_pid).result(600) == first != os.getpid()
        with pytest.raises(RuntimeError, match="cannot be sent"):
            pool.submit(answer, 1).result(600) and pool.submit(eval, "lambda: 1").result(600)
    assert not is_running(first)


def test_the_death_of_one_worker_fails_its_own_call_only(tmp_path: Path) -> None:
    with WorkerPool(2) as pool:
        calls: list[Future[int]] = [pool.submit(pid_and_wait, tmp_path, 600.0) for _ in range(2)]
        assert until(lambda: len(list(tmp_path.glob("*.pid"))) == 2, 600)
        victim = int(next(tmp_path.glob("*.pid")).stem)
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "go").touch()
        wait(calls, 600)
        failed = [call.exception() for call in calls if call.exception() is not None]
        assert [type(error) for error in failed] == [WorkerDied] and "signal 9" in str(failed[0])
        assert victim not in [call.result() for call in calls if call.exception() is None]
        assert pool.submit(own_pid).result(600) != victim  # and there is a new one


def test_a_shut_down_crew_leaves_nobody_and_takes_no_more(tmp_path: Path) -> None:
    pool = WorkerPool(2)
    call = pool.submit(pid_and_wait, tmp_path, 600.0)
    assert until(lambda: any(tmp_path.glob("*.pid")), 600)
    began = time.monotonic()
    pool.shutdown(0.1)
    assert time.monotonic() - began < 300  # it does not wait for the call
    assert not any(is_running(int(file.stem)) for file in tmp_path.glob("*.pid"))
    assert isinstance(call.exception(600), WorkerDied)
    with pytest.raises(WorkerDied):
        pool.submit(own_pid).result(600)


def test_an_interrupt_while_the_workers_parent_loads_ends_nothing(tmp_path: Path) -> None:
    """It imports for seconds: Ctrl-C printed its traceback, and no worker could be started any more."""
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\npathlib.Path('loads').touch()\ntime.sleep(0.5)\n"
    )
    code = """
import os, pathlib, signal, time
from multiprocessing import forkserver
from trace_assets.orchestration.worker_pool import WorkerPool

if __name__ == "__main__":
    with WorkerPool(1, ("slow",)) as pool:
        pool.load_ahead()
        while not pathlib.Path("loads").exists():
            time.sleep(0.01)
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGINT)
        pid = pool.submit(os.getpid).result(60)
        call = pool.submit(time.sleep, 600)
        time.sleep(0.2)
        os.kill(pid, signal.SIGINT)  # of a worker it is heard
        print(type(call.exception(60)).__name__)
"""
    (tmp_path / "run.py").write_text(code)
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}:{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.stdout, done.stderr) == ("WorkerDied\n", "")
