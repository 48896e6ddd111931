"""The pool of local processes and that of a Ray cluster: one interface, the same tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from calls import a_lock, answer, fail, wait_for

from trace_assets.errors import Unavailable
from trace_assets.orchestration.worker_pool import SANDBOX, Needs, Pool, WorkerDied, WorkerPool, needs_of
from trace_assets.settings.operation import Cluster

Open = Callable[[int], Pool]


def until(condition: Callable[[], bool], seconds: float = 300) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module", params=["local", pytest.param("ray", marks=pytest.mark.slow)])
def open_pool(request: pytest.FixtureRequest) -> Iterator[Open]:
    """How to open a pool of a width."""
    if request.param == "local":
        yield WorkerPool
        return
    cluster = request.getfixturevalue("ray_cluster")
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    yield lambda width: RayPool(Cluster(engine="ray", address=cluster.address), width)


def test_answers_and_errors_come_back_to_the_call_that_asked(open_pool: Open) -> None:
    with open_pool(2) as pool:
        assert pool.width == 2
        calls = [pool.submit(answer, {"n": n}) for n in range(6)]
        failed = pool.submit(fail, "no good")
        unsent = pool.submit(a_lock)
        assert [call.result(600) for call in calls] == [{"n": n} for n in range(6)]
        with pytest.raises(ValueError, match="no good"):
            failed.result(600)
        with pytest.raises(RuntimeError, match="cannot be sent"):
            unsent.result(600)
        assert pool.submit(answer, 1).result(600) == 1  # neither has done the pool any harm


def test_the_death_of_one_worker_fails_its_own_call_only(open_pool: Open, tmp_path: Path) -> None:
    with open_pool(2) as pool:
        calls: dict[str, Future[int]] = {name: pool.submit(wait_for, tmp_path, name) for name in "ab"}
        assert until(lambda: len([one for one in tmp_path.glob("*.pid") if one.read_text()]) == 2)
        os.kill(int((tmp_path / "a.pid").read_text()), signal.SIGKILL)
        assert isinstance(calls["a"].exception(600), WorkerDied)
        assert not calls["b"].done()
        (tmp_path / "go").touch()
        assert calls["b"].result(600) == int((tmp_path / "b.pid").read_text())
        assert pool.submit(wait_for, tmp_path, "c").result(600) not in (os.getpid(), 0)  # there is a new one


def test_no_more_calls_are_under_way_than_the_pool_is_wide(open_pool: Open, tmp_path: Path) -> None:
    with open_pool(1) as pool:
        calls = [pool.submit(wait_for, tmp_path, str(n)) for n in range(3)]
        assert until(lambda: len(list(tmp_path.glob("*.pid"))) == 1)
        time.sleep(0.5)
        assert len(list(tmp_path.glob("*.pid"))) == 1
        (tmp_path / "go").touch()
        wait(calls, 600)
        assert len(list(tmp_path.glob("*.pid"))) == 3


def test_a_shut_down_pool_leaves_nobody_at_work_and_takes_no_more(open_pool: Open, tmp_path: Path) -> None:
    pool = open_pool(1)
    call = pool.submit(wait_for, tmp_path, "a")
    waiting = pool.submit(wait_for, tmp_path, "b")
    assert until(lambda: (tmp_path / "a.pid").exists() or (tmp_path / "b.pid").exists())
    pool.shutdown(5.0)
    assert isinstance(call.exception(600), WorkerDied) and isinstance(waiting.exception(600), WorkerDied)
    pids = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
    if isinstance(pool, WorkerPool):
        assert not any(is_running(pid) for pid in pids)
    else:  # the worker belongs to the cluster; what it worked on has been interrupted
        assert until(lambda: any(tmp_path.glob("*.interrupted")) or not any(map(is_running, pids)), 60)
    with pytest.raises(WorkerDied):
        pool.submit(answer, 1).result(600)


@pytest.mark.slow
def test_what_no_node_has_is_said_and_not_waited_for(ray_cluster: object) -> None:
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    with RayPool(Cluster(address=ray_cluster.address)) as pool:  # type: ignore[attr-defined]
        assert pool.width == 2  # the cores of the cluster
        with pytest.raises(Unavailable, match=r"resource `sandbox`.*trace cluster check"):
            pool.submit(answer, 1, needs=Needs(1, 0, 1)).result(600)
        # Without any GPU in the cluster work is done on processors, as on one machine.
        assert pool.submit(answer, 1, needs=Needs(1, 4, 0)).result(600) == 1


@pytest.mark.slow
def test_calls_sent_to_a_node_that_is_lost_before_they_begin_are_made_on_others(
    ray_cluster: Any, tmp_path: Path
) -> None:
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    cluster, offers = (
        ray_cluster,
        {"num_cpus": 2, "object_store_memory": 80 * 2**20, "resources": {SANDBOX: 2}},
    )
    stopped, other = cluster.add_node(**offers), cluster.add_node(**offers)
    cluster.wait_for_nodes()
    raylet = stopped.all_processes["raylet"][0].process
    try:
        with RayPool(Cluster(address=cluster.address)) as pool:
            for last in (4, 6):  # the second time there are connections to both
                calls = [pool.submit(answer, n, needs=Needs(1, 0, 1)) for n in range(last)]
                assert [call.result(100) for call in calls] == list(range(last))
                os.kill(raylet.pid, signal.SIGSTOP)  # its connections stay open, and nobody answers
    finally:
        os.kill(raylet.pid, signal.SIGCONT)
        for node in (stopped, other):
            cluster.remove_node(node)


@pytest.mark.slow
def test_an_address_where_nobody_answers_is_one_sentence() -> None:
    pytest.importorskip("ray", reason="the extra `cluster` (Ray) is not installed")
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    for address in ("nonsense", "127.0.0.1:1"):
        with pytest.raises(Unavailable, match=rf"no Ray cluster answers at '{address}'.*ray start"):
            RayPool(Cluster(engine="ray", address=address))


@pytest.mark.ci
def test_without_the_setting_nothing_of_ray_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from trace_assets.cli.main import app; import trace_assets.definitions; "
        "from trace_assets.orchestration.sync import open_pool; from trace_assets.study import Study; "
        "import trace_assets.cli.progress; pool = open_pool(Study.open()); pool.shutdown(); "
        "print(type(pool).__name__, [name for name in sys.modules if name.partition('.')[0] == 'ray'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TRACE_HOME": str(tmp_path / "home")},
        check=True,
    )
    assert done.stdout.strip() == "WorkerPool []"


def test_needs_follow_what_is_declared_and_set(tmp_path: Path) -> None:
    from trace_assets.definitions import pipeline
    from trace_assets.settings import load_settings
    from trace_assets.store import Home
    from trace_assets.study import Study

    assets = {one.name: one for one in pipeline()}
    study = Study(Home.open(tmp_path), load_settings(None, ["training.processes=4"], {}))
    assert needs_of(assets["labels"], study) == Needs(1, 0, 0)
    assert needs_of(assets["adapter"], study) == Needs(1, 4, 1)
    assert needs_of(assets["environment_audit"], study) == Needs(1, 4, 1)
    served = Study(study.home, load_settings(None, ["rollouts.engine=openai", "training.processes=4"], {}))
    assert {name for name in assets if needs_of(assets[name], served) != needs_of(assets[name], study)} == {
        "environment_audit",
        "repairs",
        "trajectories",
    }
    assert needs_of(assets["environment_audit"], served) == Needs(1, 0, 1)
