"""A dropped task file is rolled out on the live target by the policy that the settings name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.answering import InTurn, completion
from trace_assets.assets.trajectories import write_batch, write_tasks
from trace_assets.assets.triage import triage_batch
from trace_assets.records import Task, TrajectoryHead
from trace_assets.study import Study
from trace_assets.workflows.task_files import example_rows
from trace_assets.workflows.watch import look, pending


@pytest.fixture
def server() -> Iterator[str]:
    """An OpenAI-compatible server whose model says goodbye to everybody."""
    with InTurn(completion("Goodbye.")) as made:
        yield made.v1


def test_only_the_new_tasks_are_rolled_out_each_trial_once(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    engine = [
        "rollouts.engine=openai",
        f"rollouts.base_url={server}",
        "rollouts.model=parrot",
        "rollouts.trials=2",
    ]
    study = Study.open(tmp_path, None, ["watch.settle_seconds=0", "targets.discovery_tasks=4", *engine])
    folder = tmp_path / "watch" / "tasks"
    folder.mkdir(parents=True)
    rows = example_rows("embedded", 3, 7)
    (folder / "new.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (arrival,) = look(study, "tasks").taken
    assert [one.waits_for for one in pending(study)] == [""]  # a server needs no base model
    write_tasks(study, arrival.task_batch)
    result = write_batch(study, arrival.task_batch)
    heads = study.store.read(TrajectoryHead, arrival.task_batch)
    assert result.rows == len(heads) == 3 * 2
    assert {(head.task_id, head.trial) for head in heads} == {
        (str(row["task_id"]), trial) for row in rows for trial in range(2)
    }
    assert {head.task_batch for head in heads} == {arrival.task_batch}
    assert {head.fault for head in heads} == {None} and {head.success for head in heads} <= {True, False}
    assert triage_batch(study, arrival.task_batch).rows == 6
    assert pending(study) == []
    assert {task.task_id for task in study.store.read(Task)} == {str(row["task_id"]) for row in rows}
