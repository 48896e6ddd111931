"""The embedded loop as a process that can be watched and killed, and what it must have made in the end."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import dagster as dg

from trace_assets.orchestration.instance import prepare_instance
from trace_assets.records import TABLES, Adapter, LedgerEntry
from trace_assets.store import Home, Store, frame_version
from trace_assets.store.item_locks import is_item_held
from trace_assets.store.presence import living
from trace_assets.training.checkpoints import adapter_id

TINY = {
    "targets.discovery_tasks": "600",
    "targets.validation_tasks": "40",
    "targets.test_tasks": "40",
    "base_model.steps": "320",
    "base_model.max_steps": "320",
    "base_model.check_tasks": "40",
    "base_model.pass_rate_low": "0.0",
    "base_model.taught_rate": "0.0",
    "base_model.lacking_rate": "0.0",
    "rollouts.trials": "1",
    "contrast.resamples": "200",
    "contrast.permutations": "200",
    "selection.min_relevant": "3",
    "selection.max_capabilities": "2",
    "synthesis.audit_seeds": "8",
    "synthesis.audit_rollouts": "4",
    "synthesis.pass_low": "0.0",
    "synthesis.pass_high": "1.0",
    "synthesis.max_dead_groups": "1.0",
    "training.iterations": "4",
    "training.tasks_per_iteration": "4",
    "training.group_size": "4",
    "training.validate_every": "2",
    "training.save_every": "2",
    "training.validation_seeds": "8",
    "training.validation_episodes": "16",
    "training.pilot": "warn",
    "training.pilot_tasks": "8",
    "training.pilot_search": "32",
    "evaluation.trials": "1",
    "evaluation.resamples": "200",
}
"""As small as the whole graph can run: an agent that lacks two skills, two environments, three adapters."""


START_UP = 3.0
"""Seconds at the start in which nothing is made yet, or settings only."""


@dataclass(frozen=True)
class Moment:
    """A point of the undisturbed run: so many seconds into an item.

    Attributes:
        asset: Name of the asset at work, empty before the first.
        partition: Its partition, empty when it has none.
        offset: Seconds since it began.
        whom: Whom the kill hits: the process that was started, or everything in its process group.
    """

    asset: str
    partition: str
    offset: float
    whom: Literal["process", "group"]


@dataclass(frozen=True)
class Kill:
    """How a kill went.

    Attributes:
        moment: When it was meant to be.
        at_work: The items that were being made.
        processes: How many processes the sync had.
        at_rest: Seconds until the last process that works on the home was dead.
        gone: Seconds until the last process of all was.
    """

    moment: Moment
    at_work: list[str]
    processes: int
    at_rest: float
    gone: float

    def told(self) -> dict[str, object]:
        """Return it in words, for the log."""
        moment = self.moment
        what = f"{moment.asset}[{moment.partition}]" if moment.partition else moment.asset or "the start"
        return {
            "meant": f"{moment.offset:.2f} s into {what}",
            "whom": moment.whom,
            "at_work": self.at_work,
            "processes": self.processes,
            "at_rest_ms": round(1000 * self.at_rest),
            "gone_ms": round(1000 * self.gone),
        }


class Loop:
    """`trace sync` on a home of its own."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = TINY) -> None:
        self.home = Home.open(folder)
        self.log = folder / "sync.log"
        self.options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]

    def of_round(self, number: int) -> Loop:
        """Return a round of this study, as a home; the first one is the study's own."""
        if number == 1:
            return self
        later = copy(self)
        later.home = Home(self.home.path / "rounds" / str(number))
        return later

    def know_the_seeds_of(self, other: Loop) -> None:
        """Take over what another home has drawn for its environments: else each has episodes of its own."""
        for keys in (other.home.path / "environments").glob("*/seeds.json"):
            own = self.home.path / "environments" / keys.parent.name / keys.name
            own.parent.mkdir(parents=True)
            shutil.copy(keys, own)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Start `trace sync` as the leader of a session, with further options."""
        environment = {**os.environ, "TRACE_HOME": str(self.home.path), "HF_HUB_OFFLINE": "1"}
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "trace_assets", "sync", *self.options, *more],
                env=environment,
                cwd=self.home.path,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def finish(self) -> None:
        """Run `trace sync` to its end.

        Raises:
            AssertionError: It could not make everything.
        """
        process = self.start()
        assert process.wait(1200) in (0, 1), self.log.read_text()[-3000:]

    def timeline(self) -> list[tuple[float, float, str, str]]:
        """Return (begin, end, asset, partition) of everything that was made, in seconds since the start.

        The first stretch, until the first item begins, is of no asset.
        """
        entries = Store(self.home.tables).read(LedgerEntry)
        ends = [(row.recorded_at.timestamp(), row) for row in entries if row.kind == "wall"]
        spans = [(end - row.quantity, end, row.asset, row.partition) for end, row in ends]
        first = min(span[0] for span in spans) - START_UP
        items = sorted((begin - first, end - first, *item) for begin, end, *item in spans)
        return [(0.0, START_UP, "", ""), *items]

    def moments(self, count: int, seed: int) -> list[Moment]:
        """Choose moments at random over the whole length of this undisturbed run, in order."""
        spans, chance = self.timeline(), random.Random(seed)
        length = max(end for _, end, _, _ in spans)
        found = []
        for number, at in enumerate(sorted(chance.uniform(0.0, length) for _ in range(count))):
            begin, _, asset, partition = max(span for span in spans if span[0] <= at)
            found.append(Moment(asset, partition, at - begin, "group" if number % 2 else "process"))
        return found

    def run_until(self, moment: Moment, of: Loop | None = None) -> Kill:
        """Start a sync, kill it at a moment, and wait until nothing of it is left.

        Args:
            moment: When to kill it.
            of: The round whose moment it is; None for the study's own.
        """
        watched = of or self
        process = self.start()
        if watched._is_over(moment):  # made before an earlier kill, in another order than undisturbed
            moment = Moment("", "", START_UP + moment.offset, moment.whom)
        reached = time.monotonic() + 600
        while not watched._has_begun(moment):
            assert process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < reached, f"never came to {moment}"
            time.sleep(0.005)
        reached = time.monotonic() + moment.offset
        while time.monotonic() < reached and not watched._is_over(moment):
            time.sleep(0.005)
        at_work = sorted(
            lock.stem.replace("~", "/")
            for lock in (watched.home.path / "locks" / "items").glob("*.lock")
            if is_item_held(watched.home, *lock.stem.replace("~", "/").partition("@")[::2])
        )
        members = session_of(process.pid)
        (os.killpg if moment.whom == "group" else os.kill)(process.pid, signal.SIGKILL)
        began = time.monotonic()
        process.wait()
        while living(self.home) or living(watched.home):
            assert time.monotonic() < began + 300, f"still at work: {living(self.home)}"
            time.sleep(0.002)
        at_rest = time.monotonic() - began
        while session_of(process.pid):  # the fork server may be importing, and looks up only then
            assert time.monotonic() < began + 300, f"still there: {session_of(process.pid)}"
            time.sleep(0.002)
        return Kill(moment, at_work, len(members), at_rest, time.monotonic() - began)

    def _has_begun(self, moment: Moment) -> bool:
        begun = not moment.asset or is_item_held(self.home, moment.asset, moment.partition)
        return begun or self._is_over(moment)

    def _is_over(self, moment: Moment) -> bool:
        """Whether the item was made before: its ledger entry is written when its work is done."""
        store = Store(self.home.tables)
        if len(store.partitions(LedgerEntry)) == getattr(self, "_entries", -1):
            return (moment.asset, moment.partition) in self._booked
        self._entries = len(store.partitions(LedgerEntry))
        self._booked = {(row.asset, row.partition) for row in store.read(LedgerEntry)}
        return (moment.asset, moment.partition) in self._booked

    def tables(self) -> dict[str, str]:
        """Return the content version of every partition of every table; times do not count."""
        store = Store(self.home.tables)
        return {
            f"{record.table}/{partition}": frame_version(store.frame(record, partition), record)
            for record in TABLES
            if record is not LedgerEntry
            for partition in store.partitions(record)
        }

    def ledger(self) -> Counter[tuple[str, str, str]]:
        """Return how often each quantity of each item was booked."""
        return Counter(
            (row.asset, row.partition, row.kind) for row in Store(self.home.tables).read(LedgerEntry)
        )

    def weights(self) -> dict[str, str]:
        """Return the content hash of every adapter's files."""
        adapters = Store(self.home.tables).read(Adapter)
        return {one.name: adapter_id(self.home.path / one.path) for one in adapters}

    def statuses(self) -> Counter[str]:
        """Return how many runs ended how, and how many seem to go on."""
        with prepare_instance(self.home) as instance:
            return Counter(run.status.value for run in instance.get_runs())

    def claims(self) -> list[str]:
        """Return the runs that hold a slot of a pool."""
        with prepare_instance(self.home) as instance:
            storage: dg._core.storage.event_log.base.EventLogStorage = instance.event_log_storage
            infos = [storage.get_concurrency_info(pool) for pool in storage.get_concurrency_keys()]
        return [slot.run_id for info in infos for slot in (*info.claimed_slots, *info.pending_steps)]

    def half_made(self) -> list[str]:
        """Return every file and folder that exists only while something is under way."""
        return [
            path.relative_to(self.home.path).as_posix()
            for path in self.home.path.rglob("*")
            if path.suffix in (".partial", ".old", ".new", ".due", ".work")
            or path.name.startswith(".ingest-")
        ]

    def due(self) -> list[str]:
        """Return what another sync would make."""
        done = subprocess.run(
            [sys.executable, "-m", "trace_assets", "sync", "--dry-run", "--json", *self.options],
            env={**os.environ, "TRACE_HOME": str(self.home.path)},
            cwd=self.home.path,
            capture_output=True,
            text=True,
            timeout=900,
        )
        return [step["item"] for step in json.loads(done.stdout)["due"]]


def session_of(leader: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[3] == str(leader) and fields[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found
