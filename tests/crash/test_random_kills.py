"""`kill -9` of a sync at random moments: the next one ends in the same tables and plays nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.durability.small_home import TOLD
from tests.rollouts.library_server import MODEL, LibraryServer
from trace_assets.records import TABLES, TrajectoryHead
from trace_assets.rollouts.runner import Journal
from trace_assets.store.content import frame_version
from trace_assets.store.manifest import manifest_of
from trace_assets.study import Study
from trace_assets.targets.template import write_template

TASKS, TRIALS = 12, 2
MADE = ("tasks", "trajectories", "triage", "suspect_tasks", "lucky_passes", "target_contract")
KILLS = 20


@dataclass
class Syncing:
    """A target of one's own, a model server that counts, and syncs as processes.

    Attributes:
        folder: Holds the target and the homes.
        server: Counts requests by loan.
        seconds: How long an undisturbed sync takes.
        versions: Content version of every table that it makes.
        turns: Requests of one episode of each loan.
    """

    folder: Path
    server: LibraryServer
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    turns: dict[int, int] = field(default_factory=dict)

    @property
    def settings(self) -> list[str]:
        """What the syncs are told."""
        return [
            "targets.name=library",
            f"targets.path={self.folder}/library/target.py",
            f"targets.discovery_tasks={TASKS}",
            "targets.processes=1",
            "rollouts.engine=openai",
            f"rollouts.model={MODEL}",
            f"rollouts.base_url={self.server.url}",
            "rollouts.retries=0",
            "rollouts.concurrency=2",
        ]

    def start(self, home: Path) -> subprocess.Popen[bytes]:
        """Begin a sync."""
        selected = [part for name in MADE for part in ("--select", name)]
        settings = [part for one in self.settings for part in ("--set", one)]
        return subprocess.Popen(
            [sys.executable, "-m", "trace_assets", "sync", *selected, *settings, "--jobs", "1"],
            env={**os.environ, "TRACE_HOME": str(home)},
            stdout=(home.parent / f"{home.name}.log").open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def finish(self, home: Path) -> None:
        """Sync to the end."""
        with self.start(home) as process:
            assert process.wait(900) == 0, (home.parent / f"{home.name}.log").read_text()[-3000:]

    def study(self, home: Path) -> Study:
        """Open the study of a home."""
        return Study.open(home, None, self.settings)

    def tables(self, home: Path) -> dict[str, str]:
        """Return the content version of every table."""
        store = self.study(home).store
        return {
            f"{record.table}/{part}": frame_version(store.frame(record, part), record)
            for record in TABLES
            if record.table not in TOLD
            for part in store.partitions(record)
        }

    def finished(self, home: Path) -> Counter[int]:
        """Return how many episodes of each loan are on disk, in the journal or in the table."""
        study = self.study(home)
        found = {
            one: study.store.frame(TrajectoryHead, one) for one in study.store.partitions(TrajectoryHead)
        }
        ids = {
            name: task for frame in found.values() for name, task in frame["trajectory_id", "task_id"].rows()
        }
        for journal in study.home.journals.glob("rollouts/*"):
            ids |= {name: one.task_id for name, one in Journal(journal).load().items() if not one.fault}
        return Counter(int(task.partition("/")[2]) for task in ids.values())


@pytest.fixture(scope="module")
def syncing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Syncing]:
    folder = tmp_path_factory.mktemp("kills")
    write_template("library", folder / "library")
    with LibraryServer(delay=0.25) as server:
        one = Syncing(folder, server)
        began = time.monotonic()
        one.finish(folder / "undisturbed")
        one.seconds = time.monotonic() - began
        one.versions = one.tables(folder / "undisturbed")
        one.turns = {loan: asked // TRIALS for loan, asked in server.asked.items()}
        assert len(one.turns) == TASKS and len(one.versions) > 4
        yield one


def kill_and_go_on(syncing: Syncing, number: int) -> None:
    """Kill one sync somewhere, and let another one finish."""
    chance = random.Random(number)
    home = syncing.folder / f"home-{number}"
    before = Counter(syncing.server.asked)
    process = syncing.start(home)
    time.sleep(chance.uniform(0.05, 1.0) * syncing.seconds)
    whole = chance.random() < 0.5
    with suppress(ProcessLookupError):
        (os.killpg if whole else os.kill)(process.pid, signal.SIGKILL)
    over = process.wait() == 0
    # A worker whose parent is gone ends by itself, and an episode of its last moment may still be written.
    until = time.monotonic() + 120
    while _alive(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    kept, asked = syncing.finished(home), Counter(syncing.server.asked)
    syncing.finish(home)
    again = Counter(syncing.server.asked) - asked
    played = {loan: (TRIALS - kept[loan]) * turns for loan, turns in syncing.turns.items()}
    print(f"kill {number}: {sum(kept.values())} of {TASKS * TRIALS} episodes were kept, over: {over}")
    assert dict(again) == {loan: n for loan, n in played.items() if n}, (
        "what was finished is not played again"
    )
    assert all((asked - before)[loan] <= TRIALS * turns for loan, turns in syncing.turns.items())
    assert syncing.tables(home) == syncing.versions
    manifest = manifest_of(home)
    assert manifest.problems(manifest.entries()) == {}
    assert not [path for path in home.rglob("*.partial")]


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_killed_sync_is_gone_on_with(syncing: Syncing) -> None:
    kill_and_go_on(syncing, 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, KILLS))
def test_many_killed_syncs_are_gone_on_with(syncing: Syncing, number: int) -> None:
    kill_and_go_on(syncing, number)
