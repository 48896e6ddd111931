"""Later layouts of tau2-bench: folders with a file for each simulation, and files without `info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.reading import read_trajectories

TASK = {
    "id": "0",
    "user_scenario": {"instructions": {"domain": "retail", "reason_for_call": "You want a refund."}},
    "evaluation_criteria": {
        "actions": [
            {"action_id": "0_0", "name": "refund", "arguments": {"order": "W1"}, "requestor": "assistant"}
        ],
        "communicate_info": ["42"],
    },
}
INFO = {
    "git_commit": "abc",
    "num_trials": 1,
    "agent_info": {"implementation": "llm_agent", "llm": "m-1"},
    "user_info": {"implementation": "user_simulator", "llm": "u-1"},
    "environment_info": {"domain_name": "retail", "policy": "Ask first."},
}


def simulation(number: int = 0, **changes: Any) -> dict[str, Any]:
    check = {"action": TASK["evaluation_criteria"]["actions"][0], "action_match": False}  # type: ignore[index]
    return {
        "id": f"s{number}",
        "task_id": "0",
        "trial": number,
        "termination_reason": "user_stop",
        "reward_info": {"reward": 0.0, "action_checks": [check]},
        "messages": [
            {"role": "assistant", "content": "Hi!", "raw_data": {"model": "m-9"}},
            {"role": "user", "content": "###STOP###"},
        ],
        **changes,
    }


def laid(folder: Path, head: dict[str, Any], *simulations: Any) -> Path:
    (folder / "simulations").mkdir(parents=True)
    for one in simulations:
        text = one if isinstance(one, str) else json.dumps(one)
        name = "broken" if isinstance(one, str) else one["id"]
        (folder / "simulations" / f"{name}.json").write_text(text)
    path = folder / "results.json"
    path.write_text(json.dumps(head))
    return path


def test_a_run_with_a_file_for_each_simulation(tmp_path: Path) -> None:
    head = {"timestamp": "t", "info": INFO, "tasks": [TASK], "simulation_index": [{"id": "s0"}, {"id": "s7"}]}
    read = read_trajectories([laid(tmp_path / "m-1 retail", head, simulation(), simulation(1), "{")])
    assert [one.trajectory_id for one in read.trajectories] == ["s0", "s1"]
    (task,) = read.tasks
    assert {one.task_batch for one in read.trajectories} == {"m-1-retail"}
    assert (task.target, task.domain_policy) == ("tau2:retail", "Ask first.")
    assert "You want a refund." in task.instruction
    assert [action.name for action in task.expected_actions] == ["refund"]
    assert task.expected_outputs == ("42",)
    assert sorted(problem.kind for problem in read.problems) == ["broken_off", "incomplete"]
    assert any("such as s7" in problem.message for problem in read.problems)


def test_one_of_its_simulations_alone_is_read_with_its_runs_head(tmp_path: Path) -> None:
    path = laid(tmp_path / "run", {"timestamp": "t", "info": INFO, "tasks": [TASK]}, simulation())
    (one,) = read_trajectories([path.parent / "simulations" / "s0.json"]).trajectories
    assert (one.target, one.policy, one.task_batch) == ("tau2:retail", "m-1", "run")


def test_a_simulation_without_its_run_tells_what_was_checked(tmp_path: Path) -> None:
    path = tmp_path / "loose" / "s0.json"
    path.parent.mkdir()
    path.write_text(json.dumps(simulation()))
    read = read_trajectories([path])
    (one,), (task,) = read.trajectories, read.tasks
    assert (one.target, one.policy, one.success) == ("tau2:loose", "m-9", False)
    assert task.has_expected and [action.name for action in task.expected_actions] == ["refund"]


def test_what_was_spoken_is_named(tmp_path: Path) -> None:
    head = {"timestamp": "t", "info": INFO, "tasks": [TASK]}
    read = read_trajectories(
        [laid(tmp_path, head, simulation(), simulation(1, messages=None, ticks=[{"a": 1}]))]
    )
    assert len(read.trajectories) == 1
    assert "audio" in read.problems[0].message


def test_a_file_without_info_takes_domain_and_model_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "m-1_retail_default_u-1_4trials.json"
    path.write_text(json.dumps({"tasks": [TASK], "simulations": [simulation()]}))
    (one,) = read_trajectories([path]).trajectories
    assert (one.target, one.policy) == ("tau2:retail", "m-1")
    path.write_text("\ufeff" + json.dumps({"tasks": [TASK], "simulations": [simulation()]}, indent=1))
    assert read_trajectories([path]).trajectories[0].target == "tau2:retail"


def test_a_file_that_names_no_domain_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    bare = {"id": "0", "user_scenario": "x", "evaluation_criteria": None}
    path.write_text(json.dumps({"tasks": [bare], "simulations": [simulation()]}))
    good = laid(tmp_path / "run", {"timestamp": "t", "info": INFO, "tasks": [TASK]}, simulation(5))
    read = read_trajectories([path, good])
    assert len(read.trajectories) == 1 and "names the domain" in read.problems[0].message
