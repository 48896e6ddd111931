"""Folders that are named instead of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.formats import test_swe_agent, test_tau2_layouts
from tests.formats.forms import CHAT, lines
from tests.formats.reading import read_trajectories
from trace_assets.errors import InputError
from trace_assets.formats.batch_files import batch_named, batch_of, stands_alone
from trace_assets.formats.registry import expand


def test_what_a_folder_holds_is_read_and_the_rest_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".hidden").mkdir()
    lines(tmp_path / ".hidden" / "a.jsonl", {"messages": CHAT, "reward": 1})
    lines(tmp_path / "deep" / "b.jsonl", {"messages": CHAT, "reward": 1})
    lines(tmp_path / "c.jsonl", {"messages": CHAT, "reward": 0})
    (tmp_path / "preds.json").write_text('{"x": 1}')
    (tmp_path / "notes.txt").write_text("no trajectory")
    read = read_trajectories([tmp_path])
    assert [one.task_batch for one in read.trajectories] == ["c", "b"]
    (problem,) = read.problems
    assert (problem.severity, problem.path) == ("notice", str(tmp_path))
    assert "1 of its 3 files" in problem.message and "preds.json" in problem.message


def test_a_file_that_is_named_beside_its_folder_is_read_once(tmp_path: Path) -> None:
    path = lines(tmp_path / "c.jsonl", {"messages": CHAT, "reward": 1})
    assert expand([path, tmp_path]) == ([path], [])


def test_only_files_of_the_format_that_was_asked_for(tmp_path: Path) -> None:
    lines(tmp_path / "c.jsonl", {"messages": CHAT, "reward": 1})
    with pytest.raises(InputError, match=r"holds no trajectories.*1 files.*'messages'"):
        expand([tmp_path], "atif")
    with pytest.raises(InputError, match="there is no format 'none'"):
        expand([tmp_path], "none")
    (nothing := tmp_path / "nothing").mkdir()
    with pytest.raises(InputError, match="holds no trajectories"):
        expand([nothing])


def test_a_run_of_swe_agent_is_one_batch(tmp_path: Path) -> None:
    run = tmp_path / "default__m-1"
    for number in range(3):
        test_swe_agent.laid(run, f"repo__a-{number}")
    (run / "results.json").write_text(
        json.dumps({"resolved_ids": ["repo__a-1"], "submitted_ids": ["repo__a-0"]})
    )
    read = read_trajectories([run])
    assert {one.task_batch for one in read.trajectories} == {"default__m-1"}
    assert [one.success for one in read.trajectories] == [False, True, None]
    assert sorted(problem.kind for problem in read.problems) == ["not_judged", "unknown_format"]


def test_a_run_of_tau2_is_read_by_its_head(tmp_path: Path) -> None:
    head = {"timestamp": "t", "info": test_tau2_layouts.INFO, "tasks": [test_tau2_layouts.TASK]}
    test_tau2_layouts.laid(
        tmp_path / "run", head, test_tau2_layouts.simulation(), test_tau2_layouts.simulation(1)
    )
    files, problems = expand([tmp_path])
    assert files == [tmp_path / "run" / "results.json"] and problems == []
    assert len(read_trajectories([tmp_path]).trajectories) == 2


@pytest.mark.parametrize("whole", [False, True])
def test_a_folder_a_run_is_read_with_what_lies_beside_the_conversation(tmp_path: Path, whole: bool) -> None:
    for number in range(2):
        folder = tmp_path / "nightly" / f"try-{number}"
        folder.mkdir(parents=True)
        (folder / "talk.json").write_text(json.dumps({"messages": CHAT} if whole else CHAT))
        (folder / "outcome.json").write_text(json.dumps({"resolved": number == 1, "task": "t"}))
        (folder / "patch.diff").write_text("+x")
    read = read_trajectories([tmp_path])
    assert read.problems == []
    assert [(one.trajectory_id, one.success) for one in read.trajectories] == [
        ("nightly/try-0", False),
        ("nightly/try-1", True),
    ]
    assert {(one.task_batch, one.task_id) for one in read.trajectories} == {
        ("nightly", "chat_files:nightly/t")
    }


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_a_run_is_one_batch_of_one_target(tmp_path: Path, indent: int | None) -> None:
    """Else each would be a target of its own, and nothing could be compared."""
    for number in range(3):
        row = {"id": "t", "messages": CHAT, "success": number == 1}
        (tmp_path / f"try-{number}.json").write_text(json.dumps(row, indent=indent))
    lines(tmp_path / "many.json", *({"messages": CHAT, "id": name, "success": True} for name in "ab"))
    read = read_trajectories([tmp_path])
    folder, own = batch_named(tmp_path.name), [one for one in read.trajectories if one.task_batch != "many"]
    assert read.problems == [] and len(read.trajectories) == 5
    assert {(one.task_batch, one.target) for one in own} == {(folder, f"chat_files:{folder}")}
    assert [(one.trajectory_id, one.success) for one in own] == [
        (f"{folder}/try-{number}", number == 1) for number in range(3)
    ]
    alone = tmp_path / "one" / "talk.json"
    alone.parent.mkdir()
    alone.write_text(json.dumps({"messages": CHAT}))
    assert batch_of(alone) == "talk" and stands_alone(alone) and not stands_alone(tmp_path / "try-0.json")


def test_conversations_side_by_side_take_nothing_from_each_other(tmp_path: Path) -> None:
    lines(tmp_path / "a.jsonl", *CHAT)
    (tmp_path / "b.json").write_text(json.dumps(CHAT, indent=1))
    (tmp_path / "c.json").write_text(json.dumps([{"messages": CHAT, "success": True}] * 2, indent=1))
    (tmp_path / "z.json").write_text('{"success": true}')
    read = read_trajectories([tmp_path])
    told = {one.trajectory_id.partition("/")[2]: one.success for one in read.trajectories}
    assert told == {"a": None, "b": None, "1": True, "2": True}
    assert all(len(one.messages) == len(CHAT) for one in read.trajectories)


@pytest.mark.parametrize(
    ("table", "verdicts", "said"),
    [
        ("trace_id,score,by\na1,1.0,me\nb2,0,me\n", [True, False], ""),
        ("run;verdict\na1;pass\nb2;FAIL\n", [True, False], ""),
        ("trace_id,name,value\na1,tone,0\na1,correctness,1\nb2,correctness,0.5\n", [True, False], ""),
        ("trace_id,name,score\na1,Chat bot,1\nb2,Chat bot,0\n", [True, False], ""),
        ("id,passed\na1,true\nzz,true\n", [True, None], "1 of its 2 ids are none of"),
        ("id,passed\na1,true\na1,false\nb2,false\n", [None, False], "do not agree on 1"),
        ('id,score\na1,"' + "x" * 200_000 + '"\n', [None, None], "cannot be read"),
    ],
)
def test_a_table_beside_logs_judges_what_does_not_say_how_it_went(
    tmp_path: Path, table: str, verdicts: list[bool | None], said: str
) -> None:
    lines(tmp_path / "log.jsonl", {"messages": CHAT, "id": "a1"}, {"messages": CHAT, "id": "b2"})
    lines(tmp_path / "own.jsonl", {"messages": CHAT, "id": "a1", "success": False})
    (tmp_path / "labels.csv").write_text(table)
    (tmp_path / "prices.csv").write_text("id,price\na1,1\n")
    read = read_trajectories([tmp_path])
    assert [one.success for one in read.trajectories] == [*verdicts, False]
    problems = [str(one) for one in read.problems if one.kind != "contradicts"]
    assert any(said in one for one in problems) if said else problems == []
    against = [str(one) for one in read.problems if one.kind == "contradicts"]
    assert [("labels.csv: it says otherwise of 1" in one) for one in against] == [True] * bool(verdicts[0])
