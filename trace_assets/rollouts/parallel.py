"""The same rollouts spread over processes, of this machine or of all nodes of a cluster.

A tiny model gains nothing from a second thread.
"""

from __future__ import annotations

import math
import multiprocessing
import queue
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, TypeVar

from trace_assets.errors import TraceError, Unavailable
from trace_assets.policies.protocol import Policy
from trace_assets.records import Trajectory
from trace_assets.rollouts.episode import Trial
from trace_assets.rollouts.runner import Journal, closing_policy, run_rollouts
from trace_assets.system.processes import die_with_parent, variables
from trace_assets.system.progress import Bar, progress
from trace_assets.targets.protocol import Target

Make = Callable[[], tuple[Target, Policy]]
"""Opens target and policy inside a process; picklable, such as a partial of a module's function."""

T = TypeVar("T")

_REPORT_EVERY = 32
"""Trajectories between two words to the parent: the wire costs more than an episode of a tiny model."""
FEWEST, MOST = 16, 1024
"""Trials in a shard: each opens target and policy anew, and is lost as a whole but for its journal."""
SHARDS_A_WORKER = 4
SEEN_SECONDS = 90.0
"""What a network folder may take to show what another machine wrote into it."""


def run_parallel(
    make: Make,
    trials: Sequence[Trial],
    *,
    processes: int,
    max_turns: int,
    concurrency: int = 128,
    journal: Journal | None = None,
    title: str = "rollouts",
) -> list[Trajectory]:
    """Play trials in several processes, each with a model of its own on one thread.

    Where a team helps this process (`Team`) the trials are cut into shards for it: what is lost with a
    node is played again, the other shards are not.

    Args:
        make: Opens target and policy, once a process.
        trials: What to play; dealt out in turn, so that every process gets of every kind.
        processes: How many on this machine; each pays for loading the model (seconds), so use one for few.
        max_turns: Assistant messages after which an episode is cut off.
        concurrency: Episodes in the air at once, in each process.
        journal: Where finished trajectories go, and where earlier ones are taken from.
        title: Words for the progress bar.

    Returns:
        The trajectories, sorted by trajectory id.

    Raises:
        TraceError: As in one process; what finished before is in the journal.
        Unavailable: A process died.
    """
    if journal is not None and (helpers := team_for(trials)) is not None:
        return _play_in_shards(helpers, make, trials, max_turns, concurrency, journal, title)
    shares = [trials[start::processes] for start in range(max(1, processes)) if trials[start::processes]]
    with ExitStack() as stack:
        if journal is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trace-rollouts-")))
        else:
            folder = journal.folder
        context = multiprocessing.get_context("spawn")
        reports: Any = context.Queue()
        bar = stack.enter_context(progress(title, len(trials)))
        stack.enter_context(variables(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false"))
        workers: list[BaseProcess] = [
            context.Process(
                target=_work, args=(make, share, max_turns, concurrency, folder, reports), daemon=True
            )
            for share in shares
        ]
        stack.callback(_stop, workers)
        for worker in workers:
            worker.start()
        names = _collect(workers, reports, bar)
        found = Journal(folder).load()
    return [found[name] for name in sorted(names)]


def team_for(trials: Sequence[Trial], *, sandbox: bool = False) -> Team | None:
    """Return who helps this process to play trials; None where nobody does, or there are few of them.

    Args:
        trials: What is to be played.
        sandbox: Whether generated code runs in it: then those help that have a sandbox.
    """
    helpers = team() if len(trials) > FEWEST else None
    return helpers.with_sandbox() if helpers is not None and sandbox else helpers


def divide(
    work: Callable[..., T],
    trials: Sequence[Trial],
    *arguments: Any,
    sandbox: bool = False,
    title: str = "rollouts",
) -> list[T] | None:
    """Have the team of this process play trials in shards, and return what each shard came to.

    Unlike `run_parallel` it needs no folder that all share: a shard that is lost is played again as a whole.

    Args:
        work: A function of a module: called with a shard's trials and the arguments, in another process
            perhaps, and perhaps twice.
        trials: What to play.
        arguments: What else it is called with.
        sandbox: Whether it runs generated code.
        title: Words for the progress bar.

    Returns:
        One answer a shard, in the order of the trials; None where nobody helps, or there are few trials.

    Raises:
        Unavailable: A shard was lost again and again.
    """
    helpers = team_for(trials, sandbox=sandbox)
    if helpers is None:
        return None
    shards = shards_of(trials, helpers.workers)
    calls = [(work, number, shard, arguments) for number, shard in enumerate(shards)]
    found: dict[int, T] = {}
    with progress(title, len(trials)) as bar:
        for number, answer in helpers.each(_numbered, calls):
            found[number] = answer
            bar.advance(len(shards[number]))
    return [found[number] for number in range(len(shards))]


def _numbered(
    work: Callable[..., T], number: int, trials: Sequence[Trial], arguments: Sequence[Any]
) -> tuple[int, T]:
    return number, work(trials, *arguments)


def shards_of(trials: Sequence[Trial], workers: int) -> list[Sequence[Trial]]:
    """Cut trials into shards: some for each worker, so that the slow do not hold up the others.

    >>> [len(one) for one in shards_of(range(100), 1)], len(shards_of(range(100_000), 8))
    ([25, 25, 25, 25], 98)
    >>> [len(one) for one in shards_of(range(40), 8)]
    [16, 16, 8]
    """
    size = max(FEWEST, min(MOST, math.ceil(len(trials) / (SHARDS_A_WORKER * workers))))
    return [trials[start : start + size] for start in range(0, len(trials), size)]


def _play_in_shards(
    helpers: Team,
    make: Make,
    trials: Sequence[Trial],
    max_turns: int,
    concurrency: int,
    journal: Journal,
    title: str,
) -> list[Trajectory]:
    shards = shards_of(trials, helpers.workers)
    calls = [(make, shard, max_turns, concurrency, journal.folder) for shard in shards]
    names: list[str] = []
    with progress(title, len(trials)) as bar:
        for played in helpers.each(play_shard, calls):
            names += played
            bar.advance(len(played))
    give_up = time.monotonic() + SEEN_SECONDS
    while not (found := journal.load()).keys() >= set(names):
        if time.monotonic() > give_up:
            raise Unavailable(
                f"{journal.folder} does not show this machine what other nodes have played into it: is it on "
                "the folder that they share? What finished is kept."
            )
        time.sleep(1)
    return [found[name] for name in sorted(names)]


def play_shard(
    make: Make, trials: Sequence[Trial], max_turns: int, concurrency: int, folder: Path
) -> list[str]:
    """Play some trials in this process on one thread, into the journal of a folder; return their ids."""
    target, policy = make()
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else 0
    if torch:
        torch.set_num_threads(1)
    try:
        with closing_policy(policy):
            played = run_rollouts(
                target,
                trials,
                policy,
                max_turns=max_turns,
                concurrency=concurrency,
                journal=Journal(folder),
            )
    finally:
        if torch:
            torch.set_num_threads(threads)  # the process goes on to other work
    return [trajectory.trajectory_id for trajectory in played]


def _collect(workers: Sequence[BaseProcess], reports: Any, bar: Bar) -> list[str]:
    """Return the ids of all trajectories once every process has delivered."""
    names: list[str] = []
    delivered = 0
    while delivered < len(workers):
        try:
            report = reports.get(timeout=0.5)
        except queue.Empty:
            dead = [worker for worker in workers if worker.exitcode not in (None, 0)]
            if dead and reports.empty():
                raise Unavailable(
                    f"a process that played rollouts ended with code {dead[0].exitcode} (out of memory, "
                    "perhaps); run again with fewer processes, what finished is kept."
                ) from None
            continue
        if isinstance(report, BaseException):
            raise report
        if isinstance(report, int):
            bar.advance(report)
        else:
            names += report
            delivered += 1
    return names


def _work(
    make: Make, trials: Sequence[Trial], max_turns: int, concurrency: int, folder: Path, reports: Any
) -> None:
    """Play one share; the parent decides about interrupts."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        target, policy = make()
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        played = run_rollouts(
            target,
            trials,
            policy,
            max_turns=max_turns,
            concurrency=concurrency,
            journal=_ReportingJournal(folder, reports),
        )
        reports.put([trajectory.trajectory_id for trajectory in played])
    except TraceError as error:
        reports.put(error)
    except Exception as error:
        reports.put(Unavailable(f"a process that played rollouts failed: {type(error).__name__}: {error}"))


class _ReportingJournal(Journal):
    """A journal that tells the parent of every trajectory."""

    def __init__(self, folder: Path, reports: Any) -> None:
        super().__init__(folder)
        self._reports = reports
        self._untold = 0

    def append(self, trajectory: Trajectory) -> None:
        super().append(trajectory)
        self._untold += 1
        if self._untold >= _REPORT_EVERY:
            self._tell()

    def close(self) -> None:
        super().close()
        self._tell()

    def _tell(self) -> None:
        self._reports.put(self._untold)
        self._untold = 0


def _stop(workers: Sequence[BaseProcess]) -> None:
    for worker in workers:
        if worker.pid is not None and worker.is_alive():
            worker.terminate()
    for worker in workers:
        if worker.pid is not None:
            worker.join(timeout=10)


class Team(Protocol):
    """Makes calls in other processes, on this machine and on others."""

    @property
    def workers(self) -> int:
        """Calls that it makes at once, when nobody else is at work."""

    def with_sandbox(self) -> Team:
        """Return those of the team that may run generated code."""

    def each(self, work: Callable[..., T], calls: Sequence[tuple[Any, ...]]) -> Iterator[T]:
        """Call a function of a module with each of some arguments.

        A call whose process or machine is lost is made anew, alone, so it must do no harm twice.

        Returns:
            What the calls returned, in the order in which they ended.

        Raises:
            Unavailable: One was lost again and again.
        """


_present: ContextVar[Team | None] = ContextVar("team", default=None)


def team() -> Team | None:
    """Return who helps this process, None where it is on its own."""
    return _present.get()


@contextmanager
def helped_by(helpers: Team | None) -> Iterator[None]:
    """Have a team help until the body ends."""
    before = _present.set(helpers)
    try:
        yield
    finally:
        _present.reset(before)
