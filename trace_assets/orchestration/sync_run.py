"""What a sync knows while it is under way: what is due, what runs, what is at risk, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from trace_assets.errors import InputError, TraceError
from trace_assets.orchestration.asset_files import explain
from trace_assets.orchestration.materialization import Outcome
from trace_assets.orchestration.planner import Item, Planner, Step
from trace_assets.orchestration.worker_pool import WorkerDied
from trace_assets.resources.open_failures import asks_again
from trace_assets.store import Home
from trace_assets.store.item_locks import INTERRUPTED, due_items, is_item_held, item_holder
from trace_assets.store.locks import waits_for
from trace_assets.study import Study
from trace_assets.workflows.finished_work import Cause, finished_work, would_replace


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


POLL_SECONDS = 0.2
MOST_REPEATS = 8
NEVER_FRESH = (
    "it was made again and again and is still due: its result differs every time, or its settings or code "
    "change under the run; run the command again, and report it when it happens twice."
)
Listener = Callable[[str, Item, Step | Outcome], None]
"""Told `("start", item, step)` and `("end", item, outcome)`."""
DICTIONARY = Item("capability_dictionary")
TELLING = frozenset({"labels", "lack_causes"})
"""Assets that say which failures no candidate explains."""


class SyncRun:
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
        return "light" in self.planner.nodes[item.asset].tags or is_setting(item)

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


def is_setting(item: Item) -> bool:
    """Tell whether an item is a section of the settings."""
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
