"""`trace sync`: materialize what is missing or stale, and nothing else, several items at once."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import dagster as dg

from trace_assets.assets.staleness import Item, Step, plan
from trace_assets.assets.worker import Outcome, materialize_item
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
    done, failed, running = Synced(), set[Item](), dict[Future[Outcome], Item]()
    made: Counter[Item] = Counter()
    due = set(force)
    with _lock(home), _pool(width, environment) as pool:
        while True:
            steps = plan(definitions, instance, wanted, batches, due)
            blocked = failed | set(running.values())
            for step in steps:
                if len(running) >= width:
                    break
                if step.item in blocked or step.waits_for:
                    continue
                listen("start", step.item, step)
                running[pool.submit(materialize_item, environment, step.item)] = step.item
            if not running:
                done.held_back = [step for step in steps if step.item not in failed]
                return done
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                item = running.pop(future)
                outcome = _result(future, item)
                made[item] += outcome.made
                due.discard(item)
                if outcome.made and made[item] > MOST_REPEATS:
                    outcome = replace(outcome, made=False, error=NEVER_FRESH, exit_code=3)
                if not outcome.made:
                    failed.add(item)
                done.outcomes.append(outcome)
                listen("end", item, outcome)


def _result(future: Future[Outcome], item: Item) -> Outcome:
    error = future.exception()
    if error is None:
        return future.result()
    return Outcome(
        item, False, 0.0, error=f"the worker process died ({error}); run the command again.", exit_code=3
    )


@contextmanager
def _pool(width: int, environment: Mapping[str, str]) -> Iterator[ProcessPoolExecutor]:
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
