"""Episodes of the variants, the base model and each adapter, on the same tasks, trials and seeds."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from trace_assets.policies.protocol import Policy
from trace_assets.progress import Bar, progress
from trace_assets.records import NO_ADAPTER, Task, Trajectory
from trace_assets.rollout.journal import Journal
from trace_assets.rollout.runner import Trial, roll_out
from trace_assets.settings import EvaluationSection
from trace_assets.targets.protocol import Target

PolicyMaker = Callable[[str], Policy]
"""Variant (`none` or an adapter's name) -> who acts. Picklable, since worker processes call it."""

JOB = 800
"""Trials a job: enough to keep a batch full to its end, few enough to share out."""

_TICK = 0.2
"""Seconds between two looks at what the workers have done."""


@dataclass(frozen=True)
class Limits:
    """What an episode may use.

    Attributes:
        max_turns: Assistant messages an episode.
        max_new_tokens: Tokens a message.
        concurrency: Episodes in the air, a process.
    """

    max_turns: int = 12
    max_new_tokens: int = 64
    concurrency: int = 256


@dataclass(frozen=True)
class _Job:
    variant: str
    number: int
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class _Shared:
    """What a worker is told once."""

    target: Target
    make_policy: PolicyMaker
    limits: Limits
    journal_dir: Path
    threads: int


def transformers_policy(
    variant: str,
    *,
    base_dir: Path,
    adapters: Mapping[str, Path],
    temperature: float,
    max_new_tokens: int,
    seed: int,
) -> Policy:
    """Make the batched transformers engine for one variant.

    It is told of this one adapter alone, so that its version, and with it the identity of finished episodes,
    does not change when other adapters come and go.
    """
    from trace_assets.policies.transformers_engine import TransformersPolicy

    own = {} if variant == NO_ADAPTER else {variant: adapters[variant]}
    return TransformersPolicy(
        base_dir, adapters=own, temperature=temperature, max_new_tokens=max_new_tokens, seed=seed
    )


def trial_seed(seed: int, task_id: str, trial: int) -> int:
    """Return the seed of a trial: the same for every variant, so that arms are paired.

    >>> trial_seed(0, "a", 1) == trial_seed(0, "a", 1) != trial_seed(0, "a", 2)
    True
    """
    digest = hashlib.sha256(f"{seed}/{task_id}/{trial}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def play_variants(
    target: Target,
    tasks: Sequence[Task],
    variants: Sequence[str],
    make_policy: PolicyMaker,
    section: EvaluationSection,
    journal_dir: Path,
    processes: int = 2,
    limits: Limits | None = None,
) -> dict[str, list[Trajectory]]:
    """Play every variant on every task, once a trial.

    The trials are cut into jobs that worker processes share. Every job has a journal of its own, so an
    interrupted call that is made again plays only what is missing.

    Args:
        target: Where the tasks live. With one that cannot be sent to another process (it holds a connection)
            the work is done in this one.
        tasks: What to play.
        variants: `none` and names of adapters.
        make_policy: Makes who acts in a variant.
        section: Trials a task and seed.
        journal_dir: Where finished episodes are kept; the caller may remove it when the result is stored.
        processes: Worker processes, at most one a job.
        limits: What an episode may use.

    Returns:
        Variant -> trajectories, one a task and trial. Faults are among them, as faults.

    Raises:
        Unavailable: A worker could not go on; what was finished is in the journals.
    """
    jobs = [job for variant in variants for job in _jobs(variant, tasks, section)]
    workers = max(1, min(processes, len(jobs)))
    shared = _Shared(
        target=target,
        make_policy=make_policy,
        limits=limits or Limits(),
        journal_dir=journal_dir,
        threads=max(1, (os.cpu_count() or 1) // workers) if workers > 1 else 0,
    )
    played: dict[str, list[Trajectory]] = {variant: [] for variant in variants}
    total = sum(len(job.trials) for job in jobs)
    with progress("evaluating", total) as bar:
        if workers > 1 and _can_travel(shared):
            for job, rows in _share_out(jobs, workers, shared, bar):
                played[job.variant] += rows
        else:
            with _Player(shared, bar.advance) as player:
                for job in jobs:
                    played[job.variant] += player.play(job)
    return {
        variant: sorted(rows, key=lambda row: (row.task_id, row.trial)) for variant, rows in played.items()
    }


def _jobs(variant: str, tasks: Sequence[Task], section: EvaluationSection) -> Iterator[_Job]:
    adapter = None if variant == NO_ADAPTER else variant
    trials = [
        Trial(task=task, trial=trial, seed=trial_seed(section.seed, task.task_id, trial), adapter=adapter)
        for task in tasks
        for trial in range(section.trials)
    ]
    for number, start in enumerate(range(0, len(trials), JOB)):
        yield _Job(variant, number, tuple(trials[start : start + JOB]))


def _can_travel(shared: _Shared) -> bool:
    try:
        pickle.dumps(shared)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


def _share_out(
    jobs: Sequence[_Job], workers: int, shared: _Shared, bar: Bar
) -> Iterator[tuple[_Job, list[Trajectory]]]:
    # Spawned, not forked: the parent may hold threads (torch, an event loop) that a fork would leave locked.
    context = get_context("spawn")
    ended = context.Value("q", 0)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(shared, ended))
    try:
        waiting = {pool.submit(_play_in_worker, job): job for job in jobs}
        while waiting:
            done, _ = wait(waiting, timeout=_TICK, return_when=FIRST_COMPLETED)
            bar.advance(ended.value - bar.done)
            for future in done:
                yield waiting.pop(future), future.result()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


class _CountingJournal(Journal):
    """A journal that tells of every trajectory that it took."""

    def __init__(self, folder: Path, tell: Callable[[], None]) -> None:
        super().__init__(folder)
        self._tell = tell
        self.taken = 0

    def append(self, trajectory: Trajectory) -> None:
        super().append(trajectory)
        self.taken += 1
        self._tell()


class _Player:
    """Plays jobs in one event loop, and holds the policy of one variant at a time."""

    def __init__(self, shared: _Shared, tell: Callable[[int], None]) -> None:
        self._shared = shared
        self._tell = tell
        self._runner = asyncio.Runner()
        self._acting: tuple[str, Policy] | None = None

    def play(self, job: _Job) -> list[Trajectory]:
        limits = self._shared.limits
        folder = self._shared.journal_dir / _folder(job.variant) / f"{job.number:04d}"
        journal = _CountingJournal(folder, lambda: self._tell(1))
        with journal:
            rollouts = self._runner.run(
                roll_out(
                    self._shared.target,
                    job.trials,
                    self._policy(job.variant),
                    max_turns=limits.max_turns,
                    concurrency=limits.concurrency,
                    journal=journal,
                )
            )
        self._tell(len(job.trials) - journal.taken)
        return [rollout.trajectory for rollout in rollouts]

    def _policy(self, variant: str) -> Policy:
        if self._acting is not None and self._acting[0] != variant:
            self._release()
        if self._acting is None:
            self._acting = (variant, self._shared.make_policy(variant))
        return self._acting[1]

    def _release(self) -> None:
        if self._acting is not None:
            policy, self._acting = self._acting[1], None
            self._runner.run(policy.close())

    def __enter__(self) -> _Player:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()
        self._runner.close()


def _folder(variant: str) -> str:
    # The base model's journal must not be mistaken for an adapter's.
    return "base" if variant == NO_ADAPTER else f"adapter-{variant}"


_player: _Player | None = None
"""The worker process's own."""


def _begin(shared: _Shared, ended: Synchronized[int]) -> None:
    global _player

    def tell(trials: int) -> None:
        with ended.get_lock():
            ended.value += trials

    _player = _Player(shared, tell)
    if shared.threads:
        import torch

        torch.set_num_threads(shared.threads)


def _play_in_worker(job: _Job) -> list[Trajectory]:
    assert _player is not None, "the worker was not initialized"
    return _player.play(job)
