"""Claude Code's sessions, and the verdicts that lie beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats.reading import read_trajectories
from trace_assets.formats.batch_files import batch_of, stands_alone
from trace_assets.formats.registry import expand

NAME = "0f3c2d1e-aaaa-4bbb-8ccc-123456789abc"


def line(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    """Return one line of a session; what an answer is made of is `more["message"]`."""
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {
        **{"parentUuid": parent, "isSidechain": False, "type": kind, "message": message, "uuid": uuid},
        **{"timestamp": "2026-03-20T05:49:18.160Z", "cwd": "/home/ann/desk", "sessionId": NAME},
        **{"version": "2.1.80", **more},
    }


def part(uuid: str, parent: str, block: dict[str, Any], answer: str = "msg_1", **more: Any) -> dict[str, Any]:
    """Return a line with one part of an answer."""
    about = {"id": answer, "model": "claude-x", "usage": {"input_tokens": 4, "output_tokens": 3}, **more}
    return line("assistant", uuid, parent, [block], message=about)


def call(name: str, number: int = 1, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}


def result(uuid: str, parent: str, content: Any, number: int = 1, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **more}
    return line("user", uuid, parent, [block])


SESSION: list[dict[str, Any]] = [
    {"type": "agent-setting", "agentSetting": "desk-agent", "sessionId": NAME},
    line("user", "u1", None, "When does berth 4 open?"),
    line("user", "u2", "u1", "<caveat>", isMeta=True),
    part("a1", "u1", {"type": "thinking", "thinking": "Look both up.", "signature": "x"}),
    part("a2", "a1", {"type": "text", "text": "I look."}),
    part("a3", "a2", call("mcp__port__get_berth", 1, berth=4)),
    result("r1", "a3", '{"opens": "07:00"}', 1),
    part("a4", "a3", call("mcp__port__get_tide", 2, berth=4), usage={"input_tokens": 5, "output_tokens": 9}),
    result("r2", "a4", [{"type": "text", "text": "no gauge"}], 2, is_error=True),
    line("assistant", "s1", "r2", [{"type": "text", "text": "a helper"}], isSidechain=True),
    part("a5", "r2", {"type": "text", "text": "At 07:00."}, "msg_2", stop_reason="end_turn"),
]


def laid(folder: Path, rows: list[dict[str, Any]] = SESSION, name: str = f"{NAME}.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def judged(folder: Path, *verdicts: dict[str, Any]) -> Path:
    path = folder / "verdicts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in verdicts))
    return path


def test_a_session_and_the_verdict_beside_it(tmp_path: Path) -> None:
    path = laid(tmp_path / "desk")
    expected = [{"name": "get_berth", "arguments": {"berth": 4}}]
    judged(path.parent, {"session": NAME, "reward": 1.0, "task_id": "berth", "expected_actions": expected})
    read = read_trajectories([path])
    assert read.problems == []
    (one,), (task,) = read.trajectories, read.tasks
    assert (one.trajectory_id, one.task_batch, one.source_id) == (f"desk/{NAME}", "desk", NAME)
    assert (one.target, one.task_id, one.policy) == ("claude_code:desk", "claude_code:desk/berth", "claude-x")
    assert (one.reward, one.success, one.stop) == (1.0, True, "completed")
    assert (one.agent, one.agent_args) == ("Claude Code", {"version": "2.1.80", "agent": "desk-agent"})
    assert (one.prompt_tokens, one.completion_tokens) == (9, 12)  # an answer's last line counts it whole
    assert [message.role for message in one.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    answer, berth, tide = one.messages[1:4]
    assert [made.name for made in answer.tool_calls] == ["get_berth", "get_tide"]
    assert answer.content == "I look." and answer.metadata["reasoning"] == "Look both up."
    assert (berth.tool_name, berth.content, berth.is_error) == ("get_berth", '{"opens": "07:00"}', False)
    assert (tide.tool_name, tide.content, tide.is_error) == ("get_tide", "no gauge", True)
    assert task.instruction == "When does berth 4 open?" and task.expected_actions[0].name == "get_berth"


def test_without_a_verdict_it_is_kept_and_says_how_to_judge_it(tmp_path: Path) -> None:
    path = laid(tmp_path / "desk")
    read = read_trajectories([path])
    assert [(one.reward, one.success) for one in read.trajectories] == [(None, None)]
    (problem,) = read.problems
    assert (problem.kind, problem.severity) == ("not_judged", "notice")
    assert f'{{"session": "{NAME}", "success": true}}' in problem.message
    beside = judged(path.parent, {"session": "another", "success": True})
    beside.write_text(beside.read_text() + "{\n")
    (problem,) = read_trajectories([path]).problems
    assert "verdicts.jsonl has no line for it" in problem.message and "line 2" in problem.message


def test_a_folder_of_sessions_is_one_batch_and_a_changed_verdict_counts(tmp_path: Path) -> None:
    paths = [laid(tmp_path / "runs", name=f"task_{number}.jsonl") for number in range(3)]
    beside = judged(
        tmp_path / "runs", {"session": "task_0", "success": True}, {"file": "task_1.jsonl", "success": False}
    )
    files, problems = expand([tmp_path])
    assert files == paths and problems == []
    read = read_trajectories([tmp_path])
    assert {one.task_batch for one in read.trajectories} == {"runs"} == {batch_of(path) for path in paths}
    assert [one.success for one in read.trajectories] == [True, False, None]
    assert not stands_alone(paths[0])
    beside.write_text(json.dumps({"session": "task_0", "success": False}) + "\n")
    assert read_trajectories(paths[:1]).trajectories[0].success is False


def test_an_answer_that_the_server_did_not_give_is_nobodys_failure(tmp_path: Path) -> None:
    limit = line("assistant", "e1", "r2", [{"type": "text", "text": "You're out of usage"}])
    limit |= {"error": "rate_limit", "isApiErrorMessage": True}
    limit["message"]["model"] = "<synthetic>"
    path = laid(tmp_path / "cut", [*SESSION[:-1], limit])
    judged(path.parent, {"session": NAME, "success": False})
    (one,) = read_trajectories([path]).trajectories
    assert (one.success, one.fault, one.error) == (None, "infrastructure", "rate_limit: You're out of usage")
    assert one.messages[-1].role == "tool" and one.policy == "claude-x"
    path = laid(tmp_path / "went_on", [*SESSION[:-1], limit, SESSION[-1]])
    judged(path.parent, {"session": NAME, "success": False})
    (one,) = read_trajectories([path]).trajectories
    assert (one.success, one.fault, one.stop, len(one.messages)) == (False, None, "completed", 5)


def test_what_was_taken_back_and_what_stands_for_the_talk_are_left_out(tmp_path: Path) -> None:
    rows = [
        *SESSION,
        line("user", "u3", "a5", "And berth 5?"),
        part("b1", "u3", {"type": "text", "text": "Unknown."}, "msg_3"),
        line("user", "u4", "b1", "Really?"),
        line("user", "u5", "a5", "And berth 6?"),
        part("b2", "u5", {"type": "text", "text": "At 08:00."}, "msg_4"),
        line("user", "u6", "b2", "This session goes on from ...", isCompactSummary=True),
    ]
    (one,) = read_trajectories([laid(tmp_path / "desk", rows)]).trajectories
    assert [message.content for message in one.messages[4:]] == ["At 07:00.", "And berth 6?", "At 08:00."]


def test_two_servers_with_one_tool_keep_their_names(tmp_path: Path) -> None:
    rows = [
        *SESSION[:6],
        part("a4", "a3", call("mcp__yard__get_berth", 2)),
        part("a5", "a4", call("mcp__yard__list_cranes", 3)),
    ]
    (one,) = read_trajectories([laid(tmp_path / "desk", rows)]).trajectories
    names = [made.name for made in one.messages[1].tool_calls]
    assert names == ["mcp__port__get_berth", "mcp__yard__get_berth", "list_cranes"]


def test_bad_lines_helpers_and_files_that_break_off(tmp_path: Path) -> None:
    path = laid(tmp_path / "desk")
    text = path.read_text().splitlines()
    path.write_text("\n".join([*text[:3], "{oh", *text[3:], '{"type": "user", "mess']))
    read = read_trajectories([path])
    assert [problem.kind for problem in read.problems] == ["left_out", "broken_off", "not_judged"]
    assert len(read.trajectories[0].messages) == 5
    helper = laid(tmp_path / "desk", [{**row, "isSidechain": True} for row in SESSION[1:]], "agent-1.jsonl")
    (problem,) = read_trajectories([path, helper]).problems[3:]
    assert (problem.path, problem.severity) == (
        str(helper),
        "notice",
    ) and "a helper's alone" in problem.message
    strange = laid(tmp_path / "odd", [{**SESSION[1], "parentUuid": [], "uuid": {}}, *SESSION[3:]])
    read = read_trajectories([path, strange])
    assert "this session is left out" in str(read.problems[-1]) and len(read.trajectories) == 1
