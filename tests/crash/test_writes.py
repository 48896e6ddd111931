"""A writer that is killed at any moment leaves the old or the new, never half of either."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_assets.orchestration.recovery import clear_half_made, half_made
from trace_assets.records import Task
from trace_assets.rollouts.runner import Journal
from trace_assets.store import Home, Store, files
from trace_assets.store.files import replace_folder

HERE = Path(__file__).parent
SEED = 20


def run_and_kill(what: str, folder: Path, seconds: float, started: Callable[[], bool]) -> None:
    """Kill a writer so long after it has begun: `started` is asked again and again."""
    with subprocess.Popen([sys.executable, str(HERE / "killed_processes.py"), what, str(folder)]) as process:
        while not started() and process.poll() is None:
            time.sleep(0.002)
        time.sleep(seconds)
        assert process.poll() is None, "the writer ended by itself"
        process.kill()


@pytest.mark.ci
@pytest.mark.parametrize("exchange", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_tables_and_folders_are_whole_after_every_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    here, moments = Home.open(tmp_path), random.Random(SEED)
    if not exchange:
        monkeypatch.setenv("TRACE_TEST_NO_EXCHANGE", "1")
    for _ in range(6):
        (tmp_path / "went").unlink(missing_ok=True)
        run_and_kill("tables", tmp_path, moments.uniform(0, 0.4), (tmp_path / "went").exists)
        assert Path(tmp_path / "model").is_dir() or not exchange, "an exchanged folder is never missing"
        clear_half_made(here)
        rows = Store(here.tables).read(Task)
        assert len(rows) == 300 and len({row.task_batch for row in rows}) == 1
        texts = {(tmp_path / "model" / name).read_text() for name in ("a", "b", "c")}
        assert len(texts) == 1
        assert half_made(here) == []


def test_a_journal_loses_one_trajectory_a_kill_at_most(tmp_path: Path) -> None:
    moments = random.Random(SEED)
    for turn in range(4):

        def many(turn: int = turn) -> bool:
            files = sorted((tmp_path / "journal").glob("*.jsonl"))
            return len(files) > turn and files[-1].read_bytes().count(b"\n") > 40

        run_and_kill("journal", tmp_path, moments.uniform(0, 0.1), many)
    files = sorted((tmp_path / "journal").glob("*.jsonl"))
    complete = sum(file.read_bytes().count(b"\n") for file in files)
    found = Journal(tmp_path / "journal").load()
    assert complete <= len(found) <= complete + len(files) and complete > 100
    for trajectory in found.values():
        number = int(trajectory.trajectory_id.rpartition("-")[2])
        assert len(trajectory.messages[0].content) == len(f"{number}:") + number * 37 % 30_000


def test_without_exchange_a_kill_between_the_renames_is_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    target, new = tmp_path / "models" / "router", tmp_path / "models" / ".router.x.partial"
    for folder, text in ((target, "old"), (new, "new")):
        folder.mkdir(parents=True)
        (folder / "weights").write_text(text)
    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    rename, calls = os.rename, []

    def one_rename_only(source: Path, to: Path) -> None:
        calls.append(to)
        if len(calls) == 2:
            raise Killed
        rename(source, to)

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(os, "rename", one_rename_only)
        replace_folder(new, target)
    assert not target.exists()
    clear_half_made(Home.open(tmp_path))
    assert (target / "weights").read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["router"]


def test_half_made_things_of_the_living_are_left_alone(tmp_path: Path) -> None:
    from trace_assets.store.presence import announce

    here = Home.open(tmp_path / "home")
    old = here.tables / "tasks" / ".all.1234.partial"
    old.parent.mkdir(parents=True)
    old.write_text("half")
    time.sleep(0.02)
    announce(here)  # this process lives: what is touched from now on may be its own
    time.sleep(0.02)
    folders = [here.path / ".ingest-abc", here.models / ".router.5678.partial"]
    for folder in folders:
        (folder / "inside").mkdir(parents=True)
    spared = here.models / "adapters" / ".one.work" / "candidate-3.partial"
    spared.parent.mkdir(parents=True)
    spared.write_text("to be resumed")
    assert clear_half_made(here) == [old]
    assert not old.exists() and spared.exists() and all(folder.is_dir() for folder in folders)


def test_what_was_left_before_the_clock_was_set_back_is_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Home.open(tmp_path / "home")
    old = here.path / ".ingest-abc"
    old.mkdir(parents=True)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    assert half_made(here) == [old]


def test_what_is_begun_after_the_clock_was_set_back_under_a_living_writer_is_left_alone(
    tmp_path: Path,
) -> None:
    from trace_assets.store.presence import announce

    here = Home.open(tmp_path / "home")
    name = announce(here)
    tomorrow = time.time() + 86_400
    os.utime(here.path / "locks" / "processes" / name, (tomorrow, tomorrow))
    begun = here.path / ".ingest-abc"
    begun.mkdir()
    time.sleep(0.02)
    assert half_made(here) == [] and clear_half_made(here) == [] and begun.is_dir()


def test_what_a_living_writer_begins_after_the_clock_was_set_back_by_little_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trace_assets.store.presence import announce

    here, clock = Home.open(tmp_path / "home"), time.time
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: clock() + 1.0)
        name = announce(here)
    os.utime(here.path / "locks" / "processes" / name, (clock() + 1.0, clock() + 1.0))
    (begun := here.path / ".ingest-abc").mkdir()
    time.sleep(0.02)
    assert half_made(here) == [] and begun.is_dir()
