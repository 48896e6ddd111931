"""A batch that was ingested can be taken out and brought back; what was made of it becomes due."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.workflows.test_ingest import simulation_file
from trace_assets import warehouse
from trace_assets.assets.report import write_page
from trace_assets.assets.trajectories import write_batch, write_tasks
from trace_assets.cli.progress import run_sync
from trace_assets.definitions import graph
from trace_assets.errors import InputError
from trace_assets.orchestration import removal
from trace_assets.orchestration.forecast import Scope
from trace_assets.orchestration.instance import TASK_BATCH, prepare_instance
from trace_assets.orchestration.planner import Planner
from trace_assets.orchestration.removal import finish_removals, removable, remove_batch, restore_batch
from trace_assets.records import Arrival, SuspectTask, Task, ToldTask, TrajectoryHead, Triage
from trace_assets.resources.inbox import batch_problem, batches, inbox
from trace_assets.store import Store
from trace_assets.store.unfinished import words_on_removals
from trace_assets.study import Study
from trace_assets.workflows.ingest import ingest
from trace_assets.workflows.watch import look, pending

SETTINGS = ["config/targets", "config/rollouts", "config/triage"]
MADE = ["tasks", "trajectories", "triage", "suspect_tasks", *SETTINGS]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Two batches, of which the later one has a task of the earlier."""
    study = Study.open(tmp_path / "home", None, ["watch.settle_seconds=0"])
    ingest(study, [simulation_file(tmp_path / "one.json", ["a1", "a2"])])
    ingest(study, [simulation_file(tmp_path / "two.json", ["b2", "b3"], told="Cancel K2.")])
    return study


@pytest.fixture
def instance(study: Study) -> Iterator[dg.DagsterInstance]:
    with prepare_instance(study.home) as instance:
        yield instance


def bring_up_to_date(study: Study) -> None:
    assert run_sync(study, MADE, quiet=True, jobs=0, plays=(), keep=True).exit_code == 0


def heads(study: Study) -> set[str]:
    return set(study.store.frame(TrajectoryHead)["trajectory_id"])


def test_a_removed_batch_goes_with_what_was_made_of_it_and_comes_back_as_it_was(
    study: Study, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    bring_up_to_date(study)
    before = {record: study.store.frame(record).sort(record.key) for record in (TrajectoryHead, Triage)}
    assert heads(study) == {"a1", "a2", "b2", "b3"} and removable(study, "one") == 2
    assert [one.task_id for one in inbox(study, "two").read(ToldTask)] == ["tau2:desk/2"]
    place = remove_batch(study, instance, "one")
    assert heads(study) == {"b2", "b3"} and batches(study) == ["two"]
    assert set(study.store.frame(Triage)["trajectory_id"]) == {"b2", "b3"}
    assert instance.get_dynamic_partitions(str(TASK_BATCH.name)) == ["two"]
    planner = Planner(graph(study), instance, MADE, standing=Scope(study, MADE))
    due = {str(step.item): step.reason for step in planner.look()}
    assert "a partition of trajectories is gone" in due["suspect_tasks"]
    bring_up_to_date(study)
    tasks = {one.task_id: one for one in study.store.read(Task)}
    assert set(tasks) == {"tau2:desk/2", "tau2:desk/3"}, "a task goes over to the batch that has runs of it"
    assert tasks["tau2:desk/2"].task_batch == "two" and "K2" in tasks["tau2:desk/2"].instruction
    assert inbox(study, "two").read(ToldTask) == [] and not batch_problem(study.home.inbox / "two")
    with pytest.raises(InputError, match="--restore one"):
        removable(study, "one")
    assert restore_batch(study, "one") == 2 and not place.exists()
    bring_up_to_date(study)
    for record, frame in before.items():
        assert study.store.frame(record).sort(record.key).equals(frame)
    names = study.store.frame(Task)["task_id"].to_list()
    assert sorted(names) == ["tau2:desk/1", "tau2:desk/2", "tau2:desk/3"], "each task once"
    assert planner.look() == []
    with pytest.raises(InputError, match="no removed batch"):
        restore_batch(study, "one")


def test_the_command_leaves_no_row_of_a_batch_and_nothing_that_follows_from_it(
    study: Study, instance: dg.DagsterInstance
) -> None:
    """In a process of its own: the command has not loaded the assets, which say whose tables are whose."""
    bring_up_to_date(study)
    assert study.store.has(SuspectTask)
    command = [sys.executable, "-m", "trace_assets", "ingest", "--remove", "two", "--yes"]
    done = subprocess.run(
        command, env={**os.environ, "TRACE_HOME": str(study.home.path)}, capture_output=True, text=True
    )
    assert done.returncode == 0 and "2 trajectories taken out" in done.stdout, done.stderr
    left = {file.parent.name for file in study.home.tables.glob("*/two*")}
    assert not left and heads(study) == {"a1", "a2"}
    assert not study.store.has(SuspectTask), "it says what the other batch shows"
    remove_batch(study, instance, "one")  # the last one
    assert not study.store.partitions(TrajectoryHead) and not study.store.has(SuspectTask)


def test_what_came_in_meanwhile_is_not_brought_back_beside_it(
    study: Study, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    remove_batch(study, instance, "one")
    ingest(study, [simulation_file(tmp_path / "longer.json", ["a1", "a2", "a4"])])
    with pytest.raises(
        InputError, match="2 trajectories of the batch 'one' are in the batch 'longer' by now"
    ):
        restore_batch(study, "one")
    assert batches(study) == ["longer", "two"]


KILLED_IN = ["_give_tasks_away", pytest.param("_forget", marks=pytest.mark.ci), "half"]


@pytest.mark.parametrize("killed_in", KILLED_IN)
def test_a_removal_that_was_killed_is_gone_on_with(
    study: Study, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    for batch in ("one", "two"):
        write_tasks(study, batch)
        write_batch(study, batch)
    instance.add_dynamic_partitions(str(TASK_BATCH.name), ["one", "two"])

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    study.store.write([], SuspectTask)
    with monkeypatch.context() as kill, pytest.raises(KeyboardInterrupt):
        kill.setattr(
            Store if killed_in == "half" else removal, "drop" if killed_in == "half" else killed_in, die
        )
        remove_batch(study, instance, "one")
    assert heads(study) == {"a1", "a2", "b2", "b3"}
    assert study.store.has(SuspectTask) == (killed_in != "half"), "what all show goes before what it shows"
    with pytest.raises(InputError, match=r"the removal of one was interrupted.*no page"):
        write_page(study, study.home.path / "page.html")
    with pytest.warns(UserWarning, match="the removal of one was interrupted"), warehouse(study.home.path):
        pass
    if killed_in == "_forget":  # as any sync does
        assert run_sync(study, ["config/targets"], quiet=True, jobs=0, keep=True).exit_code == 0
    else:
        assert finish_removals(study, instance) == ["one"]
    assert heads(study) == {"b2", "b3"} and instance.get_dynamic_partitions(str(TASK_BATCH.name)) == ["two"]
    assert {one.task_id for one in inbox(study, "two").read(Task)} == {"tau2:desk/2", "tau2:desk/3"}
    assert finish_removals(study, instance) == [] and not words_on_removals(study.home.path)
    (study.home.path / "removed").mkdir(exist_ok=True)
    os.rename(study.home.inbox / "two", study.home.path / "removed" / "two")  # and no more, as was done once
    assert finish_removals(study, instance) == ["two"] and not study.store.partitions(TrajectoryHead)


@pytest.mark.ci
def test_a_watched_batch_that_is_removed_neither_waits_nor_comes_again(
    study: Study, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    folder = study.home.path / "watch" / "trajectories"
    folder.mkdir(parents=True)
    row = {"messages": [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "No."}]}
    (folder / "new.jsonl").write_text(json.dumps(row) + "\n")
    for _ in range(3):
        if look(study, "trajectories").taken:
            break
    (batch,) = set(batches(study)) - {"one", "two"}
    assert [one.batch for one in pending(study)] == [batch]
    remove_batch(study, instance, batch)
    assert pending(study) == [] and len(study.store.read(Arrival)) == 1
    assert look(study, "trajectories").taken == [] and batch not in batches(study)


def test_what_was_not_ingested_is_not_removed(study: Study, instance: dg.DagsterInstance) -> None:
    with pytest.raises(InputError, match="there is no ingested batch 'nine'; there are: one, two"):
        remove_batch(study, instance, "nine")
    with pytest.raises(InputError, match="rolled out here"):
        remove_batch(study, instance, study.live_batch)
    assert batches(study) == ["one", "two"]
