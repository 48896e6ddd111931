"""A trajectory that comes in twice counts once and is told of; honest trials that read alike are kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from trace_assets.records import Task, TrajectoryHead
from trace_assets.resources.inbox import batches, inbox
from trace_assets.store import Store
from trace_assets.study import Study
from trace_assets.workflows.doubles import find_doubles
from trace_assets.workflows.ingest import Ingested, ingest


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.open(tmp_path / "home")


def run_of(number: int, said: str = "Done.", **more: object) -> dict[str, object]:
    messages = [
        {"role": "user", "content": f"Cancel order {number}."},
        {"role": "assistant", "content": said},
    ]
    return {"messages": messages, "success": number % 2 == 0, **more}


def lines(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def folder(path: Path, rows: Mapping[str, Mapping[str, object]]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, row in rows.items():
        (path / f"{name}.json").write_text(json.dumps(row))
    return path


def held(study: Study) -> dict[str, int]:
    return {batch: inbox(study, batch).frame(TrajectoryHead).height for batch in batches(study)}


def notices(outcome: Ingested) -> list[str]:
    assert outcome.errors == []
    return [problem.message for problem in outcome.problems]


def test_a_run_that_came_alone_counts_once_when_its_folder_comes(study: Study, tmp_path: Path) -> None:
    ingest(study, [folder(tmp_path / "runs", {"run-7": run_of(7)})])
    there = held(study)
    runs = folder(tmp_path / "runs", {f"run-{n}": run_of(n) for n in range(5, 10)})
    outcome = ingest(study, [runs])
    assert sum(held(study).values()) == 5 and len(there) == 1
    (said,) = notices(outcome)
    assert said.startswith("1 of 5 trajectories of the batch 'runs' are in the store already")
    again = ingest(study, [runs])
    assert again.new == {} and notices(again) == [said]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_copy_and_a_longer_export_bring_only_what_is_new(
    study: Study, tmp_path: Path, at_once: bool
) -> None:
    rows = [run_of(n) for n in range(6)]
    january = lines(tmp_path / "january.jsonl", rows)
    both = lines(tmp_path / "both.jsonl", [run_of(8), run_of(9), *rows])
    copy = lines(tmp_path / "copy.jsonl", rows)
    given = [[january, both, copy]] if at_once else [[january], [both], [copy]]
    said = [text for paths in given for text in notices(ingest(study, paths))]
    assert held(study) == {"both": 2, "january": 6}
    assert [text.partition(" are ")[0] for text in said] == [
        "6 of 8 trajectories of the batch 'both'",
        "6 of 6 trajectories of the batch 'copy'",
    ]
    assert len(inbox(study, "both").read(Task)) == 2, "a task of what was left out alone"
    assert notices(ingest(study, [both])) == said[:1] and held(study) == {"both": 2, "january": 6}


def test_an_earlier_export_after_a_longer_one_brings_nothing(study: Study, tmp_path: Path) -> None:
    ingest(study, [lines(tmp_path / "both.jsonl", [run_of(n) for n in range(8)])])
    ingest(study, [lines(tmp_path / "january.jsonl", [run_of(n, reward=1.0) for n in range(3)])])
    assert held(study) == {"both": 8}


def test_a_run_that_is_judged_anew_counts_once_and_the_verdict_is_told(study: Study, tmp_path: Path) -> None:
    rows = [run_of(n) for n in range(3)]
    ingest(study, [lines(tmp_path / "first.jsonl", rows)])
    rows[1] = {**rows[1], "success": True}
    (said,) = notices(ingest(study, [lines(tmp_path / "judged.jsonl", rows)]))
    assert held(study) == {"first": 3} and "1 of them have another verdict there" in said


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param({"trial": 1}, id="trial"),
        pytest.param({"id": "second"}, id="id"),
        pytest.param({"date": "2026-11-26T10:00:01"}, id="date"),
        pytest.param({"model": "b"}, id="agent"),
        pytest.param({"target": "mail"}, id="target"),
        pytest.param({"seconds": 1.5}, id="duration"),
    ],
)
def test_runs_that_say_of_themselves_that_they_are_others_are_kept_without_a_word(
    study: Study, tmp_path: Path, mark: dict[str, object]
) -> None:
    first: dict[str, Any] = {"trial": 0, "id": "first", "date": "2026-11-26T10:00:00", "model": "a"}
    first |= {"target": "desk", "seconds": 1.25}
    ingest(study, [lines(tmp_path / "one.jsonl", [run_of(1, **first)])])
    outcome = ingest(study, [lines(tmp_path / "two.jsonl", [run_of(1, **{**first, **mark})])])
    assert notices(outcome) == [] and held(study) == {"one": 1, "two": 1}


def test_trials_of_an_agent_that_now_and_then_says_the_same_are_kept_and_told_of(
    study: Study, tmp_path: Path
) -> None:
    ingest(study, [lines(tmp_path / "monday.jsonl", [run_of(n) for n in range(6)])])
    rows = [run_of(n, "Done." if n < 2 else "It is done.") for n in range(6)]
    (said,) = notices(ingest(study, [lines(tmp_path / "tuesday.jsonl", rows)]))
    assert held(study) == {"monday": 6, "tuesday": 6}
    assert said.startswith("2 of 6 trajectories of the batch 'tuesday'") and "trials of their own" in said


@pytest.mark.parametrize(
    "mark",
    [
        pytest.param({"date": "2026-11-26T10:00:00Z"}, id="a time"),
        pytest.param({"seconds": 3.25}, id="a duration"),
        pytest.param(
            {
                "messages": [
                    {"role": "user", "content": "Go."},
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {
                                "id": "call_9aF3kQ0xZ1bT7uYw",
                                "type": "function",
                                "function": {"name": "go", "arguments": "{}"},
                            }
                        ],
                    },
                ]
            },
            id="a random id",
        ),
    ],
)
def test_what_only_one_run_has_makes_certain(study: Study, tmp_path: Path, mark: dict[str, object]) -> None:
    others = [run_of(3, task_id="t"), {**run_of(3, "No.", task_id="t")}]
    same = {**run_of(3, task_id="t"), **mark}
    ingest(study, [lines(tmp_path / "monday.jsonl", [same, others[0]])])
    ingest(study, [lines(tmp_path / "tuesday.jsonl", [same, others[1]])])
    assert held(study) == {"monday": 2, "tuesday": 1}


def test_equal_lines_of_one_file_are_trials_and_of_a_later_file_so_many_are_doubles(
    study: Study, tmp_path: Path
) -> None:
    assert notices(ingest(study, [lines(tmp_path / "one.jsonl", [run_of(2)] * 3)])) == []
    (said,) = notices(ingest(study, [lines(tmp_path / "two.jsonl", [run_of(2)] * 5)]))
    assert held(study) == {"one": 3, "two": 2} and said.startswith("3 of 5 ")


def test_a_file_that_is_copied_in_its_folder_counts_once_unless_a_task_has_several_trials(
    study: Study, tmp_path: Path
) -> None:
    rows = {f"run-{n}": run_of(n) for n in range(3)}
    (said,) = notices(ingest(study, [folder(tmp_path / "runs", {**rows, "run-2 copy": run_of(2)})]))
    assert held(study) == {"runs": 3} and "in it twice (run-2.json is run-2 copy.json word for word)" in said
    trials = {
        f"{n}-{trial}": run_of(n, "Done." if n else f"Done {trial}.") for n in (0, 1) for trial in (0, 1)
    }
    (said,) = notices(ingest(study, [folder(tmp_path / "trials", trials)]))
    assert held(study)["trials"] == 4 and "trials of their own" in said


def test_doubles_that_an_earlier_version_let_in_stay_until_they_are_taken_away_and_are_found(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [lines(tmp_path / f"{name}.jsonl", [run_of(n) for n in range(4)]) for name in ("one", "two")]
    with monkeypatch.context() as before:
        before.setattr("trace_assets.workflows.ingest.find_doubles", lambda *_: [])
        ingest(study, paths)
    assert held(study) == {"one": 4, "two": 4}
    monkeypatch.setattr("trace_assets.workflows.ingested_files.code_version", lambda name: "later")
    assert notices(ingest(study, paths)) == [] and held(study) == {"one": 4, "two": 4}
    stores: list[tuple[str, Store]] = [(batch, inbox(study, batch)) for batch in batches(study)]
    (double,) = find_doubles(stores)
    assert (double.batch, double.of, len(double.ids), double.by_chance) == ("two", "one", 4, False)


def test_policies_whose_names_differ_in_capitals_or_blanks_alone_are_told(
    study: Study, tmp_path: Path
) -> None:
    rows = [run_of(n, model="gpt-4o", target="desk") for n in range(3)]
    assert notices(ingest(study, [lines(tmp_path / "one.jsonl", rows)])) == []
    more = [run_of(n, model=name, target="desk") for n in (4, 5) for name in ("GPT-4o", "gpt-4o-mini")]
    (said,) = notices(ingest(study, [lines(tmp_path / "two.jsonl", more)]))
    assert said.startswith('of desk there are the policies "GPT-4o" (2 runs) and "gpt-4o" (3 runs): ')
    other = [run_of(n, model="another", target="desk") for n in (6, 7)]
    assert notices(ingest(study, [lines(tmp_path / "three.jsonl", other)])) == [], "once was enough"
