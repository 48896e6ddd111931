"""`trace sync`: materialize what is missing or stale, and nothing else, several items at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import dagster as dg

from trace_assets.errors import InputError, TraceError, Unavailable
from trace_assets.orchestration.asset_files import explain
from trace_assets.orchestration.planner import Item, Planner, Standings, Step
from trace_assets.orchestration.pool import Needs, Pool, WorkerDied, needs_of
from trace_assets.orchestration.recovery import RecoveryReport, recover
from trace_assets.orchestration.removal import finish_removals
from trace_assets.orchestration.scope import Scope
from trace_assets.orchestration.worker_pool import (
    Outcome,
    WorkerPool,
    materialize_here,
    materialize_items,
)
from trace_assets.resources.open_failures import asks_again
from trace_assets.store import Home
from trace_assets.store.locks import (
    INTERRUPTED,
    Holder,
    due_items,
    exclusive,
    holder,
    is_item_held,
    item_holder,
    sync_lock,
    waits_for,
)
from trace_assets.store.presence import announce
from trace_assets.study import Study
from trace_assets.system.processes import whole_cores
from trace_assets.workflows.finished_work import Cause, finished_work, would_replace
from trace_assets.workflows.made_with import marked_items


@dataclass(frozen=True)
class AtRisk:
    """Finished work in whose place new work would be put.

    Attributes:
        item: What holds it.
        work: What it is, such as `800 episodes`.
        why: What is another now than when it was made.
    """

    item: Item
    work: str
    why: str


Answer = Literal["replace", "keep", "stop"]
"""What becomes of finished work that is due: made again in its place; left as it is, and the rest brought up
to date; nothing more is done."""


@dataclass
class Synced:
    """What a sync did.

    Attributes:
        outcomes: In the order in which they finished.
        held_back: Steps that are due but lie behind a failure, a failed check or finished work.
        at_risk: Finished work that is due, and that nobody asked to be replaced: it is what it was.
        stopped: Whether the sync ended because of it; otherwise all else was done.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    held_back: list[Step] = field(default_factory=list)
    at_risk: list[AtRisk] = field(default_factory=list)
    stopped: bool = False

    @property
    def exit_code(self) -> int:
        """0 when all was made and no check failed, else the gravest outcome's."""
        held = 1 if any(step.held_by for step in self.held_back) else 0
        asked = InputError.exit_code if self.stopped else 0
        return max((held, asked, *(outcome.exit_code for outcome in self.outcomes)))


MOST_REPEATS = 8
NEVER_FRESH = (
    "it was made again and again and is still due: its result differs every time, or its settings or code "
    "change under the run; run the command again, and report it when it happens twice."
)
POLL_SECONDS = 0.2

Listener = Callable[[str, Item, Step | Outcome], None]
"""Told `("start", item, step)` and `("end", item, outcome)`."""


WORKER_VARIABLES = {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # the bars are ours


def open_pool(study: Study, jobs: int | None = None) -> Pool:
    """Return what the items of a study are handed to: see the section `cluster` of its settings.

    Raises:
        Unavailable: The cluster is not there, or one of its nodes cannot work on the home.
    """
    if study.settings.cluster.engine == "local" or jobs == 0:
        width = min(2, whole_cores()) if jobs is None else max(1, jobs)
        return WorkerPool(width, ("trace_assets.definitions",))
    from trace_assets.orchestration.cluster.ray_pool import RayPool

    pool = RayPool(study.settings.cluster, jobs)
    try:
        pool.join(study.home)
    except BaseException:
        pool.shutdown()
        raise
    return pool


def sync(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    study: Study,
    environment: Mapping[str, str],
    *,
    selection: Iterable[str] | None = None,
    partitions: Iterable[str] | None = None,
    jobs: int | None = None,
    force: Mapping[Item, str] | None = None,
    listen: Listener = lambda *_: None,
    waiting: Callable[[Holder | None], None] | None = lambda _: None,
    mended: Callable[[RecoveryReport], None] = lambda _: None,
    standing: Standings | None = None,
    again: Collection[str] = (),
    ask: Callable[[Sequence[AtRisk]], Answer] = lambda _: "stop",
    pool: Pool | None = None,
) -> Synced:
    """Materialize what is due until nothing is.

    What is finished is not made again unless somebody says so: where something due would put new work in the
    place of played episodes, trained weights or paid answers, `ask` is asked, once before anything begins,
    and once more where it shows only later.

    An item runs when nothing before it is due any more: settings and light items in this process, all others,
    and environments that a model writes, in processes of their own. What failed is not tried again in the
    same call, and what depends on it is held back; everything else goes on. An item that another process is
    making (a run of the UI) is left to it.

    Args:
        definitions: The graph.
        instance: Its history.
        study: What the graph works on; one sync at a time works on its home.
        environment: Variables with which a worker process opens the same study.
        selection: Names of assets, or of items such as `adapter[x]`; None takes all.
        partitions: Task batches; None takes all.
        jobs: Items at once; None takes the smaller of two and the number of cores, or on a cluster as many
            as it has cores; 0 makes one after the other in this process.
        force: Items to make once even when they look fresh, with the reason.
        listen: Told of starts and ends.
        waiting: Told who is at work when another sync is, before waiting for it; None does not wait.
        mended: Told what a killed process had left behind, once it is put right.
        standing: How each item is taken; None takes what `Scope` says.
        again: Names of assets or items that are made also in the place of finished work.
        ask: Decides about finished work that is due and that `again` does not name.
        pool: What `open_pool` opened, and is shut down here; None opens it.

    Raises:
        Unavailable: Another sync is at work, and `waiting` is None.
    """
    with ExitStack() as stack:
        pool = stack.enter_context(pool or open_pool(study, jobs))
        environment = {
            **WORKER_VARIABLES,
            **environment,
            **pool.variables,
            **study.settings_as_they_are(),
        }
        stack.enter_context(_turn(study.home, waiting))
        announce(study.home)  # anew, where this process was taken for dead since its last sync
        planner = Planner(definitions, instance, selection, partitions, standing or Scope(study, selection))
        recovered = recover(instance, study.home)
        finish_removals(study, instance)
        lost = planner.mend_files()
        recovered = replace(recovered, forgotten=lost.forgotten, lineage=lost.lineage)
        if recovered or recovered.hashed:
            mended(recovered)
        from trace_assets.definitions import pipeline

        needs = {one.name: needs_of(one, study) for one in pipeline()}

        def put_right() -> None:
            pool.bury(study.home)
            recover(instance, study.home)

        stack.callback(put_right)  # after an interrupt no run seems to go on
        stack.callback(pool.shutdown)  # before that
        marked = {Item(*name): reason for name, reason in marked_items(study).items()}
        seen = None if recovered.forgotten or recovered.lineage else ()
        run = _Run(study, planner, {**marked, **(force or {})}, listen, again, seen)
        if run.settle(ask) == "stop":
            return run.finished()
        if jobs != 0 and run.needs_workers():
            pool.load_ahead()
        while True:
            made_here = False
            for step in run.ready(heavy=True):
                if len(run.running) >= pool.width:
                    break
                if run.start([step], study.home):
                    asked = run.is_asked(step.item)
                    if jobs == 0:
                        run.end(materialize_here(definitions, study, instance, [step.item], asked))
                        made_here = True  # others may be ready now: no time for a look at all of the history
                        break
                    needed = needs.get(step.item.asset, Needs())
                    future = pool.submit(materialize_items, environment, [step.item], asked, needs=needed)
                    run.running[future] = (step.item,)
            unit = run.ready(heavy=False)
            settings = [step for step in unit if _is_setting(step.item)]
            unit = settings or unit[:1]
            if unit and run.start(unit, study.home):
                asked = any(run.is_asked(step.item) for step in unit)
                run.end(materialize_here(definitions, study, instance, [step.item for step in unit], asked))
            elif run.running:
                finished, _ = wait(run.running, return_when=FIRST_COMPLETED)
                run.take(finished, put_right, study.home)
            elif not made_here and not run.look_again(study.home) and run.settle(ask) != "go on":
                return run.finished()


DICTIONARY = Item("capability_dictionary")
TELLING = frozenset({"labels", "lack_causes"})
"""Assets that say which failures no candidate explains."""


class _Run:
    """What a sync knows while it is under way."""

    def __init__(
        self,
        study: Study,
        planner: Planner,
        force: dict[Item, str],
        listen: Listener,
        again: Collection[str] = (),
        touched: Collection[str] | None = None,
    ) -> None:
        self.study, self.planner, self.force, self.listen = study, planner, force, listen
        self.again = set(again)
        self.answer: Answer | None = None
        """About finished work that is due, once it was given."""
        self._known: dict[tuple[Item, tuple[str, ...]], AtRisk | None] = {}
        self.done = Synced()
        self.running: dict[Future[list[Outcome]], tuple[Item, ...]] = {}
        self.over: set[Item] = set()
        """Items that failed or whose blocking check did: not tried again in this call."""
        self.lost: set[Item] = set()
        """Items whose worker was killed once."""
        self.made: Counter[Item] = Counter()
        self.elsewhere: set[Item] = set()
        """Items that another process is making."""
        self.steps = self._plan(touched)
        self.is_complete_look = True

    def _plan(self, touched: Collection[str] | None = None) -> list[Step]:
        """Look at what is due, the dictionary too where failures that it leaves unexplained are to be read.

        Which those are is known once all labels and causes are there, and what comes after these waits for
        the dictionary: nothing is selected, written or trained that a further reading may change.
        """
        steps = self.planner.look(touched, self.force)
        is_told = touched is None or not TELLING.isdisjoint(touched) or not touched
        if not is_told or self._is_open(DICTIONARY) or not self.planner.wants(DICTIONARY):
            return steps
        before = self.planner.nodes["lack_causes"].upstream | {"lack_causes"}
        under_way = {item.asset for items in self.running.values() for item in items}
        if before & (under_way | {step.item.asset for step in steps}) or not self.planner.made_all(TELLING):
            return steps
        if reason := asks_again(self.study):
            self.force[DICTIONARY] = reason
            return self.planner.look((), self.force)
        return steps

    def _is_open(self, item: Item) -> bool:
        """Whether an item is asked for already, or will not be tried again."""
        return item in self.over or item in self.force

    def ready(self, *, heavy: bool) -> list[Step]:
        """Return the steps that can be made now."""
        busy = self.over.union(self.elsewhere, *self.running.values(), (one.item for one in self.at_risk()))
        return [
            step
            for step in self.steps
            if step.item not in busy
            and not step.waits_for
            and not step.held_by
            and heavy != self._is_quick(step.item)
        ]

    def needs_workers(self) -> bool:
        """Whether something is due that is not made in this process."""
        return any(not self._is_quick(step.item) for step in self.steps)

    def _is_quick(self, item: Item) -> bool:
        """Whether an item is made in this process: what a model writes takes minutes, so side by side."""
        if item.asset == "environment" and self.study.settings.synthesis.writer != "recipe":
            return False
        return "light" in self.planner.nodes[item.asset].tags or _is_setting(item)

    def is_asked(self, item: Item) -> bool:
        """Whether an item is made also in the place of what it holds finished."""
        return self.answer == "replace" or bool({item.asset, str(item)} & self.again)

    def at_risk(self) -> list[AtRisk]:
        """Return the finished work that is due and that nobody asked to be replaced."""
        return [
            found
            for step in self.steps
            if step.item not in self.over
            and not self.is_asked(step.item)
            and (found := self._risk(step.item, step.causes)) is not None
        ]

    def _risk(self, item: Item, causes: Mapping[str, Cause]) -> AtRisk | None:
        key = item, tuple(causes)
        if key not in self._known:
            why = would_replace(self.study, item.asset, item.partition, causes)
            work = finished_work(self.study, item.asset, item.partition) if why else ""
            self._known[key] = AtRisk(item, work, why) if work else None
        return self._known[key]

    def settle(self, ask: Callable[[Sequence[AtRisk]], Answer]) -> Literal["nothing", "go on", "stop"]:
        """Ask what becomes of finished work that is due; say whether that leaves something to do."""
        found = self.at_risk()
        if not found:
            return "nothing"
        self.answer = ask(found)
        if self.answer == "stop":
            self.done.at_risk, self.done.stopped = found, True
            return "stop"
        if self.answer == "keep":
            self.planner.spared = self._spares
        self.steps = self._plan()
        return "go on"

    def _spares(self, item: Item, causes: Mapping[str, Cause]) -> bool:
        found = None if self.is_asked(item) else self._risk(item, causes)
        if found is not None and found.item not in {one.item for one in self.done.at_risk}:
            self.done.at_risk.append(found)
        return found is not None

    def finished(self) -> Synced:
        """Return what was done, with what is due and was not."""
        begun = bool(self.done.outcomes) or not self.done.stopped
        kept = {one.item for one in self.done.at_risk}
        self.done.held_back = [
            step for step in self.steps if begun and step.item not in self.over and step.item not in kept
        ]
        return self.done

    def start(self, unit: Sequence[Step], home: Home) -> bool:
        """Announce a unit of work; tell whether it is ours to do."""
        taken = {step.item for step in unit if is_item_held(home, step.item.asset, step.item.partition)}
        self.elsewhere |= taken
        if not taken:
            for step in unit:
                self.listen("start", step.item, step)
        return not taken

    def take(
        self, finished: Iterable[Future[list[Outcome]]], recover_lost: Callable[[], object], home: Home
    ) -> None:
        """Take in all that has ended by now with one look: a look costs more the more items there are.

        Args:
            finished: Calls that have ended, of those that are under way.
            recover_lost: Puts right what killed workers left: they held slots that others wait for.
            home: Where the work is kept.
        """
        outcomes: list[Outcome] = []
        again: set[Item] = set()
        # In the order in which they were begun: a set's own order would differ from run to run.
        done = set(finished)
        ended = [(future, items) for future, items in self.running.items() if future in done]
        if any(isinstance(future.exception(), WorkerDied) for future, _ in ended):
            recover_lost()
        for future, items in ended:
            del self.running[future]
            if isinstance(future.exception(), WorkerDied) and not self.lost & set(items):
                self.lost |= set(items)
                again |= set(items)
            else:
                outcomes += _results(future, items, home)
        if again:
            marked = due_items(home)  # what it had recorded before it died is not among them any more
            self.force |= {item: INTERRUPTED for item in again if (item.asset, item.partition) in marked}
        self.end(outcomes, {item.asset for item in again})

    def end(self, outcomes: Iterable[Outcome], begun_again: Iterable[str] = ()) -> None:
        """Take in what was done, and see what is due now.

        Args:
            outcomes: What was done.
            begun_again: Assets of items that stay due because their worker was killed, for the first time.
        """
        touched = set(begun_again)
        for outcome in outcomes:
            item = outcome.item
            touched.add(item.asset)
            self.made[item] += outcome.made
            self.force.pop(item, None)
            if outcome.made and self.made[item] > MOST_REPEATS:
                outcome = replace(outcome, made=False, error=NEVER_FRESH, exit_code=3)
            if not outcome.made or outcome.blocked:
                self.over.add(item)
            self.done.outcomes.append(outcome)
            self.listen("end", item, outcome)
        self.steps = self._plan(touched)
        self.is_complete_look = False

    def look_again(self, home: Home) -> bool:
        """With nothing left to start: wait for what others make, and look at the whole history once more.

        Returns:
            Whether there is more to do.
        """
        waited = bool(self.elsewhere)
        for item in sorted(self.elsewhere):
            with waits_for(partial(item_holder, home, item.asset, item.partition)):
                while is_item_held(home, item.asset, item.partition):
                    time.sleep(POLL_SECONDS)
        if not self.is_complete_look or waited:
            self.elsewhere.clear()
            self.steps = self._plan()
            self.is_complete_look = True
            return True
        return False


def _is_setting(item: Item) -> bool:
    return item.asset.startswith("config/")


def _results(future: Future[list[Outcome]], items: Sequence[Item], home: Home) -> list[Outcome]:
    error = future.exception()
    if error is None:
        return future.result()
    if (told := explain(error, home.path)) is not None:
        raise told from error  # nothing else could be recorded either
    if isinstance(error, TraceError):
        return [Outcome(item, False, 0.0, error=str(error), exit_code=error.exit_code) for item in items]
    reason = f"its worker process failed ({type(error).__name__}: {error}); run the command again."
    if isinstance(error, WorkerDied):
        reason = (
            f"the process that made it died twice ({error}), for want of memory perhaps: free some, or try "
            "`--jobs 1`; what was finished is kept."
        )
    return [Outcome(item, False, 0.0, error=reason, exit_code=3) for item in items]


@contextmanager
def _turn(home: Home, waiting: Callable[[Holder | None], None] | None) -> Iterator[None]:
    """Let one sync at a time work on a home; the operating system frees the lock of a dead one."""
    path, patience = sync_lock(home), None if waiting else 0.0
    with ExitStack() as stack:
        try:
            stack.enter_context(
                exclusive(path, "trace sync", waiting=waiting or (lambda _: None), patience=patience)
            )
        except TimeoutError as error:
            raise Unavailable(
                f"another `trace sync` is at work on {home.path} ({holder(path) or 'an unknown process'}); "
                "wait for it, or give this one another TRACE_HOME."
            ) from error
        yield
