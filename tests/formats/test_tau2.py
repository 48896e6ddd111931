"""What a tau2 simulation file becomes, and what is said about a broken one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.reading import read_trajectories
from trace_assets.errors import InputError
from trace_assets.records import Check


def simulation(number: int, **changes: Any) -> dict[str, Any]:
    call = {"id": f"c{number}", "name": "get_order", "arguments": {"order": "W1"}, "requestor": "assistant"}
    look = {"id": f"u{number}", "name": "check_bar", "arguments": {}, "requestor": "user"}
    usage = {"prompt_tokens": 10, "completion_tokens": 3}
    return {
        "id": f"sim-{number}",
        "task_id": str(number),
        "trial": 2,
        "seed": 7,
        "termination_reason": "user_stop",
        "duration": 1.5,
        "agent_cost": 0.25,
        "reward_info": {
            "reward": 1.0,
            "db_check": {"db_match": True, "db_reward": 1.0},
            "action_checks": [
                {
                    "action": {"name": "get_order", "arguments": {}},
                    "action_match": False,
                    "action_reward": 0.0,
                }
            ],
            "env_assertions": [
                {"env_assertion": {"func_name": "assert_on"}, "met": True, "reward": 1.0},
            ],
            "nl_assertions": [{"nl_assertion": "is polite", "met": False, "justification": "it is not"}],
            "communicate_checks": [{"info": "60", "met": True, "justification": "said"}],
            "reward_basis": ["DB", "COMMUNICATE"],
        },
        "messages": [
            {"role": "assistant", "content": "Hi!", "tool_calls": None},
            {"role": "user", "content": "Where is W1?", "tool_calls": None},
            {"role": "assistant", "content": None, "tool_calls": [call], "usage": usage},
            {
                "role": "tool",
                "id": f"c{number}",
                "content": "no such order",
                "requestor": "assistant",
                "error": True,
            },
            {"role": "user", "content": None, "tool_calls": [look], "usage": {"prompt_tokens": 99}},
            {"role": "tool", "id": f"u{number}", "content": "on", "requestor": "user", "error": False},
            {"role": "user", "content": "###TRANSFER###", "tool_calls": None},
        ],
        **changes,
    }


def content(*simulations: dict[str, Any], solo: bool = False, **info: Any) -> dict[str, Any]:
    task = {
        "id": "0",
        "ticket": "Phone 555 is dead.",
        "user_scenario": {"instructions": {"reason_for_call": "Find W1.", "known_info": "You are Ann."}},
    }
    return {
        "timestamp": "2026-01-01",
        "info": {
            "agent_info": {"implementation": "llm_agent_solo" if solo else "llm_agent", "llm": "m-1"},
            "user_info": {"llm": "u-1"},
            "environment_info": {"domain_name": "shop"},
            **info,
        },
        "tasks": [task, {**task, "id": "1"}, {**task, "id": "2"}],
        "simulations": list(simulations),
    }


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def test_provenance_messages_and_checks(tmp_path: Path) -> None:
    imported = read_trajectories([write(tmp_path / "m-1 shop.json", content(simulation(0)))])
    (trajectory,) = imported.trajectories
    assert imported.problems == []
    assert (trajectory.trajectory_id, trajectory.task_id) == ("sim-0", "tau2:shop/0")
    assert (trajectory.target, trajectory.trial, trajectory.seed) == ("tau2:shop", 2, 7)
    assert (trajectory.policy, trajectory.user_policy) == ("m-1", "u-1")
    assert (trajectory.success, trajectory.reward, trajectory.stop) == (True, 1.0, "transferred")
    assert (trajectory.prompt_tokens, trajectory.completion_tokens) == (10, 3), (
        "the user's tokens are not counted"
    )
    assert trajectory.cost_usd == 0.25
    assert trajectory.n_messages == len(trajectory.messages) == 7
    result, seen = trajectory.messages[3], trajectory.messages[5]
    assert (result.tool_name, result.tool_call_id, result.is_error) == ("get_order", "c0", True)
    assert (seen.tool_name, seen.requestor, seen.is_error) == ("check_bar", "user", False)
    gates = {check.name: (check.kind, check.passed, check.gates) for check in trajectory.checks}
    assert gates["db"] == ("state", True, True)
    assert gates["action/0/get_order"] == ("action", False, False)
    assert gates["communicate/0"] == ("communicate", True, True)
    assert gates["nl_assertion/0"] == ("judge", False, False)
    assert imported.tasks[0].instruction == "Find W1.\n\nYou are Ann."
    assert imported.tasks[0].payload["task"]["id"] == "0"


def test_solo_agents_are_a_target_of_their_own_and_read_their_ticket(tmp_path: Path) -> None:
    imported = read_trajectories([write(tmp_path / "a.json", content(simulation(0), solo=True))], "tau2")
    (trajectory,) = imported.trajectories
    assert trajectory.target == "tau2:shop_solo"
    assert trajectory.user_policy is None
    assert trajectory.messages[0].role == "user"
    assert trajectory.messages[0].content == imported.tasks[0].instruction == "Phone 555 is dead."


@pytest.mark.parametrize("info", [None, {"reward": None}, {"reward": "1"}, {"reward": float("nan")}])
def test_without_a_reward_it_is_kept_as_not_judged(tmp_path: Path, info: Any) -> None:
    path = write(tmp_path / "a.json", content(simulation(0), simulation(1, reward_info=info)))
    imported = read_trajectories([path])
    assert [trajectory.success for trajectory in imported.trajectories] == [True, None]
    assert imported.trajectories[1].reward is None
    (problem,) = imported.problems
    assert (problem.position, problem.severity) == ("simulations[1]", "notice")
    assert "not judged" in str(problem)


def test_an_infrastructure_error_is_never_a_reward_of_zero(tmp_path: Path) -> None:
    broken = simulation(0, termination_reason="infrastructure_error", reward_info={"reward": 0.0})
    (trajectory,) = read_trajectories([write(tmp_path / "a.json", content(broken))]).trajectories
    assert (trajectory.reward, trajectory.success, trajectory.fault) == (None, None, "infrastructure")


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        ({"messages": None}, "messages"),
        ({"id": None}, "'id'"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "robot"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]}, "without a name"),
        ({"seed": "seven"}, "seed"),
    ],
)
def test_a_damaged_simulation_is_named_and_the_others_are_kept(
    tmp_path: Path, damage: dict[str, Any], word: str
) -> None:
    path = write(tmp_path / "a.json", content(simulation(0), simulation(1, **damage), simulation(2)))
    imported = read_trajectories([path])
    assert [trajectory.trajectory_id for trajectory in imported.trajectories] == ["sim-0", "sim-2"]
    (problem,) = imported.problems
    assert problem.severity == "error"
    assert problem.position == "simulations[1]"
    assert word in problem.message
    assert str(problem).startswith(str(path)) and str(problem).endswith(".") and "\n" not in str(problem)


def test_a_truncated_file_gives_the_simulations_before_the_break(tmp_path: Path) -> None:
    text = json.dumps(content(simulation(0), simulation(1), simulation(2)), indent=1)
    cut = text.index('"sim-2"') + 400
    imported = read_trajectories([write(tmp_path / "cut.json", text[:cut])])
    assert [trajectory.trajectory_id for trajectory in imported.trajectories] == ["sim-0", "sim-1"]
    (problem,) = imported.problems
    assert problem.position.startswith("simulations[2] at byte ") and "2 simulations" in problem.message
    whole = read_trajectories([write(tmp_path / "whole.json", text)])
    assert whole.trajectories[0].messages == imported.trajectories[0].messages


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_no_cut_makes_up_a_trajectory(tmp_path: Path, share: float) -> None:
    text = json.dumps(content(simulation(0), simulation(1), simulation(2)))
    good = {
        t.trajectory_id: t.messages
        for t in read_trajectories([write(tmp_path / "ok.json", text)]).trajectories
    }
    path = write(tmp_path / "cut.json", text[: int(len(text) * share)])
    try:
        found = read_trajectories([path], "tau2").trajectories
    except InputError as error:
        assert "cut.json" in str(error)
    else:
        assert all(good[trajectory.trajectory_id] == trajectory.messages for trajectory in found)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("role,content\nuser,hi", "not JSON"),
        ("", "empty"),
        ('{"prompt": 1, "answer": 2}', "'prompt', 'answer'"),
        ("[1, 2]", "JSON list"),
        ('{"info": {"agent_info": {}, "user_info": {}}, "simulations": []}', "domain_name"),
        ('{"agent_info": 1, "user_info": 2}', "'simulations'"),
    ],
)
def test_wrong_files_get_one_sentence_and_the_good_ones_are_read(
    tmp_path: Path, text: str, word: str
) -> None:
    bad, good = write(tmp_path / "bad.json", text), write(tmp_path / "good.json", content(simulation(0)))
    imported = read_trajectories([bad, good, tmp_path / "missing.json"])
    assert len(imported.trajectories) == 1
    first, missing = imported.problems
    assert word in str(first) and "bad.json" in str(first)
    assert "missing.json" in str(missing) and "cannot be opened" in str(missing)


def test_nothing_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trajectory could be read"):
        read_trajectories([write(tmp_path / "bad.json", "hello")])
    with pytest.raises(InputError, match=r"'messages'.*'reward'.*'task_id'.*'trial'.*'model'.*'user_policy'"):
        read_trajectories([write(tmp_path / "other.json", '{"prompt": 1}')])
    with pytest.raises(InputError, match="no file was named"):
        read_trajectories([])
    with pytest.raises(InputError, match="choose one of auto, tau2"):
        read_trajectories([tmp_path / "a.json"], format="tau3")


def test_duplicates_are_kept_once_in_one_file_and_over_files(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", content(simulation(0), simulation(0), simulation(1)))
    two = write(tmp_path / "two.json", content(simulation(1, reward_info={"reward": 0.0}), simulation(2)))
    imported = read_trajectories([one, two])
    assert [trajectory.trajectory_id for trajectory in imported.trajectories] == ["sim-0", "sim-1", "sim-2"]
    assert [problem.severity for problem in imported.problems] == ["notice", "error"]
    assert "tau2:one.json" in str(imported.problems[1])
    assert len(imported.tasks) == len({task.task_id for task in imported.tasks}) == 3


def test_reading_twice_gives_equal_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", content(simulation(0), simulation(1)))
    assert read_trajectories([path]) == read_trajectories([path])


def test_a_task_that_reads_otherwise_in_another_file_is_told_of(tmp_path: Path) -> None:
    other = content(simulation(0, id="other"))
    other["tasks"][0]["user_scenario"]["instructions"]["reason_for_call"] = "Find W2."
    paths = [write(tmp_path / "a.json", content(simulation(0))), write(tmp_path / "b.json", other)]
    imported = read_trajectories(paths)
    (problem,) = imported.problems
    assert problem.severity == "notice" and "reads otherwise" in str(problem)
    assert "W1" in imported.tasks[0].instruction


def test_check_names_are_unique(tmp_path: Path) -> None:
    (trajectory,) = read_trajectories([write(tmp_path / "a.json", content(simulation(0)))]).trajectories
    names = [check.name for check in trajectory.checks if isinstance(check, Check)]
    assert len(names) == len(set(names)) == 5
