"""All outcomes that wait are taken in with one look at what is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_assets.orchestration.materialization import Outcome
from trace_assets.orchestration.planner import Item
from trace_assets.orchestration.sync_run import SyncRun
from trace_assets.orchestration.worker_pool import WorkerDied
from trace_assets.store import Home


class Looks:
    """In the place of a planner: notes at which assets it was asked to look."""

    def __init__(self) -> None:
        self.at: list[set[str] | None] = []

    def look(
        self, touched: Iterable[str] | None = None, force: Mapping[Item, str] | None = None
    ) -> list[Any]:
        self.at.append(None if touched is None else set(touched))
        return []

    def wants(self, item: Item) -> bool:
        """Tell that nothing is read again: no dictionary is looked at."""
        return False


def ended(outcome: list[Outcome] | BaseException) -> Future[list[Outcome]]:
    future: Future[list[Outcome]] = Future()
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def run(looks: Looks) -> SyncRun:
    started = SyncRun(SimpleNamespace(), looks, {}, lambda *_: None)  # type: ignore[arg-type]
    looks.at.clear()
    return started


def test_many_outcomes_are_one_look_and_what_is_under_way_stays(
    run: SyncRun, looks: Looks, tmp_path: Path
) -> None:
    items = [Item("labels", f"b{number}") for number in range(40)] + [Item("triage", "b0")]
    for item in items:
        run.running[ended([Outcome(item, True, 1.0, 3)])] = (item,)
    still: Future[list[Outcome]] = Future()
    run.running[still] = (Item("adapter", "x"),)
    run.take([one for one in run.running if one.done()], pytest.fail, Home(tmp_path))
    assert looks.at == [{"labels", "triage"}]
    assert [outcome.item for outcome in run.done.outcomes] == items
    assert list(run.running) == [still]


def test_killed_workers_among_them_are_put_right_once_and_begin_again_once(
    run: SyncRun, looks: Looks, tmp_path: Path
) -> None:
    home, mended = Home.open(tmp_path / "home"), list[bool]()
    good, one, two = Item("triage", "b0"), Item("labels", "b0"), Item("labels", "b1")
    run.running[ended([Outcome(good, True, 1.0, 3)])] = (good,)
    for item in (one, two):
        run.running[ended(WorkerDied("killed by signal 9"))] = (item,)
    run.take(list(run.running), lambda: mended.append(True), home)
    assert mended == [True] and looks.at == [{"labels", "triage"}]
    assert [outcome.item for outcome in run.done.outcomes] == [good] and not run.over
    run.running[ended(WorkerDied("killed by signal 9"))] = (one,)  # for the second time
    run.take(list(run.running), lambda: mended.append(True), home)
    assert mended == [True, True] and run.over == {one}
    assert "died twice (killed by signal 9)" in run.done.outcomes[-1].error


def test_an_environment_that_a_model_writes_is_made_beside_others(run: SyncRun, looks: Looks) -> None:
    light = SimpleNamespace(tags={"light": "true"})
    looks.nodes = {"environment": light, "contrast": light, "adapter": SimpleNamespace(tags={})}  # type: ignore[attr-defined]
    for writer in ("recipe", "model", "auto"):
        synthesis = SimpleNamespace(writer=writer)
        run.study = SimpleNamespace(settings=SimpleNamespace(synthesis=synthesis))  # type: ignore[assignment]
        assert run._is_quick(Item("environment", "c")) == (writer == "recipe")
        assert run._is_quick(Item("contrast", "t")) and not run._is_quick(Item("adapter", "c"))
