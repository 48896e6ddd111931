"""SWE-agent's and mini-SWE-agent's trajectories, and the reports of their evaluation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.reading import read_trajectories
from trace_assets.formats.batch_files import batch_of

CALL = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "You fix bugs.", "message_type": "system_prompt"},
    {"role": "user", "content": "A demonstration", "is_demo": True},
    {"role": "user", "content": "Mend issue 1.", "message_type": "observation"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL], "message_type": "action"},
    {"role": "tool", "content": "setup.py", "tool_call_ids": ["c1"], "message_type": "observation"},
]
INFO = {
    "exit_status": "submitted",
    "submission": "diff --git",
    "model_stats": {"instance_cost": 0.5, "tokens_sent": 900, "tokens_received": 40, "api_calls": 7},
}
STEP = {"action": "ls", "observation": "setup.py", "response": "I look.", "thought": "I look."}
DOCUMENT: dict[str, Any] = {
    "trajectory": [STEP],
    "history": HISTORY,
    "info": INFO,
    "environment": "main",
    "replay_config": json.dumps({"agent": {"model": {"name": "m-1"}}}),
}


def laid(folder: Path, instance: str = "repo__a-1", document: Any = DOCUMENT, name: str = "") -> Path:
    path = folder / instance / (name or f"{instance}.traj")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2))
    return path


def test_a_trajectory_and_what_the_evaluation_said_of_it(tmp_path: Path) -> None:
    run = tmp_path / "default__m-1__lite"
    path = laid(run)
    (run / "results.json").write_text(json.dumps({"resolved_ids": ["repo__a-1"], "submitted_ids": []}))
    read = read_trajectories([path])
    (one,) = read.trajectories
    assert read.problems == []
    assert (one.trajectory_id, one.task_batch) == ("default__m-1__lite/repo__a-1", "default__m-1__lite")
    assert (one.target, one.task_id, one.policy) == ("swe_agent", "swe_agent/repo__a-1", "m-1")
    assert (one.reward, one.success, one.stop, one.cost_usd) == (1.0, True, "completed", 0.5)
    assert (one.prompt_tokens, one.completion_tokens) == (900, 40)
    assert [message.role for message in one.messages] == ["system", "user", "assistant", "tool"]
    assert one.messages[3].tool_call_id == "c1" and one.metadata["submission"] == "diff --git"
    assert read.tasks[0].instruction == "Mend issue 1."


def test_without_a_report_nothing_is_judged(tmp_path: Path) -> None:
    read = read_trajectories([laid(tmp_path)])
    assert (read.trajectories[0].reward, read.trajectories[0].success) == (None, None)
    assert [(one.kind, one.severity) for one in read.problems] == [("not_judged", "notice")]
    assert "no report of an evaluation" in read.problems[0].message


@pytest.mark.parametrize(
    ("report", "passed"),
    [
        ({"resolved_ids": [], "unresolved_ids": ["repo__a-1"]}, False),
        ({"resolved": [], "no_generation": ["repo__a-1"]}, False),
        ({"resolved_ids": [], "submitted_ids": ["repo__a-1"]}, False),
        ({"resolved_ids": [], "submitted_ids": ["repo__a-1"], "error_ids": ["repo__a-1"]}, None),
        ({"repo__a-1": {"resolved": True}}, True),
        ({"repo__a-2": {"resolved": True}}, None),
        ([1], None),
    ],
)
def test_reports_of_every_form(tmp_path: Path, report: Any, passed: bool | None) -> None:
    path = laid(tmp_path / "run")
    (path.parent / "report.json").write_text(json.dumps(report))
    assert read_trajectories([path]).trajectories[0].success is passed


def test_mini_swe_agent_writes_commands_as_text(tmp_path: Path) -> None:
    said = "THOUGHT: I look.\n\n```bash\nls -la\n```"
    document = {
        "info": {**INFO, "exit_status": "Submitted", "config": {"model": {"model_name": "m-2"}}},
        "messages": [
            {"role": "system", "content": "You fix bugs."},
            {"role": "user", "content": "Mend issue 1."},
            {"role": "assistant", "content": said},
            {"role": "user", "content": "<output>setup.py</output>"},
            {"role": "assistant", "content": "Two:\n```bash\na\n```\n```bash\nb\n```"},
            {"role": "user", "content": "One command a message."},
        ],
        "instance_id": "repo__a-1",
        "trajectory_format": "mini-swe-agent-1",
    }
    (one,) = read_trajectories([laid(tmp_path, document=document, name="repo__a-1.traj.json")]).trajectories
    assert (one.policy, one.agent) == ("m-2", "mini-swe-agent")
    assert one.messages[2].tool_calls[0].arguments == {"command": "ls -la"}
    assert one.messages[3].role == "tool" and one.messages[3].tool_call_id == one.messages[2].tool_calls[0].id
    assert not one.messages[4].tool_calls and one.messages[5].role == "user"


def test_a_patch_of_any_length_may_stand_first(tmp_path: Path) -> None:
    info = {"exit_status": "Submitted", "submission": "diff --git\n" + "+ line\n" * 20_000}
    path = laid(tmp_path, document={"info": info, "messages": HISTORY}, name="repo__a-1.traj.json")
    assert [one.task_id for one in read_trajectories([path]).trajectories] == ["swe_agent/repo__a-1"]


def test_without_a_history_the_steps_tell(tmp_path: Path) -> None:
    (one,) = read_trajectories(
        [laid(tmp_path, document={"trajectory": [STEP, STEP], "info": {}})]
    ).trajectories
    assert [message.role for message in one.messages] == ["assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize(
    ("status", "stop", "fault"),
    [
        ("submitted (exit_context)", "context_overflow", None),
        ("submitted (exit_cost)", "unknown", None),
        ("exit_format", "agent_error", None),
        ("LimitsExceeded", "max_turns", None),
        ("exit_environment_error", "environment_error", "environment"),
        ("exit_error", "infrastructure_error", "infrastructure"),
        (None, "unknown", None),
    ],
)
def test_how_it_ended(tmp_path: Path, status: str | None, stop: str, fault: str | None) -> None:
    path = laid(tmp_path, document={**DOCUMENT, "info": {**INFO, "exit_status": status}})
    (one,) = read_trajectories([path]).trajectories
    assert (one.stop, one.fault) == (stop, fault)


@pytest.mark.parametrize("document", [[], {"history": [1], "info": {}}, {"history": [], "info": {}}])
def test_what_is_none_is_named(tmp_path: Path, document: Any) -> None:
    good = laid(tmp_path, "repo__a-2")
    read = read_trajectories([laid(tmp_path, document=document), good])
    assert len(read.trajectories) == 1
    assert any("repo__a-1.traj" in str(problem) for problem in read.problems)


def test_a_run_is_one_batch_whatever_the_layout(tmp_path: Path) -> None:
    assert batch_of(tmp_path / "run 1" / "repo__a-1.traj") == "run-1"
    assert batch_of(tmp_path / "run 1" / "repo__a-1" / "repo__a-1.traj.json") == "run-1"
