"""What a killed run leaves in Dagster's store and in the home is put right; the living are not touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from tests.quick import one_of_each
from trace_assets.orchestration import recovery as healing
from trace_assets.orchestration.instance import prepare_instance
from trace_assets.orchestration.recovery import recover
from trace_assets.records import LedgerEntry
from trace_assets.store import Home, Store
from trace_assets.store.item_locks import INTERRUPTED, due_items, mark_due, settle_recorded
from trace_assets.store.presence import announce, boots, living
from trace_assets.system.machine import booted_at

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import killed_run  # noqa: E402
from loop_process import session_of  # noqa: E402


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.open(tmp_path / "home")
    prepare_instance(home).dispose()
    text = (home.dagster / "dagster.yaml").read_text()
    lines = [
        "    default_limit: 1" if line.strip().startswith("default_limit") else line
        for line in text.splitlines()
    ]
    (home.dagster / "dagster.yaml").write_text("\n".join(lines) + "\n")  # one slot: the dead one's
    return home


def start(home: Home, kind: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, str(HERE / "killed_run.py"), str(home.path), kind],
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    give_up = time.monotonic() + 600
    while not (home.path / "at_work").exists():
        assert process.poll() is None and time.monotonic() < give_up, "the run never came to its work"
        time.sleep(0.01)
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    give_up = time.monotonic() + 600
    while session_of(process.pid):  # its worker, where it has one, goes by itself
        assert time.monotonic() < give_up, "its worker lives on"
        time.sleep(0.01)


@pytest.mark.parametrize("kind", one_of_each(["before", "pool"]))
def test_a_killed_run_is_failed_its_slot_freed_and_its_item_due(home: Home, kind: str) -> None:
    process = start(home, kind)
    with prepare_instance(home) as instance:
        assert not recover(instance, home), "it lives"
        assert len(living(home)) == 1 and due_items(home) == {}
        kill(process)
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.STARTED
        storage = instance.event_log_storage
        assert [slot.run_id for slot in storage.get_concurrency_info("gpu").claimed_slots] == [run.run_id]
        assert due_items(home) == {("weights", ""): INTERRUPTED}
        store = Store(home.tables)
        assert len(store.partitions(LedgerEntry)) == 1

        recovered = recover(instance, home)
        assert recovered.runs == (run.run_id,) and recovered.slots == (f"gpu: {run.run_id}",)
        assert str(recovered) == "1 interrupted run, 1 claimed slot, 1 ledger entry"
        assert instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.FAILURE  # type: ignore[union-attr]
        assert storage.get_concurrency_info("gpu").claimed_slots == []
        assert store.partitions(LedgerEntry) == [] and living(home) == {}
        assert not recover(instance, home), "a second look finds nothing"

        assert killed_run.run(str(home.path), 0.0)  # would wait for the slot for ever
        assert due_items(home) == {} and len(store.partitions(LedgerEntry)) == 1
        assert not recover(instance, home) and len(store.partitions(LedgerEntry)) == 1


@pytest.mark.parametrize("moment", ["recorded", "after"])
@pytest.mark.slow
def test_a_run_killed_after_its_work_was_recorded_keeps_its_books(home: Home, moment: str) -> None:
    """In the first case the mark of the interrupted item still lies there: made again it is booked twice."""
    (earlier, other) = (mark_due(home, name, "", "new files") for name in ("weights", "labels"))
    process = start(home, moment)
    assert earlier.exists() == (moment == "recorded")
    later = mark_due(home, "weights", "", "newer files")
    kill(process)
    with prepare_instance(home) as instance:
        recovered = recover(instance, home)
        assert len(recovered.runs) == 1 and not recovered.ledger
        assert due_items(home) == {("weights", ""): "newer files", ("labels", ""): "new files"}
        assert later.exists() and other.exists() and not earlier.exists()
        assert len(Store(home.tables).partitions(LedgerEntry)) == 1


def test_two_that_heal_at_once_do_not_trip_over_each_other(home: Home) -> None:
    run = "0123456789abcdef"
    first, second = (mark_due(home, name, "", INTERRUPTED, by=run) for name in ("labels", "weights"))

    def recorded(asset: str, partition: str) -> bool:
        first.unlink(missing_ok=True)  # the other one was faster
        return True

    settle_recorded(home, run, recorded)
    assert not first.exists() and not second.exists()


@pytest.mark.ci
def test_a_run_of_another_program_is_judged_by_its_processes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(home, "untagged")
    with prepare_instance(home) as instance:
        monkeypatch.setattr(healing, "_SILENCE", 0.0)
        assert not recover(instance, home).runs, "its process lives"
        kill(process)
        monkeypatch.setattr(healing, "_SILENCE", 3600.0)
        assert not recover(instance, home).runs, "it spoke a moment ago"
        monkeypatch.setattr(healing, "_SILENCE", 0.0)
        assert len(recover(instance, home).runs) == 1


def test_a_process_id_that_was_given_again_is_another_process() -> None:
    assert not healing._gone(os.getpid(), time.time(), booted_at())
    assert healing._gone(os.getpid(), time.time() - 10 * 365 * 86_400, booted_at())
    assert healing._gone(2**22 - 7, time.time(), booted_at())


def test_a_clock_that_is_set_forward_ends_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, seen, clock = Home.open(tmp_path / "home"), time.time(), time.time
    announce(home)
    monkeypatch.setattr(time, "time", lambda: clock() + 86_400)
    assert healing._gone(os.getpid(), seen, booted_at()), "it seems to have begun a day later than it did"
    assert not healing._gone(os.getpid(), seen, min(boots(home)))


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_process_that_ends_while_it_is_looked_at_has_ended(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(path: str, **_: object) -> None:
        raise error(path)

    monkeypatch.setattr(healing, "open", ended, raising=False)
    assert healing._gone(os.getpid(), time.time(), booted_at())


def test_a_dagster_home_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trace_assets.orchestration import instance as instances
    from trace_assets.orchestration.recovery import clear_half_made

    home = Home.open(tmp_path / "home")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(instances, "replace_folder", killed)
        prepare_instance(home)
    assert not home.dagster.exists()
    (home.path / ".dagster.abc.partial").mkdir()  # what a kill, other than an interrupt, leaves
    assert clear_half_made(home) == [home.path / ".dagster.abc.partial"]
    with prepare_instance(home) as instance:
        assert instance.get_runs() == []
    (home.dagster / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    prepare_instance(home).dispose()
    assert (home.dagster / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n", "it is the user's"
