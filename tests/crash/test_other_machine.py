"""Two machines on one home: none takes the other's workers for dead; without a cluster one is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData

from trace_assets.cli import main
from trace_assets.errors import Unavailable
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.recovery import PROCESS_TAG, half_made, recover
from trace_assets.store import Home, presence
from trace_assets.store.locks import exclusive, holder
from trace_assets.store.presence import (
    CREW_VARIABLE,
    announce,
    dead_here,
    elsewhere,
    forget,
    forget_dead,
    is_alive,
    living,
    withdraw,
)
from trace_assets.system.machine import Machine, booted_at, this_machine

PROGRAM = Path(__file__).parent / "other_machine.py"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


@pytest.fixture
def others() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(
    stack: ExitStack, home: Home, *said: str, what: str = "stay", crew: str = ""
) -> tuple[str, subprocess.Popen[str]]:
    """Start a process of another machine; return the first line that it prints, and the process."""
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, str(PROGRAM), str(home.path), what, *said],
            env={**os.environ, CREW_VARIABLE: crew},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    return process.stdout.readline().strip(), process


def test_a_worker_of_another_boot_is_never_dead_by_what_is_seen_here(home: Home, others: ExitStack) -> None:
    name, process = start(others, home)
    for _ in range(2):  # at work, then ended without a word: from here the two look alike
        assert is_alive(home, name) and name in living(home)
        assert dead_here(home) == [] and forget_dead(home) == []
        (seen,) = elsewhere(home)
        assert (seen.name, seen.pid, seen.machine.host) == (name, process.pid, "node-b")
        process.kill()
        process.wait()
    forget(home, name)  # its machine, or the cluster, has said so
    assert not is_alive(home, name) and elsewhere(home) == [] and living(home) == {}


def test_a_dead_worker_of_this_boot_is_seen_to_be_dead(home: Home, others: ExitStack) -> None:
    name, process = start(others, home, this_machine().boot, "another-container")  # shares the kernel
    assert is_alive(home, name) and elsewhere(home) == []
    process.kill()
    process.wait()
    assert not is_alive(home, name) and forget_dead(home) == [name]


def test_runs_and_half_made_files_of_another_machine_are_left_alone(home: Home, others: ExitStack) -> None:
    name, process = start(others, home)
    (home.tables / "tasks").mkdir(parents=True, exist_ok=True)
    half = home.tables / "tasks" / ".b.parquet.partial"
    half.write_text("half")

    @dg.op
    def sleep() -> None: ...

    @dg.job
    def nap() -> None:
        sleep()

    with prepare_instance(home) as instance:
        tagged = instance.create_run_for_job(
            nap, tags={PROCESS_TAG: name}, status=dg.DagsterRunStatus.STARTED
        )
        # As the page's run launcher does it, with the number of a process that is not there.
        untagged = instance.create_run_for_job(nap, status=dg.DagsterRunStatus.STARTED)
        instance.report_engine_event(
            "started", untagged, engine_event_data=EngineEventData({"pid": dg.MetadataValue.text("4000000")})
        )
        silent = pytest.MonkeyPatch()
        silent.setattr("trace_assets.orchestration.recovery._SILENCE", -1.0)
        others.callback(silent.undo)
        assert not recover(instance, home) and half.exists() and half_made(home) == []
        process.kill()
        process.wait()
        assert not recover(instance, home), "nobody here can tell"
        forget(home, name)
        found = recover(instance, home)
        assert set(found.runs) == {tagged.run_id, untagged.run_id}


def test_two_machines_on_one_home_are_refused_in_one_sentence(
    home: Home, others: ExitStack, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, process = start(others, home)
    with pytest.raises(Unavailable) as refused:
        announce(home)
    said = str(refused.value)
    for words in (str(home.path), "node-b", str(process.pid), "[cluster]", "TRACE_HOME"):
        assert words in said
    assert set(living(home)) == {name}, "who was refused leaves nothing behind"
    monkeypatch.setenv("TRACE_HOME", str(home.path))
    monkeypatch.setattr(sys, "argv", ["trace", "sync"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert "another machine works on" in " ".join(capsys.readouterr().err.split())
    for _ in range(2):  # somebody else may have taken note of it first
        forget(home, name)
    assert announce(home) in living(home)


def test_a_process_of_another_machine_that_gives_no_sign_of_life_keeps_nobody_out(
    home: Home, others: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SILENT_SECONDS", 3.0)
    asleep, process = start(others, home)
    os.kill(process.pid, signal.SIGSTOP)  # a machine that was put to sleep; killed, it would look the same
    own = announce(home)
    assert set(living(home)) == {own} and elsewhere(home) == []
    # Awake again, it is refused as long as another is at work, and puts nothing in place.
    assert process.stdin is not None and process.stdout is not None
    os.kill(process.pid, signal.SIGCONT)
    print("go on", file=process.stdin, flush=True)
    assert "took it for dead" in process.stdout.readline()
    print("begin anew", file=process.stdin, flush=True)
    assert process.stdout.readline().startswith("refused: ")
    withdraw()
    print("begin anew", file=process.stdin, flush=True)
    again = process.stdout.readline().strip()
    assert set(living(home)) == {again} != {asleep}


def test_who_ends_is_not_there_any_more_and_who_is_killed_was_there(home: Home, others: ExitStack) -> None:
    _, process = start(others, home, what="come")
    assert process.wait() == 0 and living(home) == {}
    name, process = start(others, home)
    process.kill()
    process.wait()
    assert set(living(home)) == {name}


def test_the_second_of_two_is_the_one_that_is_refused(home: Home, others: ExitStack) -> None:
    own = announce(home)
    said, process = start(others, home, what="come")
    assert said.startswith("refused: ") and f"process {os.getpid()} on {this_machine().host}" in said
    assert process.wait() == 3 and set(living(home)) == {own}


@pytest.mark.ci
@pytest.mark.parametrize(("crew", "refused"), [("study-1", False), ("study-2", True), ("", True)])
def test_nodes_of_one_crew_work_side_by_side(home: Home, others: ExitStack, crew: str, refused: bool) -> None:
    name, _ = start(others, home, crew="study-1")
    said, _ = start(others, home, "a-third-boot", "node-c", what="come", crew=crew)
    assert said.startswith("refused: ") == refused
    assert is_alive(home, name)


def test_who_joins_a_crew_is_one_of_it(
    home: Home, others: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = announce(home)
    monkeypatch.setenv(CREW_VARIABLE, "study-1")
    joined = announce(home)
    assert joined == announce(home) != alone and set(living(home)) == {joined}
    said, _ = start(others, home, crew="study-1")
    assert not said.startswith("refused")
    monkeypatch.delenv(CREW_VARIABLE)
    with pytest.raises(Unavailable):
        announce(home)  # the other is there still, of a crew that this process has left
    forget(home, said)
    again = announce(home)
    assert set(living(home)) == {again}
    withdraw()
    assert living(home) == {} and announce(home) in living(home)


def test_after_a_restart_this_machine_knows_its_own_dead(home: Home, others: ExitStack) -> None:
    here = this_machine()
    if not here.installation:
        pytest.skip("this system does not say which installation it is")
    before = str(time.time() - booted_at() + 60)
    old, process = start(others, home, "the-boot-before", here.host, before)
    # Under the same name and from the same image, but begun after this machine was switched on: another one.
    clone, _ = start(others, home, "of-a-clone", here.host)
    process.kill()
    process.wait()
    assert dead_here(home) == [old]
    assert not is_alive(home, old) and is_alive(home, clone)


def test_machines_tell_each_other_apart() -> None:
    one = Machine("a", "1", "x")
    assert one.shares_kernel(Machine("b", "1", "y")) and not one.shares_kernel(Machine("a", "2", "x"))
    assert Machine("a").shares_kernel(Machine("a")) and not Machine("a").shares_kernel(Machine("b"))
    assert not Machine("a").shares_kernel(one) and not one.shares_kernel(Machine("a"))
    later = Machine("a", "2", "x")
    assert one.ran_before(later, since=5.0, booted=6.0) and not one.ran_before(later, since=7.0, booted=6.0)
    assert not one.ran_before(Machine("b", "2", "x"), 5.0, 6.0)
    assert not one.ran_before(Machine("a", "2", "y"), 5.0, 6.0)
    assert not Machine("a", "1").ran_before(Machine("a", "2"), 5.0, 6.0), "nothing says that it is the same"


def test_what_an_earlier_version_left_is_judged_by_its_lock(home: Home) -> None:
    folder = home.path / "locks" / "processes"
    folder.mkdir(parents=True)
    (folder / "ab").write_text("4000000")
    (folder / "cd").write_text('{"pid": 1')
    assert elsewhere(home) == [] and sorted(forget_dead(home)) == ["ab", "cd"]


def test_files_of_processes_that_never_came_to_be_go_after_a_minute(home: Home) -> None:
    folder = home.path / "locks" / "processes"
    folder.mkdir(parents=True)
    names, now = (".young.new", ".old.new", ".held.new", ".other"), time.time()
    for name in names:
        (folder / name).touch()
        age = 40 if name == ".young.new" else 70
        os.utime(folder / name, (now - age, now - age))
    with exclusive(folder / ".held.new", "coming to be"):
        os.utime(folder / ".held.new", (now - 70, now - 70))
        assert forget_dead(home) == [] and living(home) == {}
    assert sorted(one.name for one in folder.iterdir()) == sorted({*names} - {".old.new"})


def test_a_process_says_what_it_is_and_when_it_came(home: Home, others: ExitStack) -> None:
    began = time.time()
    name, process = start(others, home, crew="study-1")
    (one,) = elsewhere(home)
    assert (one.name, one.pid, one.crew, one.node) == (name, process.pid, "study-1", "")
    assert (one.machine.host, one.machine.boot) == ("node-b", "another-boot")
    assert began - 1 <= one.since <= time.time() and began - 1 <= living(home)[name] <= time.time()
    shown = replace(one, since=0.0)
    assert str(shown) == f"process {process.pid} on node-b since 1970-01-01T00:00:00+00:00"
    whole = json.loads((home.path / "locks" / "processes" / name).read_text())
    for lost in ("pid", "host", "boot", "installation", "since", "crew", "node"):
        kept = {key: value for key, value in whole.items() if key != lost}
        (home.path / "locks" / "processes" / "ef").write_text(json.dumps(kept))
        assert [found.name for found in elsewhere(home)] == [name], lost


def test_a_lock_names_the_boot_of_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    with exclusive(path, "a test"):
        found = holder(path)
        assert found is not None and (found.boot, found.host) == (this_machine().boot, this_machine().host)
    path.write_text(json.dumps({"pid": 1, "host": "h", "since": "s", "what": "w"}))  # of an earlier version
    assert str(holder(path)) == "w, process 1 on h since s"
