"""What lies in the inbox, and that no batch takes what another one holds."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.formats import test_swe_agent, test_tau2_layouts
from trace_assets.assets.capability_dictionary import discover
from trace_assets.assets.contrast import estimate_contrast
from trace_assets.assets.labels import label_batch, write_batch_capabilities
from trace_assets.assets.selected_capabilities import select_capabilities
from trace_assets.assets.trajectories import write_batch, write_tasks
from trace_assets.assets.triage import triage_batch
from trace_assets.errors import InputError
from trace_assets.formats.batch_files import batch_of
from trace_assets.formats.load import load
from trace_assets.records import Task, ToldTask, TrajectoryHead, Triage
from trace_assets.resources.inbox import batches, inbox
from trace_assets.store.item_locks import due_items, item_lock
from trace_assets.store.locks import exclusive
from trace_assets.study import Study
from trace_assets.workflows.ingest import Ingested, ingest
from trace_assets.workflows.made_with import made_otherwise, rolled_out


def simulation_file(
    path: Path, names: list[str], told: str = "Cancel K1.", said: str = "Cancel K1.", reward: float = 1.0
) -> Path:
    def simulation(name: str) -> dict[str, object]:
        return {
            "id": name,
            "task_id": name[-1],
            "trial": 0,
            "seed": 1,
            "termination_reason": "user_stop",
            "reward_info": {"reward": reward, "reward_basis": ["DB"], "db_check": {"db_match": True}},
            "messages": [
                {"role": "user", "content": said},
                {"role": "assistant", "content": "Done."},
            ],
        }

    info = {
        "agent_info": {"llm": "a", "implementation": "llm_agent"},
        "user_info": {"llm": "u", "implementation": "user_simulator"},
        "environment_info": {"domain_name": "desk"},
    }
    tasks = [{"id": name[-1], "user_scenario": {"instructions": told}} for name in names]
    document = {"info": info, "tasks": tasks, "simulations": [simulation(name) for name in names]}
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.open(tmp_path / "home", None, [])


def test_the_same_file_again_is_unchanged_and_a_longer_one_is_new(study: Study, tmp_path: Path) -> None:
    path = simulation_file(tmp_path / "one.json", ["s1", "s2"])
    assert ingest(study, [path]).new == {"one": 2}
    assert ingest(study, [path]).unchanged == {"one": 2}
    longer = simulation_file(tmp_path / "one.json", ["s1", "s2", "s3"])
    assert ingest(study, [longer]).new == {"one": 3}
    assert batches(study) == ["one"]
    assert [path.name for path in study.home.inbox.iterdir() if path.name != "one"] == [".files.json"]


@pytest.mark.parametrize("when", ["longer", "gone"])
def test_a_file_that_is_touched_while_it_is_read_is_read_again(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    path = simulation_file(tmp_path / "one.json", ["s1", "s2"])

    def touched(*arguments: Any) -> Any:
        read = load(*arguments)
        if when == "longer":
            simulation_file(path, ["s1", "s2", "s3"])
        else:
            path.unlink()
        return read

    monkeypatch.setattr("trace_assets.workflows.ingest.load", touched)
    assert ingest(study, [path]).new == {"one": 2}
    monkeypatch.undo()
    simulation_file(path, ["s1", "s2", "s3"])
    assert ingest(study, [path]).new == {"one": 3}
    assert ingest(study, [path]).skipped == [str(path)]


def test_no_name_of_a_file_breaks_the_reading(study: Study, tmp_path: Path) -> None:
    long = [simulation_file(tmp_path / f"{'x' * 240}-{end}.json", [f"s{end}"]) for end in "ab"]
    odd = simulation_file(tmp_path / os.fsdecode(b"\xff\xfe.json"), ["s3"])
    outcome = ingest(study, [*long, odd])
    assert sorted(outcome.new.values()) == [1, 1] and all(len(name) <= 120 for name in outcome.new)
    (problem,) = outcome.errors
    assert problem.path.endswith(r"\xff\xfe.json") and "not UTF-8" in problem.message
    assert ingest(study, long).new == {}


def test_a_name_that_begins_with_a_mark_is_a_batch_and_a_strange_folder_none(
    study: Study, tmp_path: Path
) -> None:
    assert ingest(study, [simulation_file(tmp_path / "_-run.json", ["s1"])]).new == {"run": 1}
    for name in (b"\xff", b"a b\x1b[2J", b"_x"):
        folder = Path(os.fsdecode(bytes(study.home.inbox) + b"/" + name))
        folder.mkdir()
        (folder / "version").write_text("1")
    assert batches(study) == ["run"]
    assert ingest(study, [simulation_file(tmp_path / "two.json", ["s2"])]).new == {"two": 1}


@pytest.mark.parametrize("text", ["[]", "7", "[" * 100_000, "{"])
def test_a_damaged_list_of_files_only_costs_time(study: Study, tmp_path: Path, text: str) -> None:
    path = simulation_file(tmp_path / "one.json", ["s1", "s2"])
    ingest(study, [path])
    (study.home.inbox / ".files.json").write_text(text)
    assert ingest(study, [path]).unchanged == {"one": 2}
    assert ingest(study, [path]).skipped == [str(path)]


def test_a_reward_that_tau2_cannot_give_is_no_verdict(study: Study, tmp_path: Path) -> None:
    rewards = {"above": 2.0, "below": -0.5, "rounded": 1 - 1e-9}
    paths = [
        simulation_file(tmp_path / f"{name}.json", [f"s{name}"], reward=reward)
        for name, reward in rewards.items()
    ]
    outcome = ingest(study, paths)
    told = {batch: inbox(study, batch).read(TrajectoryHead)[0].success for batch in batches(study)}
    assert told == {"above": None, "below": None, "rounded": True}
    assert sum("not from 0 to 1" in problem.message for problem in outcome.problems) == 2


def test_a_trajectory_stays_in_the_batch_that_holds_it(study: Study, tmp_path: Path) -> None:
    ingest(study, [simulation_file(tmp_path / "one.json", ["s1", "s2"])])
    outcome = ingest(study, [simulation_file(tmp_path / "two.json", ["s2", "s3"])])
    assert outcome.new == {"two": 1} and outcome.errors == []
    assert any("'one'" in str(problem) for problem in outcome.problems)
    held = [row.trajectory_id for batch in batches(study) for row in inbox(study, batch).read(TrajectoryHead)]
    assert len(held) == len(set(held)) == 3
    tasks = [row.task_id for batch in batches(study) for row in inbox(study, batch).read(Task)]
    assert len(tasks) == len(set(tasks)) == 3


def test_a_folder_that_grows_is_read_as_a_whole(study: Study, tmp_path: Path) -> None:
    run = tmp_path / "run"
    test_swe_agent.laid(run, "repo__a-0")
    assert ingest(study, [run]).new == {"run": 1}
    test_swe_agent.laid(run, "repo__a-1")
    grown = ingest(study, [run])
    assert grown.new == {"run": 2} and grown.errors == []
    assert ingest(study, [run]).unchanged == {"run": 2}
    # The verdict lies beside: the trajectories' own files are as they were.
    (run / "results.json").write_text(json.dumps({"resolved_ids": ["repo__a-1"], "unresolved_ids": []}))
    judged = ingest(study, [run])
    assert judged.new == {"run": 2}
    rows = inbox(study, "run").read(TrajectoryHead)
    assert [row.success for row in sorted(rows, key=lambda row: row.task_id)] == [None, True]


def test_a_tau2_run_whose_simulations_become_more_is_read_again(study: Study, tmp_path: Path) -> None:
    head = {"timestamp": "t", "info": test_tau2_layouts.INFO, "tasks": [test_tau2_layouts.TASK]}
    first = test_tau2_layouts.simulation()
    test_tau2_layouts.laid(tmp_path / "run", head, first)
    assert ingest(study, [tmp_path]).new == {"run": 1}
    (tmp_path / "run" / "simulations" / "s1.json").write_text(json.dumps(test_tau2_layouts.simulation(1)))
    assert ingest(study, [tmp_path]).new == {"run": 2}


def test_a_batch_of_several_files_is_laid_whole_when_one_is_new(study: Study, tmp_path: Path) -> None:
    one = simulation_file(tmp_path / "results.json", ["s1", "s2"])
    batch = batch_of(one)
    assert ingest(study, [tmp_path]).new == {batch: 2}
    simulation_file(tmp_path / f"{batch}.json", ["s3"])
    assert ingest(study, [tmp_path]).new == {batch: 3}


@pytest.mark.parametrize("at_once", [True, False])
def test_triage_reads_what_its_own_batch_was_told(study: Study, tmp_path: Path, at_once: bool) -> None:
    """Also of a task that another batch brought, and whatever is in that batch."""
    one = simulation_file(tmp_path / "one.json", ["s-1"])
    two = simulation_file(tmp_path / "two.json", ["t-1"], "Cancel K4821.", "Cancel K4822.", reward=0.0)
    for paths in [[one, two]] if at_once else [[one], [two]]:
        ingest(study, paths)
    assert [row.instruction for row in inbox(study, "two").read(ToldTask)] == ["Cancel K4821."]
    assert inbox(study, "two").read(Task) == [] and inbox(study, "one").read(ToldTask) == []
    versions = []
    for batch in ("two", "one"):
        version = write_tasks(study, batch).version
        write_batch(study, batch)
        triage_batch(study, batch)
        versions.append((version, study.store.version(Triage, batch)))
    assert [row.rule for row in study.store.read(Triage, "two")] == ["simulator_contradicts"]
    reread = simulation_file(tmp_path / "two.json", ["t-1"], "Cancel K4822.", "Cancel K4822.", reward=0.0)
    assert ingest(study, [reread]).new == {"two": 1}, "another instruction is another batch"
    assert write_tasks(study, "two").version != versions[0][0]
    triage_batch(study, "two")
    assert study.store.read(Triage, "two")[0].rule != "simulator_contradicts"
    assert (write_tasks(study, "one").version, study.store.version(Triage, "one")) == versions[1]
    assert inbox(study, "one").read(Task)[0].instruction == "Cancel K1."


def test_stages_run_without_dagster_and_twice_alike(study: Study, tmp_path: Path) -> None:
    ingest(study, [simulation_file(tmp_path / "one.json", ["s1", "s2"])])

    def run() -> list[str]:
        made = [
            write_tasks(study, "one"),
            write_batch(study, "one"),
            triage_batch(study, "one"),
            discover(study),
        ]
        made += [write_batch_capabilities(study, "one")]
        made += [label_batch(study, "one"), estimate_contrast(study), select_capabilities(study)]
        assert all(check.passed for result in made for check in result.checks)
        return [result.version for result in made]

    assert run() == run()


def test_an_unknown_batch_is_named(study: Study) -> None:
    with pytest.raises(InputError, match="nowhere"):
        write_tasks(study, "nowhere")


def test_a_changed_inbox_makes_its_items_due_though_nobody_asks(study: Study, tmp_path: Path) -> None:
    file = simulation_file(tmp_path / "desk.json", ["s1"])
    ingest(study, [file])
    (batch,) = batches(study)
    items = [("tasks", batch), ("trajectories", batch)]
    assert due_items(study.home) == dict.fromkeys(items, "new files")
    for item in items:
        with item_lock(study.home, *item) as lock:
            lock.settle()
    ingest(study, [file])
    assert due_items(study.home) == {}, "the same file again changes nothing"


def chat_file(path: Path, words: list[str], **more: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    rows = [
        {
            "messages": [{"role": "user", "content": "Cancel K1."}, {"role": "assistant", "content": word}],
            "reward": 1.0,
            **more,
        }
        for word in words
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("place", ["another folder", "the same path"])
def test_lines_without_ids_never_take_the_place_of_other_runs(
    study: Study, tmp_path: Path, place: str
) -> None:
    ingest(study, [chat_file(tmp_path / "one/run.jsonl", ["Done.", "No."], model="a")])
    folder = "one" if place == "the same path" else "two"
    second = chat_file(tmp_path / folder / "run.jsonl", ["It is done.", "No.", "Why?"], model="b")
    outcome = ingest(study, [second])
    (problem,) = outcome.errors
    assert "holds 1 trajectories that this file does not: it calls 1 other ones alike" in problem.message
    assert outcome.new == {} and {row.policy for row in inbox(study, "run").read(TrajectoryHead)} == {"a"}
    assert ingest(study, [second], again=True).new == {"run": 3}
    assert {row.policy for row in inbox(study, "run").read(TrajectoryHead)} == {"b"}


def test_an_id_of_the_sources_own_may_say_more_at_its_place_and_not_elsewhere(
    study: Study, tmp_path: Path
) -> None:
    ingest(study, [chat_file(tmp_path / "one/run.jsonl", ["Done."], id="first")])
    moved = chat_file(tmp_path / "two/run.jsonl", ["Done."], id="first", reward=0.0)
    assert ingest(study, [moved]).new == {"run": 1}, "the same conversation, judged anew"
    assert ingest(study, [chat_file(moved, ["It is done."], id="first")]).new == {"run": 1}
    elsewhere = chat_file(tmp_path / "one/run.jsonl", ["No."], id="first")
    assert [problem.kind for problem in ingest(study, [elsewhere]).errors] == ["held"]


def test_the_same_bytes_are_taken_as_a_later_version_reads_them(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = chat_file(tmp_path / "one/run.jsonl", ["Done."])
    ingest(study, [path])
    monkeypatch.setattr("trace_assets.workflows.ingested_files.code_version", lambda name: "later")

    def read_otherwise(*arguments: Any) -> Any:
        path.write_text(path.read_text().replace("Done.", "DONE."))
        read = load(*arguments)
        chat_file(path, ["Done."])
        return read

    monkeypatch.setattr("trace_assets.workflows.ingest.load", read_otherwise)
    assert ingest(study, [path]).new == {"run": 1}


def test_a_lost_inbox_comes_back_with_its_file_and_nothing_in_it_was_rolled_out(
    study: Study, tmp_path: Path
) -> None:
    path = simulation_file(tmp_path / "one.json", ["s1", "s2"])
    ingest(study, [path])
    write_tasks(study, "one")
    write_batch(study, "one")
    shutil.rmtree(study.home.inbox)
    assert rolled_out(study) == [] and made_otherwise(study) == []
    assert ingest(study, [path]).new == {"one": 2}
    played = [one.model_copy(update={"source": "rollout"}) for one in study.store.read(TrajectoryHead)]
    study.store.write(played, TrajectoryHead, "one")
    shutil.rmtree(study.home.inbox)
    (problem,) = ingest(study, [path]).errors
    assert "2 trajectories that were rolled out here" in problem.message and rolled_out(study) == ["one"]


def test_two_ingests_at_once_keep_a_trajectory_of_both_files_once(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [simulation_file(tmp_path / f"{name}.json", ["s1", f"s{name}"]) for name in "ab"]
    waits, came = threading.Event(), list[Ingested]()
    other = threading.Thread(target=lambda: came.append(ingest(study, paths[1:])))

    @contextmanager
    def held(*arguments: Any, **_: object) -> Iterator[None]:
        if threading.current_thread() is other:
            waits.set()
        with exclusive(*arguments):
            yield

    def read(*arguments: Any) -> Any:
        if threading.current_thread() is not other:
            other.start()
            assert waits.wait(60)
        return load(*arguments)

    monkeypatch.setattr("trace_assets.workflows.ingest.exclusive", held)
    monkeypatch.setattr("trace_assets.workflows.ingest.load", read)
    assert ingest(study, paths[:1]).new == {"a": 2}
    other.join(60)
    assert [one.new for one in came] == [{"b": 1}]
