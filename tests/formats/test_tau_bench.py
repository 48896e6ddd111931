"""Results of tau-bench's first version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.reading import read_trajectories
from trace_assets.records import ExpectedAction

NAME = "tool-calling-m-1-0.0_range_0--1_user-u-1-llm_0101000000.json"
CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "cancel_order", "arguments": '{"order_id": "#W1"}'},
}
TALK: list[dict[str, Any]] = [
    {"role": "system", "content": "# Retail agent policy\n\nAsk first."},
    {"role": "user", "content": "Cancel my order #W1."},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "name": "cancel_order", "content": "Error: no such order"},
    {"role": "assistant", "content": "I could not."},
    {"role": "user", "content": "###STOP###"},
]
TASK = {
    "user_id": "u_1",
    "instruction": "You are Ann. You want order #W1 cancelled.",
    "actions": [
        {"name": "cancel_order", "kwargs": {"order_id": "#W1"}},
        {"name": "respond", "kwargs": {"content": "bye"}},
    ],
    "outputs": ["42"],
}


def result(**changes: Any) -> dict[str, Any]:
    verdict = {"reward": 0.0, "info": {"r_outputs": 0.0, "outputs": {"42": False}}}
    info = {"task": TASK, "source": "user", "user_cost": 0.01, "reward_info": verdict}
    return {"task_id": 3, "reward": 0.0, "info": info, "traj": TALK, "trial": 1, **changes}


def written(folder: Path, *rows: Any, name: str = NAME, before: str = "", indent: int | None = None) -> Path:
    path = folder / name
    path.write_text(before + json.dumps(list(rows), indent=indent), encoding="utf-8")
    return path


@pytest.mark.parametrize(("before", "indent"), [("", None), ("", 2), ("\ufeff", 2), ("\ufeff \n", None)])
def test_a_result_is_taken_whole(tmp_path: Path, before: str, indent: int | None) -> None:
    read = read_trajectories([written(tmp_path, result(), before=before, indent=indent)])
    (one,), (task,) = read.trajectories, read.tasks
    assert read.problems == []
    assert (one.target, one.task_id, one.trial) == ("tau_bench:retail", "tau_bench:retail/3", 1)
    assert (one.policy, one.user_policy, one.agent) == ("m-1", "u-1 (llm)", "tool-calling")
    assert (one.reward, one.success, one.stop) == (0.0, False, "completed")
    assert one.model_options == {"temperature": 0.0} and one.source == f"tau_bench:{NAME}"
    assert [message.role for message in one.messages] == [message["role"] for message in TALK]
    assert one.messages[2].tool_calls[0].arguments == {"order_id": "#W1"}
    assert one.messages[3].is_error, "its tools say so in words"
    assert [(check.kind, check.passed, check.detail) for check in one.checks] == [
        ("communicate", False, "42")
    ]
    assert task.instruction == TASK["instruction"] and task.has_expected
    assert task.expected_actions == (ExpectedAction(name="cancel_order", arguments={"order_id": "#W1"}),)
    assert task.expected_outputs == ("42",)


def test_lines_and_other_names_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "airline-runs.jsonl"
    talk = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    rows = [result(traj=talk, trial=trial, reward=1.0) for trial in (0, 1)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + "{broken\n")
    read = read_trajectories([path])
    assert [one.trial for one in read.trajectories] == [0, 1]
    assert {one.target for one in read.trajectories} == {"tau_bench:airline"}
    assert all(one.success and one.stop == "max_turns" for one in read.trajectories)
    assert [problem.position for problem in read.problems] == ["line 3"]


def test_a_run_that_broke_is_no_failure(tmp_path: Path) -> None:
    broken = result(traj=[], info={"error": "EOF when reading a line", "traceback": "Traceback"})
    (one,) = read_trajectories([written(tmp_path, broken)]).trajectories
    assert (one.reward, one.success, one.fault) == (None, None, "infrastructure")
    assert one.messages == ()


def test_calls_that_were_written_as_text_become_calls(tmp_path: Path) -> None:
    said = 'Thought:\nI look first.\nAction:\n{"name": "get_order", "arguments": {"order_id": "#W1"}}'
    talk = [
        {"role": "system", "content": "Policy."},
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "API output: Error: not found"},
        {"role": "assistant", "content": 'Action:\n{"name": "respond", "arguments": {"content": "Sorry."}}'},
        {"role": "user", "content": "API output: is what my screen says"},
        {"role": "assistant", "content": "Action:\nnot JSON"},
    ]
    (one,) = read_trajectories([written(tmp_path, result(traj=talk))]).trajectories
    assert [message.role for message in one.messages] == [
        *("system", "user", "assistant", "tool", "assistant", "user", "assistant"),
    ]
    call = one.messages[2].tool_calls[0]
    assert (call.name, call.arguments) == ("get_order", {"order_id": "#W1"})
    assert one.messages[3].tool_call_id == call.id and one.messages[3].is_error
    assert one.messages[4].content == "Sorry." and not one.messages[4].tool_calls
    assert one.messages[5].content == "API output: is what my screen says"
    assert one.messages[6].content == "Action:\nnot JSON"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"task_id": 1, "reward": 1.0, "info": {}, "traj": "no"}, "there is no list 'traj'"),
        ({"reward": 1.0, "info": {}, "traj": []}, "there is no 'task_id'"),
        ([1], "a result is a JSON object, not a list"),
        (result(traj=[{"role": "ghost"}]), "unknown role"),
        (result(info={"task": {"actions": [{"kwargs": {}}]}}), "has no 'name'"),
    ],
)
def test_a_result_of_no_use_is_named_and_the_others_kept(tmp_path: Path, row: Any, said: str) -> None:
    read = read_trajectories([written(tmp_path, result(), row, result(trial=2))])
    assert [one.trial for one in read.trajectories] == [1, 2]
    (problem,) = read.problems
    assert problem.position == "[1]" and said in problem.message


def test_a_file_that_breaks_off_gives_what_is_before(tmp_path: Path) -> None:
    path = written(tmp_path, result(), result(trial=2))
    path.write_text(path.read_text()[:-40])
    read = read_trajectories([path])
    assert [one.trial for one in read.trajectories] == [1]
    assert [problem.kind for problem in read.problems] == ["broken_off"]


def test_the_same_trial_twice_has_two_names(tmp_path: Path) -> None:
    read = read_trajectories([written(tmp_path, result(), result(reward=1.0))])
    assert len({one.trajectory_id for one in read.trajectories}) == 2
    assert len(read.tasks) == 1
