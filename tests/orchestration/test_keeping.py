"""What the daemon requests after an edit of the settings replaces nothing that is finished."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest
from clockwork import Clockwork
from dagster import AssetKey

from tests.answering import InTurn, completion
from trace_assets.definitions import build
from trace_assets.orchestration.instance import TASK_BATCH
from trace_assets.records import Task, TrajectoryHead

TASKS = 4


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[InTurn]:
    """A server whose model says goodbye to everybody."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with InTurn(completion("Goodbye.")) as made:
        yield made


def _failures(works: Clockwork, keys: Sequence[AssetKey], partition: str | None) -> list[str]:
    """Make what was requested as the daemon does, and return why steps failed."""
    definitions = build(works.study)
    result = dg.materialize(
        list(definitions.assets or []),  # type: ignore[arg-type]
        selection=list(keys),
        partition_key=partition,
        instance=works.instance,
        resources={"study": works.study},
        raise_on_error=False,
    )
    failed = (
        event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure
    )
    return [one.description or "" for one in failed if one is not None]


@pytest.mark.parametrize(
    ("edit", "asset"),
    [
        pytest.param("targets.seed=5", "tasks", marks=pytest.mark.ci),
        ("rollouts.temperature=0.3", "trajectories"),
        pytest.param("rollouts.seed=9", "trajectories", marks=pytest.mark.ci),
    ],
)
def test_an_edit_is_requested_and_refused(server: InTurn, tmp_path: Path, edit: str, asset: str) -> None:
    settings = [
        f"targets.discovery_tasks={TASKS}",
        "targets.validation_tasks=1",
        "targets.test_tasks=1",
        "rollouts.engine=openai",
        f"rollouts.base_url={server.v1}",
        "rollouts.model=parrot",
        "rollouts.trials=2",
    ]
    works = Clockwork(tmp_path / "home", settings, only=asset)
    works.instance.add_dynamic_partitions(str(TASK_BATCH.name), ["embedded"])
    sections = [AssetKey(["config", name]) for name in ("targets", "rollouts", "base_model")]
    played = [AssetKey("tasks"), AssetKey("trajectories")]
    works.make(sections, None)
    works.instance.report_runless_asset_event(dg.AssetMaterialization("base_model"))  # the server's is played
    works.make(played, "embedded")
    store = works.study.store
    before, tasks, asked = store.frame(TrajectoryHead), store.frame(Task), len(server.requests)
    assert before.height == TASKS * 2
    works.tick()
    works.overrides = [*settings, edit]
    works.make(sections, None)
    requested = works.tick()
    assert (asset, "embedded") in requested
    (why,) = _failures(works, [AssetKey(asset)], "embedded")
    assert edit.partition("=")[0] in why and "trace/again = true" in why
    assert store.frame(TrajectoryHead).equals(before) and store.frame(Task).equals(tasks)
    assert len(server.requests) == asked
    assert (asset, "embedded") not in works.tick(), "it is not requested again and again"
