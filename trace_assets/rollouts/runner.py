"""Many trials at once: bounded concurrency, a journal to resume from, an early end when everything breaks."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Required, TypedDict, TypeVar, Unpack

from pydantic import ValidationError

from trace_assets.errors import InputError, Unavailable
from trace_assets.policies.protocol import Policy
from trace_assets.records import Trajectory
from trace_assets.rollouts.episode import Rollout, Trial, play, run_identity, trajectory_id
from trace_assets.store.files import make_folder, sync_folder
from trace_assets.store.lines import read_lines, sealed
from trace_assets.system.processes import finish
from trace_assets.system.progress import Bar, progress
from trace_assets.targets.protocol import Target

# What is already played: one folder of JSON lines, written trajectory by trajectory.


SYNC_SECONDS = 1.0
"""How often what was appended is brought to the disk."""
_log = logging.getLogger(__name__)


class Journal:
    """Finished trajectories of an unfinished run.

    Every process writes a file of its own, so any number may share the folder. A process that is killed in
    the middle of a line leaves a torn last line, which is dropped on reading, as is one that was altered:
    that trial is played again. A power cut loses no more than the trials of the last second.

    Args:
        folder: Where the files lie; made when the first trajectory is appended.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._file: IO[bytes] | None = None
        self._synced = 0.0

    def load(self) -> dict[str, Trajectory]:
        """Read all that is there, by trajectory id.

        Of two with one id the unfaulted one counts, then the later one.

        Raises:
            InputError: A line that is as it was written is not a trajectory of this version.
        """
        found: dict[str, Trajectory] = {}
        for path in sorted(self.folder.glob("*.jsonl")):
            for trajectory in _read(path):
                earlier = found.get(trajectory.trajectory_id)
                if earlier is None or trajectory.fault is None or earlier.fault is not None:
                    found[trajectory.trajectory_id] = trajectory
        return found

    def append(self, trajectory: Trajectory) -> None:
        """Add one trajectory; it is in the hands of the operating system when this returns."""
        if self._file is None:
            make_folder(self.folder)
            path = self.folder / f"{time.time_ns():020d}-{os.getpid()}.jsonl"
            self._file = path.open("xb")
            sync_folder(self.folder)
        self._file.write(sealed(trajectory.model_dump_json(exclude_defaults=True)))
        self._file.flush()
        if time.monotonic() - self._synced > SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def clear(self) -> None:
        """Forget everything: the run is complete and stored elsewhere."""
        self.close()
        for path in self.folder.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it was never made, or something else lies in it
            self.folder.rmdir()

    def close(self) -> None:
        """Close this process's file; a later append opens a new one."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(path: Path) -> Iterator[Trajectory]:
    lines = read_lines(path)
    if lines.altered:
        numbers = ", ".join(map(str, lines.altered))
        _log.warning("%s: line %s was altered or cut short; its trial is played again", path, numbers)
    for number, text in lines.whole:
        try:
            yield Trajectory.model_validate_json(text)
        except ValidationError as error:
            raise InputError(
                f"{path}, line {number} is not a trajectory that this version can read "
                f"({error.errors()[0]['msg']}); delete the file to play its trials again."
            ) from error


PolicyT = TypeVar("PolicyT", bound=Policy)

ENOUGH_FAULTS = 20
"""Trials that must have ended before a run can be given up."""


class Playing(TypedDict, total=False):
    """How trials are played; see `roll_out`."""

    max_turns: Required[int]
    concurrency: int
    journal: Journal | None
    known: Mapping[str, Trajectory] | None
    title: str | None
    fault_share: float


def run_rollouts(
    target: Target, trials: Sequence[Trial], policy: Policy, **playing: Unpack[Playing]
) -> list[Trajectory]:
    """Play trials and return their trajectories, sorted by trajectory id; see `roll_out`."""
    rollouts = finish(roll_out(target, trials, policy, **playing))
    return sorted((rollout.trajectory for rollout in rollouts), key=lambda item: item.trajectory_id)


@contextmanager
def closing_policy(policy: PolicyT) -> Iterator[PolicyT]:
    """Close a policy when the block is left: an engine's processes do not wait for the collector."""
    try:
        yield policy
    finally:
        finish(policy.close())


async def roll_out(
    target: Target,
    trials: Sequence[Trial],
    policy: Policy,
    *,
    max_turns: int,
    concurrency: int = 64,
    journal: Journal | None = None,
    known: Mapping[str, Trajectory] | None = None,
    title: str | None = None,
    fault_share: float = 0.5,
) -> list[Rollout]:
    """Play trials, `concurrency` at a time.

    A finished trial is in the journal at once, so an interrupted run loses only what was in the air: the
    same call with the same journal plays what is missing and what had ended in a fault.

    Args:
        target: Where the episodes come from.
        trials: What to play; no two alike.
        policy: Who acts. It is not closed.
        max_turns: Assistant messages after which an episode is cut off.
        concurrency: Episodes in the air at once.
        journal: Where finished trajectories go, and where earlier ones are taken from.
        known: Further finished trajectories by id, such as those that are stored.
        title: Words for a progress bar; None shows none.
        fault_share: Give up when more than this share of the trials ended here so far broke.

    Returns:
        One rollout a trial, in the order of `trials`. Those taken from the journal carry no tokens.

    Raises:
        InputError: Two trials are alike, or the policy cannot do what a trial asks.
        Unavailable: The run was given up because of its faults; what finished is in the journal.
    """
    run = _Run(target, policy, max_turns, journal, fault_share, total=len(trials))
    identity = run_identity(target, policy, max_turns)
    names = [trajectory_id(identity, trial) for trial in trials]
    if len(set(names)) < len(names):
        twice = trials[names.index(next(name for name, count in Counter(names).items() if count > 1))]
        raise InputError(
            f"trial {twice.trial} of task '{twice.task.task_id}' with seed {twice.seed} and adapter "
            f"{twice.adapter} is asked for twice in one run; give repeated attempts different trial numbers."
        )
    kept = {**(journal.load() if journal is not None else {}), **(known or {})}
    run.done = {name: Rollout(kept[name]) for name in names if name in kept and kept[name].fault is None}
    waiting = ((name, trial) for name, trial in zip(names, trials, strict=True) if name not in run.done)
    try:
        if title is None:
            await run.work(waiting, concurrency, None)
        else:
            with progress(title, len(trials)) as bar:
                bar.advance(len(run.done))
                await run.work(waiting, concurrency, bar)
    finally:
        if journal is not None:
            journal.close()
    return [run.done[name] for name in names]


@dataclass
class _Run:
    target: Target
    policy: Policy
    max_turns: int
    journal: Journal | None
    fault_share: float
    total: int
    done: dict[str, Rollout] = field(default_factory=dict)
    ended: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    async def work(self, waiting: Iterator[tuple[str, Trial]], concurrency: int, bar: Bar | None) -> None:
        """Keep `concurrency` workers busy; the first failure stops them all."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(max(1, min(concurrency, self.total - len(self.done)))):
                    group.create_task(self._worker(waiting, bar))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _worker(self, waiting: Iterator[tuple[str, Trial]], bar: Bar | None) -> None:
        for name, trial in waiting:
            rollout = await play(self.target, trial, self.policy, max_turns=self.max_turns, identity=name)
            self.done[name] = rollout
            if self.journal is not None:
                self.journal.append(rollout.trajectory)
            self.ended += 1
            if rollout.trajectory.fault is not None:
                self.faults[rollout.trajectory.error or "unknown"] += 1
            if bar is not None:
                bar.advance(note=f"{self.faults.total()} faults" if self.faults else None)
            self._give_up_when_broken()

    def _give_up_when_broken(self) -> None:
        broken = self.faults.total()
        if self.ended < ENOUGH_FAULTS or broken <= self.fault_share * self.ended:
            return
        error, times = self.faults.most_common(1)[0]
        finished = len(self.done) - broken
        kept = "; run again to resume with them kept" if self.journal is not None else ""
        raise Unavailable(
            f"stopped after {broken} of {self.ended} trials broke in '{self.target.name}' with policy "
            f"'{self.policy.name}' (most often, {times} times: {error}); {finished} of {self.total} trials "
            f"are finished{kept}."
        )
