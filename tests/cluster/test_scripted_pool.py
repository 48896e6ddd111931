"""A sync on a pool that plays what a cluster may do: what it is asked for, and what becomes of the lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import pytest
from homes import made_how_often, simulation_files

from trace_assets.definitions import build
from trace_assets.orchestration.instance import prepare_instance, register_batches
from trace_assets.orchestration.sync import sync
from trace_assets.orchestration.sync_run import Synced
from trace_assets.orchestration.worker_pool import Needs, WorkerDied
from trace_assets.store import Home
from trace_assets.store.item_locks import mark_due
from trace_assets.study import SETTINGS_VARIABLE, Study
from trace_assets.workflows.ingest import ingest

T = TypeVar("T")


class ScriptedPool:
    """Makes every call at once in this process, after it has lost what it was told to lose."""

    def __init__(self, width: int = 2, losses: Mapping[str, int] | None = None) -> None:
        self.width, self.losses = width, dict(losses or {})
        self.variables: Mapping[str, str] = {"TRACE_SCRIPTED": "1"}
        self.asked: list[tuple[str, Needs]] = []
        self.buried, self.is_shut_down = 0, False

    def submit(self, work: Callable[..., T], /, *arguments: Any, needs: Needs = Needs()) -> Future[T]:  # noqa: B008
        assert not self.is_shut_down
        (item,) = arguments[1]
        self.asked.append((str(item), needs))
        future: Future[T] = Future()
        if self.losses.get(str(item), 0):
            self.losses[str(item)] -= 1
            # What a process leaves that was killed in the middle of an item.
            mark_due(Home.open(arguments[0]["TRACE_HOME"]), item.asset, item.partition, "interrupted")
            future.set_exception(WorkerDied("node n2 of the cluster is lost"))
        else:
            assert arguments[0]["TRACE_SCRIPTED"] == "1" and arguments[0][SETTINGS_VARIABLE] == "{}"
            future.set_result(work(*arguments))
        return future

    def load_ahead(self) -> None:
        pass

    def bury(self, home: Home) -> list[str]:
        self.buried += 1
        return []

    def shutdown(self, grace_seconds: float = 1.0) -> None:
        self.is_shut_down = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with two ingested batches; what is made in this process as in a worker leaves no variables."""
    before = dict(os.environ)
    os.environ["TRACE_HOME"] = str(tmp_path / "home")
    try:
        files = simulation_files(tmp_path)
        ingest(Study.open(), [Path(file) for file in files])
        yield tmp_path / "home"
    finally:
        os.environ.clear()
        os.environ.update(before)


def synced(home: Path, pool: ScriptedPool) -> Synced:
    study = Study.open()
    with prepare_instance(study.home) as instance:
        register_batches(instance, study, live=False)
        return sync(
            build(study),
            instance,
            study,
            {"TRACE_HOME": str(home), "DAGSTER_HOME": str(study.home.dagster)},
            selection=["tasks", "trajectories", "triage"],
            pool=pool,
        )


@pytest.mark.ci
def test_a_lost_item_is_asked_for_once_more_and_a_sync_goes_on_without_one_that_is_lost_twice(
    home: Path,
) -> None:
    pool = ScriptedPool(losses={"trajectories[desk]": 1, "triage[shop]": 2})
    done = synced(home, pool)
    asked = [name for name, _ in pool.asked]
    assert asked.count("trajectories[desk]") == 2 and asked.count("trajectories[shop]") == 1
    assert asked.count("triage[desk]") == 1 and asked.count("triage[shop]") == 2
    assert asked.index("triage[desk]") > max(
        n for n, name in enumerate(asked) if name == "trajectories[desk]"
    )
    needs = dict(pool.asked)
    assert (needs["triage[desk]"], needs["trajectories[desk]"]) == (Needs(1, 0, 0), Needs(1, 1, 0))
    assert pool.buried >= 3 and pool.is_shut_down
    failed = [one for one in done.outcomes if not one.made]
    assert [str(one.item) for one in failed] == ["triage[shop]"]
    assert "died twice (node n2 of the cluster is lost)" in failed[0].error and done.exit_code == 3
    made = made_how_often(home)
    assert made["trajectories", "desk"] == made["trajectories", "shop"] == made["triage", "desk"] == 1
    assert ("triage", "shop") not in made
