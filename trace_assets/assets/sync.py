"""`trace sync`: materialize what is missing or stale, and nothing else, several items at once."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import dagster as dg

from trace_assets.assets.staleness import Item, Step, plan
from trace_assets.assets.worker import Outcome, materialize_items
from trace_assets.errors import Unavailable
from trace_assets.store import Home


@dataclass
class Synced:
    """What a sync did.

    Attributes:
        outcomes: In the order in which they finished.
        held_back: Steps that were due but lie behind a failure.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    held_back: list[Step] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 when all was made and no check failed, else the gravest outcome's."""
        return max((outcome.exit_code for outcome in self.outcomes), default=0)


MOST_REPEATS = 8
NEVER_FRESH = (
    "it was made again and again and is still due: its result differs every time, or its settings change "
    "under the run; run the command again, and report it when it happens twice."
)

Listener = Callable[[str, Item, Step | Outcome], None]
"""Told `("start", item, step)` and `("end", item, outcome)`."""


def sync(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    home: Home,
    environment: Mapping[str, str],
    *,
    selection: Iterable[str] | None = None,
    partitions: Iterable[str] | None = None,
    jobs: int | None = None,
    force: Collection[Item] = (),
    listen: Listener = lambda *_: None,
) -> Synced:
    """Materialize what is due until nothing is.

    An item runs when nothing before it is due any more. What failed is not tried again in the same call, and
    what depends on it is held back; everything else goes on.

    Args:
        definitions: The graph.
        instance: Its history.
        home: Holds the lock: one sync at a time works on a home.
        environment: Variables with which a worker process opens the same study.
        selection: Asset names; None takes all.
        partitions: Task batches; None takes all.
        jobs: Items at once; None takes the smaller of two and the number of cores.
        force: Items to make once even when they look fresh.
        listen: Told of starts and ends.
    """
    width = jobs or min(2, os.cpu_count() or 1)
    wanted = None if selection is None else list(selection)
    batches = None if partitions is None else list(partitions)
    threads = str(max(1, (os.cpu_count() or 1) // width))
    environment = {
        "OMP_NUM_THREADS": threads,  # two torches on all cores are slower than one
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # the bars are ours
        **environment,
    }
    done, failed, running = Synced(), set[Item](), dict[Future[list[Outcome]], tuple[Item, ...]]()
    made: Counter[Item] = Counter()
    due = set(force)
    with _lock(home), _pool(width) as pool:
        while True:
            steps = plan(definitions, instance, wanted, batches, due)
            busy = failed.union(*running.values())
            for unit in _units([step for step in steps if step.item not in busy and not step.waits_for]):
                if len(running) >= width:
                    break
                for step in unit:
                    listen("start", step.item, step)
                items = tuple(step.item for step in unit)
                running[pool.submit(materialize_items, environment, items)] = items
            if not running:
                done.held_back = [step for step in steps if step.item not in failed]
                return done
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                for outcome in _results(future, running.pop(future)):
                    made[outcome.item] += outcome.made
                    due.discard(outcome.item)
                    if outcome.made and made[outcome.item] > MOST_REPEATS:
                        outcome = replace(outcome, made=False, error=NEVER_FRESH, exit_code=3)
                    if not outcome.made:
                        failed.add(outcome.item)
                    done.outcomes.append(outcome)
                    listen("end", outcome.item, outcome)


def _units(ready: Sequence[Step]) -> list[list[Step]]:
    """Put the settings, which take no time, into one run; everything else is a run of its own."""
    settings = [step for step in ready if step.item.asset.startswith("config/")]
    others = [[step] for step in ready if not step.item.asset.startswith("config/")]
    return [settings, *others] if settings else others


def _results(future: Future[list[Outcome]], items: Sequence[Item]) -> list[Outcome]:
    error = future.exception()
    if error is None:
        return future.result()
    reason = f"the worker process died ({error}); run the command again."
    return [Outcome(item, False, 0.0, error=reason, exit_code=3) for item in items]


@contextmanager
def _pool(width: int) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["trace_assets.definitions"])
    pool = ProcessPoolExecutor(max_workers=width, mp_context=context)
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _lock(home: Home) -> Iterator[None]:
    """Let one sync at a time work on a home; the operating system frees the lock of a dead one."""
    path = home.path / "sync.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unavailable(
                f"another `trace sync` is at work on {home.path}; wait for it, or give this one another "
                "TRACE_HOME."
            ) from error
        yield
