"""Thirty trials a fault, end to end: what finished is kept, what broke is a fault, a second run plays it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.quick import one_of_each
from tests.rollouts.library_server import MODEL, LibraryServer
from trace_assets.errors import Unavailable
from trace_assets.policies.openai_server import OpenAIPolicy
from trace_assets.records import Split, Trajectory
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import Journal, run_rollouts
from trace_assets.store.manifest import MANIFEST
from trace_assets.system.machine import free_port
from trace_assets.targets.process.target import ProcessConfig, ProcessTarget
from trace_assets.targets.template import write_template

N = 30
LIMITS: dict[Split, int] = {"discovery": N}
AFFLICTED = frozenset(range(1, N, 3))
"""Ten of thirty: below the share at which a run is given up."""
IS_BROKEN = '(Path(__file__).parent / "broken").exists() and int(_Now.task["loan"][1:]) % 3 == 1'

Played = list[Trajectory]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessTarget]:
    folder = tmp_path_factory.mktemp("library")
    write_template("library", folder)
    config = ProcessConfig(
        module=folder / "target.py", python=Path(sys.executable), processes=6, limits=LIMITS
    )
    target = ProcessTarget(config)
    yield target
    target.close()


def play(
    target: ProcessTarget, url: str, journal: Path, *, retries: int = 0, timeout: float = 60.0, turns: int = 6
) -> Played:
    trials = [Trial(task) for task in target.tasks("discovery")]
    assert len(trials) == N
    policy = OpenAIPolicy(url, MODEL, retries=retries, timeout_seconds=timeout)
    return run_rollouts(target, trials, policy, max_turns=turns, concurrency=6, journal=Journal(journal))


def loan(trajectory: Trajectory) -> int:
    return int(trajectory.task_id.partition("/")[2])


def assert_sound(played: Played, fault: str, broken: frozenset[int] = AFFLICTED) -> None:
    """All are there, exactly the afflicted broke, and nothing that broke has a reward."""
    assert sorted(map(loan, played)) == list(range(N))
    assert len({one.trajectory_id for one in played}) == N
    assert {loan(one): one.fault for one in played if one.fault} == dict.fromkeys(broken, fault)
    for one in played:
        if one.fault:
            assert (one.success, one.reward, one.checks) == (None, None, ()) and one.error
        else:
            assert (one.success, one.reward) == (True, 1.0)


def assert_stored(journal: Path, played: Played) -> None:
    kept = Journal(journal).load()
    assert {name: one.fault for name, one in kept.items()} == {one.trajectory_id: one.fault for one in played}


@pytest.mark.parametrize(
    ("fault", "says"),
    one_of_each(
        [
            ("hang", "cannot be reached"),
            ("drip", "no whole answer in 4 s"),
            ("hang_up", "cannot be reached"),
            ("half_body", "cannot be reached"),
            ("half_json", "not a chat completion"),
            ("half_stream", "not a chat completion"),
            ("html", "not a chat completion"),
            ("no_choice", "without a choice"),
            ("error_500", "HTTP 500"),
            ("storm", "HTTP 429"),
            ("other_model", "answered as 'somebody-else' where 'librarian' was asked for"),
        ],
        lambda case: case[1].partition(" ")[0],
    ),
)
def test_what_a_server_breaks_is_a_fault_and_is_played_again(
    library: ProcessTarget, tmp_path: Path, fault: str, says: str
) -> None:
    with LibraryServer(fault, AFFLICTED, hang_seconds=8.0) as server:
        # What is well answers in milliseconds, on a machine that is busy in tenths of a second.
        played = play(library, server.url, tmp_path, timeout=4.0 if fault in ("hang", "drip") else 60.0)
        assert_sound(played, "infrastructure")
        assert all(says in str(one.error) for one in played if one.fault)
        assert_stored(tmp_path, played)
        server.fault, before = "", Counter(server.asked)
        again = play(library, server.url, tmp_path)
        assert set(server.asked - before) == AFFLICTED  # nobody else was asked a second time
    assert_sound(again, "", frozenset())
    assert_stored(tmp_path, again)


@pytest.mark.parametrize(
    ("fault", "stop"),
    [
        ("cut_call", "agent_error"),
        ("deep_call", "agent_error"),
        ("cut_call_length", "context_overflow"),
        ("overflow", "context_overflow"),
    ],
)
def test_what_the_model_breaks_is_its_own_failure_and_final(
    library: ProcessTarget, tmp_path: Path, fault: str, stop: str
) -> None:
    with LibraryServer(fault, AFFLICTED) as server:
        played = play(library, server.url, tmp_path)
        assert {loan(one): one.stop for one in played if not one.success} == dict.fromkeys(AFFLICTED, stop)
        for one in played:
            assert one.fault is None
            assert [check.name for check in one.checks if check.kind == "protocol"] == (
                ["usable_reply"] if loan(one) in AFFLICTED else []
            )
        before = Counter(server.asked)
        assert play(library, server.url, tmp_path) == played
        assert server.asked == before


BREAKS = {
    "the target's process dies": ("import os; os._exit(9)", "environment", "ended in step()"),
    "the user's server is gone": (
        'error = ConnectionError("refused"); error.fault = "user"; raise error',
        "user_simulator",
        "the simulated user of target 'library' failed",
    ),
    "the target's server is gone": (
        'error = ConnectionError("refused"); error.fault = "infrastructure"; raise error',
        "infrastructure",
        "cannot go on",
    ),
    "the user calls tools for ever": ("while True: _do('get_loan', {})", "environment", "did not answer"),
}


@pytest.mark.parametrize("case", one_of_each(BREAKS, then=2))
def test_what_the_target_breaks_is_a_fault_and_is_played_again(tmp_path: Path, case: str) -> None:
    line, fault, says = BREAKS[case]
    target = _edited(
        tmp_path,
        ("    _Now.turns += 1\n", f"    _Now.turns += 1\n    if {IS_BROKEN}:\n        {line}\n"),
        call_seconds=4.0 if "for ever" in case else 60.0,
    )
    (tmp_path / "broken").touch()
    try:
        with LibraryServer() as server:
            played = play(target, server.url, tmp_path / "journal")
            assert_sound(played, fault)
            assert all(says in str(one.error) for one in played if one.fault)
            (tmp_path / "broken").unlink()
            before = Counter(server.asked)
            again = play(target, server.url, tmp_path / "journal")
            assert set(server.asked - before) == AFFLICTED
        assert_sound(again, "", frozenset())
        assert_stored(tmp_path / "journal", again)
    finally:
        target.close()


@pytest.mark.ci
def test_a_user_that_never_stops_talking_is_cut_off_and_judged(tmp_path: Path) -> None:
    more = '{"messages": [{"role": "user", "content": "And then?"}], "done": False, "truncated": False}'
    target = _edited(tmp_path, ('{"messages": [], "done": True, "truncated": False}', more))
    try:
        with LibraryServer() as server:
            played = play(target, server.url, tmp_path / "journal", turns=5)
            assert max(server.asked.values()) == 5
    finally:
        target.close()
    assert {(one.fault, one.stop, one.success) for one in played} == {(None, "max_turns", True)}


def _edited(folder: Path, *edits: tuple[str, str], call_seconds: float = 60.0) -> ProcessTarget:
    write_template("library", folder)
    module = folder / "target.py"
    source = module.read_text(encoding="utf-8")
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    module.write_text(source, encoding="utf-8")
    return ProcessTarget(
        ProcessConfig(
            module=module, python=Path(sys.executable), processes=3, call_seconds=call_seconds, limits=LIMITS
        )
    )


@pytest.mark.ci
def test_a_storm_that_takes_everybody_ends_the_run_with_what_was_finished(
    library: ProcessTarget, tmp_path: Path
) -> None:
    calm = frozenset(range(8))
    with LibraryServer("storm", frozenset(range(N)) - calm) as server:
        with pytest.raises(Unavailable, match=r"broke in 'library'.*run again to resume with them kept"):
            play(library, server.url, tmp_path)
        kept = Journal(tmp_path).load()
        assert {loan(one) for one in kept.values() if one.fault is None} == calm
        assert {one.reward for one in kept.values() if one.fault} == {None}
        server.fault, before = "", Counter(server.asked)
        again = play(library, server.url, tmp_path)
        assert set(server.asked - before) == set(range(N)) - calm
    assert_sound(again, "", frozenset())


def serve(port: int, delay: float) -> subprocess.Popen[str]:
    """Start a server in a process of its own and wait until it answers."""
    script = Path(__file__).with_name("library_server.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(port), str(delay)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def wait_for_lines(folder: Path, number: int, what: bytes = b"\n") -> None:
    """Wait until that many trajectories are in a journal somewhere below a folder."""
    until = time.monotonic() + 600

    def lines() -> int:
        journals = (path for path in folder.rglob("*.jsonl") if path.name != MANIFEST)
        return sum(path.read_bytes().count(what) for path in journals)

    while lines() < number:
        assert time.monotonic() < until, f"{number} trials did not finish in time"
        time.sleep(0.01)


@pytest.mark.parametrize(("retries", "broken"), [(9, 0), (0, 6)])
@pytest.mark.ci
def test_a_server_that_is_killed_and_comes_back_in_the_middle(
    library: ProcessTarget, tmp_path: Path, retries: int, broken: int
) -> None:
    port = free_port()
    servers = [serve(port, 0.03)]

    def kill_and_restart() -> None:
        wait_for_lines(tmp_path, 14)
        servers[0].kill()
        servers[0].wait()
        if broken:
            wait_for_lines(tmp_path, broken, b'"fault":"infrastructure"')
        servers.append(serve(port, 0.03))

    killer = threading.Thread(target=kill_and_restart)
    killer.start()
    try:
        url = f"http://127.0.0.1:{port}/v1"
        try:
            played = play(library, url, tmp_path, retries=retries)
        except Unavailable as given_up:  # nobody sat it out: more than half may have broken by then
            assert not retries and "run again to resume" in str(given_up)
            played = sorted(Journal(tmp_path).load().values(), key=lambda one: one.trajectory_id)
        killer.join()
        faults = [one for one in played if one.fault]
        assert {one.fault for one in faults} <= {"infrastructure"}
        assert {one.reward for one in faults} <= {None}
        assert len(faults) >= broken and (broken or not faults)
        finished = {one.trajectory_id: one for one in played if not one.fault}
        assert len(finished) >= 14
        again = play(library, url, tmp_path)
        assert {one.trajectory_id: one for one in again if one.trajectory_id in finished} == finished
        assert_sound(again, "", frozenset())
        assert_stored(tmp_path, again)
    finally:
        for server in servers:
            server.kill()
            server.wait()


@pytest.mark.slow
def test_the_stage_is_killed_in_the_middle_and_run_again(tmp_path: Path) -> None:
    write_template("library", tmp_path / "library")
    home = tmp_path / "home"
    with LibraryServer(delay=0.05) as server:
        (tmp_path / "trace.toml").write_text(
            f'[targets]\nname = "library"\npath = "{tmp_path}/library/target.py"\n'
            f"processes = 3\ndiscovery_tasks = {N}\n"
            f'[rollouts]\nengine = "openai"\nmodel = "{MODEL}"\nbase_url = "{server.url}"\n'
            "trials = 2\nretries = 0\n",
            encoding="utf-8",
        )
        first = _trace(tmp_path, "sync", "--select", "tasks", "--select", "trajectories")
        wait_for_lines(home, 20)
        os.killpg(first.pid, 9)
        first.wait()
        assert first.returncode == -9
        (journal,) = {path.parent for path in home.rglob("*.jsonl") if path.parent.parent.name == "rollouts"}
        kept = Journal(journal).load()
        assert 20 <= len(kept) < 2 * N and {one.reward for one in kept.values()} == {1.0}

        # The rest, on a server that fails one loan in three: the stage stores all of it, faults as faults.
        server.delay, server.fault, server.afflicted = 0.0, "half_json", AFFLICTED
        time.sleep(0.2)  # what the dead run still had in the air
        server.asked.clear()
        finished = Counter(loan(one) for one in kept.values())
        second = _trace(tmp_path, "sync", "--select", "tasks", "--select", "trajectories")
        told = second.communicate(timeout=900)[0]
        assert set(server.asked) == {number for number in range(N) if finished[number] < 2}, told
        rows = _rows(tmp_path)
        assert len(rows) == 2 * N == len({row["trajectory_id"] for row in rows}), told
        broken = {row["trajectory_id"] for row in rows if row["fault"]}
        assert broken and all(row["reward"] is None for row in rows if row["fault"]), told
        assert {row["reward"] for row in rows if not row["fault"]} == {1.0}
        times = {row["trajectory_id"]: row["seconds"] for row in rows}
        assert {name: one.seconds for name, one in kept.items()} == {name: times[name] for name in kept}

        # Well again: once more plays what broke, and nothing else.
        server.fault = ""
        server.asked.clear()
        _trace(tmp_path, "sync", "--select", "trajectories", "--again", "trajectories").communicate(
            timeout=120
        )
        after = _rows(tmp_path)
    assert {row["trajectory_id"] for row in after} == set(times)
    assert {(row["fault"], row["reward"]) for row in after} == {(None, 1.0)}
    assert {row["trajectory_id"] for row in after if row["seconds"] != times[row["trajectory_id"]]} == broken
    assert not list(journal.glob("*"))


def _trace(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trace_assets", *words],
        cwd=folder,
        env={**os.environ, "TRACE_HOME": str(folder / "home"), "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _rows(folder: Path) -> list[dict[str, object]]:
    from trace_assets.store.files import Home
    from trace_assets.store.tables import Store
    from trace_assets.store.trajectories import read_trajectories

    store = Store(Home.open(folder / "home").tables)
    return [one.model_dump() for one in read_trajectories(store, "library")]
