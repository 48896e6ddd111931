"""Logs of other programs, in their own forms: what they become, and what is said about bad ones."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.formats import test_claude_code, test_swe_agent, test_tau2_layouts, test_tau_bench
from tests.formats.forms import CALL, CHAT, USER, lines, one
from tests.formats.reading import Imported, read_trajectories
from tests.formats.span_forms import FORMS
from tests.formats.test_inspect import RUN, SAMPLE, archive
from tests.quick import examples
from trace_assets.errors import InputError
from trace_assets.formats.atif import AtifImporter
from trace_assets.formats.registry import IMPORTERS, choose
from trace_assets.records import Trajectory
from trace_assets.records.base import Json


def test_openai_chat_is_taken_whole(tmp_path: Path) -> None:
    row = {
        "messages": CHAT,
        "reward": 1.0,
        "id": 7,
        "task_id": "sum",
        "target": "calc",
        "model": "m",
        "tools": [{"type": "function"}],
        "usage": {"input_tokens": 5, "output_tokens": 2},
        "cost": 0.5,
        "scores": {"format": 0.5, "polite": True},
        "finish_reason": "stop",
        "extra": 3,
    }
    path = lines(tmp_path / "chat run.jsonl", row)
    got = one(path)
    assert (got.trajectory_id, got.task_id, got.target) == ("chat-run/7", "calc/sum", "calc")
    assert (got.success, got.reward, got.stop, got.policy) == (True, 1.0, "completed", "m")
    assert (got.prompt_tokens, got.completion_tokens, got.cost_usd) == (5, 2, 0.5)
    assert [(check.name, check.score, check.gates) for check in got.checks] == [
        ("format", 0.5, False),
        ("polite", 1.0, False),
    ]
    assert got.metadata == {"tools": [{"type": "function"}], "extra": 3}
    developer, _, calls, result, _ = got.messages
    assert developer.role == "system" and developer.metadata == {"role": "developer"}
    assert calls.tool_calls[0].arguments == {"x": 1, "y": 1} and calls.metadata == {"reasoning": "hm"}
    assert (result.content, result.tool_name) == ("2", "add")
    assert choose(path).name == "openai_chat"  # type: ignore[union-attr]


_ASKED = {"x": 1, "y": 1}
BLOCKS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            USER,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "I add."},
                    {"type": "tool_use", "id": "c1", "name": "add", "input": _ASKED},
                    {"type": "tool_use", "id": "c2", "name": "add", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "2"}]},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "no x", "is_error": True},
                    {"type": "text", "text": "Go on."},
                ],
            },
        ],
    },
    "gemini": {
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": USER["content"]}]},
            {
                "role": "model",
                "parts": [
                    {"text": "I add."},
                    {"functionCall": {"name": "add", "args": _ASKED}},
                    {"functionCall": {"name": "add", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "add", "response": {"result": 2}}},
                    {"functionResponse": {"name": "add", "response": {"error": "no x"}}},
                    {"text": "Go on."},
                ],
            },
        ],
    },
    "langchain": {
        "messages": [
            {"type": "system", "content": "Be brief."},
            {"type": "human", "data": {"content": USER["content"]}},
            {
                "type": "ai",
                "content": "I add.",
                "tool_calls": [
                    {"name": "add", "args": _ASKED, "id": "c1"},
                    {"name": "add", "args": {}, "id": "c2"},
                ],
            },
            {"type": "tool", "tool_call_id": "c1", "content": "2"},
            {"type": "tool", "tool_call_id": "c2", "content": "no x", "status": "error"},
            {"type": "human", "content": "Go on."},
        ],
    },
}


@pytest.mark.parametrize("form", BLOCKS)
def test_calls_and_results_are_read_wherever_a_models_messages_have_them(tmp_path: Path, form: str) -> None:
    read = one(lines(tmp_path / "a.jsonl", {**BLOCKS[form], "success": True}))
    assert [message.role for message in read.messages] == [
        *("system", "user", "assistant", "tool", "tool", "user")
    ]
    answer, first, second = read.messages[2:5]
    assert read.messages[0].content == "Be brief." and answer.content == "I add."
    assert [call.arguments for call in answer.tool_calls] == [_ASKED, {}]
    assert [message.tool_call_id for message in (first, second)] == [call.id for call in answer.tool_calls]
    assert (first.tool_name, first.is_error, second.is_error) == ("add", False, True)
    assert first.content == "2" and "no x" in (second.content or "")


def test_the_old_function_form_and_broken_arguments(tmp_path: Path) -> None:
    chat = [
        USER,
        {"role": "assistant", "function_call": {"name": "add", "arguments": '{"x": 1'}},
        {"role": "function", "name": "add", "content": "2"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {}}],
        },
    ]
    got = one(lines(tmp_path / "a.jsonl", {"messages": chat, "success": False}))
    assert got.messages[1].tool_calls[0].arguments == {"raw": '{"x": 1'}
    assert (got.messages[2].role, got.messages[2].tool_call_id) == ("tool", got.messages[1].tool_calls[0].id)
    assert got.messages[3].content == "See\n[image_url]" and len(got.messages[3].metadata["content"]) == 2
    assert (got.success, got.reward) == (False, 0.0)


def test_calls_and_parts_as_agentdojo_writes_them(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "content": "Which seats are left?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"function": "find_seats", "args": {"course": "C-101"}, "id": "c1"}],
        },
        {"role": "tool", "content": [{"type": "text", "content": "14"}], "tool_call_id": "c1", "error": None},
    ]
    row = {"messages": messages, "success": True}
    asked, called, answered = one(lines(tmp_path / "a.jsonl", row)).messages
    assert (asked.content, answered.content) == ("Which seats are left?", "14")
    (call,) = called.tool_calls
    assert (call.name, call.arguments, answered.tool_name) == ("find_seats", {"course": "C-101"}, call.name)


@pytest.mark.parametrize(
    ("kept", "read"),
    [
        ('{"type":"text","text":"[FILE] a.md\\n[DIR] b"}', "[FILE] a.md\n[DIR] b"),
        (
            '[{"type": "text", "text": "one", "annotations": null}, {"type": "text", "text": "two"}]',
            "one\ntwo",
        ),
        ('{"type":"text","text":"of a record","size":3}', None),
        ('{"type":"text","text":5}', None),
        ('{"type":"text","text":"broken', None),
    ],
)
def test_text_blocks_that_a_client_kept_as_json_text_are_read(
    tmp_path: Path, kept: str, read: str | None
) -> None:
    call = {"id": "c1", "function": {"name": "list_files", "arguments": "{}"}}
    chat = [
        {"role": "user", "content": kept},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": kept},
    ]
    asked, _, answered = one(lines(tmp_path / "a.jsonl", {"messages": chat, "pass": False})).messages
    assert (asked.content, answered.content) == (kept, kept if read is None else read)


@pytest.mark.parametrize(
    ("row", "reward", "success", "word"),
    [
        ({}, None, None, "there is no reward"),
        ({"pass": False}, 0.0, False, ""),
        ({"pass": "maybe"}, None, None, "neither true nor false"),
        ({"reward": "good"}, None, None, "is no number"),
        ({"reward": float("nan")}, None, None, "is no number"),
        ({"reward": {"a": 1, "b": 0}}, None, None, "there is no reward"),
        ({"reward": {"a": 1, "total": 0.5}}, 0.5, False, ""),
        ({"reward": 30}, 30.0, None, "add a true or false 'success'"),
        ({"reward": 30, "success": True}, 30.0, True, ""),
        ({"reward": 0.0, "error": "connection reset"}, None, None, "the run broke"),
        ({"reward": 0.0, "error": {"type": "APIError", "message": "500"}}, None, None, "APIError: 500"),
    ],
)
def test_no_verdict_is_never_a_zero(
    tmp_path: Path, row: dict[str, Any], reward: float | None, success: bool | None, word: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"messages": CHAT, **row}))
    imported = read_trajectories([path])
    (got,) = imported.trajectories
    assert (got.reward, got.success) == (reward, success)
    assert [word in str(problem) and problem.severity == "notice" for problem in imported.problems] == (
        [True] if word else []
    )


def test_overflow_and_truncation_are_the_agents_own(tmp_path: Path) -> None:
    error = {"messages": CHAT, "reward": 0, "error": "This model's maximum context length is 8192 tokens"}
    assert one(lines(tmp_path / "a.jsonl", error)).stop == "context_overflow"
    cut = one(lines(tmp_path / "b.jsonl", {"messages": CHAT, "reward": 0, "finish_reason": "length"}))
    assert (cut.limit, cut.fault, cut.success) == ("tokens", None, False)


def test_equal_prompts_are_one_task(tmp_path: Path) -> None:
    rows = [{"messages": CHAT, "reward": n} for n in (0, 1)] + [{"messages": [{**USER, "content": "x"}]}]
    imported = read_trajectories([lines(tmp_path / "a.jsonl", *rows)])
    first, second, third = (trajectory.task_id for trajectory in imported.trajectories)
    assert first == second != third and len(imported.tasks) == 2
    assert imported.tasks[0].instruction == "Add 1 and 1."


def test_bad_lines_are_named_and_the_others_kept(tmp_path: Path) -> None:
    good = {"messages": CHAT, "reward": 1, "id": "good-conversation-1"}
    bad = [
        "{broken",
        "[1]",
        {"messages": 3},
        {"messages": [{"role": "robot"}]},
        {"messages": CHAT, "seed": "x"},
    ]
    imported = read_trajectories([lines(tmp_path / "a.jsonl", good, *bad)], "openai_chat")
    assert [trajectory.trajectory_id for trajectory in imported.trajectories] == ["good-conversation-1"]
    assert [problem.position for problem in imported.problems] == [f"line {n}" for n in range(2, 7)]
    for problem, word in zip(
        imported.problems, ("not JSON", "list", "'messages'", "robot", "seed"), strict=True
    ):
        assert word in problem.message and "\n" not in str(problem)
    torn = tmp_path / "torn.jsonl"
    torn.write_text(json.dumps(good) + "\n" + json.dumps(good)[:40])
    assert [problem.kind for problem in read_trajectories([torn]).problems] == ["broken_off"]


ATIF = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s-1",
    "agent": {"name": "terminus", "version": "2", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "List files.", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 2,
            "source": "agent",
            "message": "",
            "reasoning_content": "ls",
            "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": "c", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 10, "completion_tokens": 3, "cost_usd": 0.1},
        },
    ],
}


def test_atif_with_the_verdict_of_harbors_trial(tmp_path: Path) -> None:
    folder = tmp_path / "trial" / "agent"
    folder.mkdir(parents=True)
    (folder / "trajectory.json").write_text(json.dumps(ATIF, indent=2))
    imported = read_trajectories([folder / "trajectory.json"])
    (got,) = imported.trajectories
    assert got.success is None and "no reward" in str(imported.problems[0])
    assert [said.role for said in got.messages] == ["user", "assistant", "tool"]
    assert got.messages[1].metadata == {"reasoning": "ls"} and got.messages[2].tool_name == "bash"
    assert (got.prompt_tokens, got.completion_tokens, got.cost_usd) == (10, 3, 0.1)
    assert (got.agent, got.agent_args, got.policy, got.date) == (
        "terminus",
        {"version": "2"},
        "m",
        "2026-01-01T00:00:00Z",
    )
    result = {"task_name": "files", "verifier_result": {"rewards": {"reward": 1.0}}}
    (folder.parent / "result.json").write_text(json.dumps(result))
    judged = one(folder / "trajectory.json")
    assert (judged.success, judged.task_id) == (True, "atif:trajectory/files")
    result = {"verifier_result": None, "exception_info": {"exception_message": "docker died"}}
    (folder.parent / "result.json").write_text(json.dumps(result))
    assert one(folder / "trajectory.json").fault == "infrastructure"


def node(parent: int | None, **message: Any) -> dict[str, Any]:
    return {"parent": parent, "message": message, "sampled": message["role"] == "assistant"}


def episode(**trace: Any) -> dict[str, Any]:
    found = {
        "version": 1,
        "id": "trace-1",
        "task": {"type": "Add", "data": {"name": "sum"}},
        "agent": {"config": {"model": "m", "sampling": {"temperature": 1.0}}, "name": "solver"},
        "nodes": [
            node(None, role="user", content="Add."),
            node(0, role="assistant", content="draft"),
            node(0, role="assistant", tool_calls=[{"id": "c", "name": "add", "arguments": "{}"}]),
            node(2, role="tool", tool_call_id="c", content="2"),
        ],
        "calls": [
            {"model": "m", "usage": {"prompt_tokens": 4, "completion_tokens": 1, "cached_input_tokens": 6}}
        ],
        "rewards": {"right": {"score": 1.0, "weight": 1.0}, "short": {"score": 0.5, "weight": 0.5}},
        "ok": True,
        "is_completed": True,
        "stop_condition": "agent_completed",
        **trace,
    }
    return {"id": "ep", "env": {"id": "calc"}, "task": found["task"], "traces": [found], "ok": found["ok"]}


def test_verifiers_episodes(tmp_path: Path) -> None:
    got = one(lines(tmp_path / "traces.jsonl", episode()))
    assert (got.trajectory_id, got.task_id, got.policy) == ("trace-1", "verifiers:calc/sum", "m")
    assert [said.content for said in got.messages] == ["Add.", None, "2"], "the last branch"
    assert (got.reward, got.success, got.stop) == (1.25, False, "completed")
    assert [(check.name, check.passed, check.gates) for check in got.checks] == [
        ("right", True, True),
        ("short", False, True),
    ]
    assert (got.prompt_tokens, got.completion_tokens) == (10, 1)
    assert got.metadata["branches"] == 2
    full = {"right": {"score": 1.0, "weight": 1.0}, "short": {"score": 1.0, "weight": 0.5}}
    assert one(lines(tmp_path / "b.jsonl", episode(rewards=full))).success is True


@pytest.mark.parametrize(
    ("changes", "fault", "stop"),
    [
        ({"ok": False, "errors": [{"type": "ProviderError", "message": "502"}]}, "infrastructure", None),
        ({"ok": False, "errors": [{"type": "TaskError", "message": "boom"}]}, "environment", None),
        ({"stop_condition": "context_length"}, None, "context_overflow"),
        ({"stop_condition": "max_turns"}, None, "max_turns"),
    ],
)
def test_how_a_trace_ended(
    tmp_path: Path, changes: dict[str, Any], fault: str | None, stop: str | None
) -> None:
    got = one(lines(tmp_path / "traces.jsonl", episode(**changes)))
    assert got.fault == fault and (got.reward is None) == (fault is not None)
    assert stop is None or got.stop == stop


def test_other_agents_of_an_episode_are_not_the_policy(tmp_path: Path) -> None:
    whole = episode()
    user = {**whole["traces"][0], "id": "trace-2", "agent": {"config": {"model": "u"}, "trainable": False}}
    whole["traces"].append(user)
    got = one(lines(tmp_path / "traces.jsonl", whole))
    assert (got.trajectory_id, got.user_policy) == ("trace-1", "u")


def test_results_of_verifiers_version_0(tmp_path: Path) -> None:
    row = {
        "example_id": 3,
        "prompt": [USER],
        "completion": [{"role": "assistant", "tool_calls": [json.dumps(CALL)]}],
        "reward": 1.0,
        "task": "calc",
        "metrics": {"format": 1.0},
        "token_usage": {"input_tokens": 7.0, "output_tokens": 2.0},
        "is_truncated": True,
    }
    imported = read_trajectories(
        [lines(tmp_path / "results.jsonl", row, {**row, "error": "x", "reward": 0.0})]
    )
    got, broken = imported.trajectories
    assert (got.task_id, got.success, got.limit) == ("verifiers:calc/3", True, "tokens")
    assert got.messages[1].tool_calls[0].name == "add" and got.prompt_tokens == 7
    assert (broken.reward, broken.fault) == (None, "infrastructure")


def test_every_format_is_told_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    files = {
        "inspect": archive(tmp_path / "a.bin", [SAMPLE]),
        "atif": lines(tmp_path / "b.bin", ATIF),
        "verifiers": lines(tmp_path / "c.bin", episode()),
        "openai_chat": lines(tmp_path / "d.bin", {"messages": CHAT}),
        "tau_bench": lines(tmp_path / "e.bin", test_tau_bench.result()),
        "swe_agent": lines(tmp_path / "f.bin", test_swe_agent.DOCUMENT),
        "tau2_folder": lines(tmp_path / "g.bin", test_tau2_layouts.simulation()),
        "claude_code": lines(tmp_path / "h.bin", *test_claude_code.SESSION),
    }
    files |= {f"spans {name}": lines(tmp_path / f"{name}.bin", form()) for name, form in FORMS.items()}
    for name, path in files.items():
        fitting = [importer.name for importer in IMPORTERS[:-1] if importer.sniff(path, path.read_bytes())]
        assert fitting == [name.split()[0]]
    imported = read_trajectories(files.values())
    named = {one.source.partition(":")[0] for one in imported.trajectories}
    assert named == {name.split()[0] for name in files} - {"tau2_folder"} | {"tau2"}


def test_a_file_that_could_be_two_things_asks_for_the_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AtifImporter, "sniff", lambda self, path, head: True)
    path = lines(tmp_path / "a.jsonl", {"messages": CHAT, "reward": 1})
    good = lines(tmp_path / "b.jsonl", {"messages": CHAT, "reward": 1})
    problems = read_trajectories([path], "openai_chat").problems
    assert problems == []
    problem = choose(good)
    assert "--format" in str(problem) and "atif and openai_chat" in str(problem)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def good_ones() -> dict[str, tuple[str, Any]]:
    """Return a sound file of each format by name, and the format."""
    info = {"agent_info": {}, "user_info": {}, "environment_info": {"domain_name": "d"}}
    simulation = {"id": "s", "task_id": "t", "messages": CHAT[1:2], "reward_info": {"reward": 1}}
    found = {
        "openai_chat": {
            **{"messages": CHAT, "reward": 1, "usage": {"prompt_tokens": 1}, "error": None},
            "expected_actions": [{"name": "add", "arguments": {"x": 1}}],
        },
        "verifiers": episode(),
        "atif": ATIF,
        "inspect": {**RUN, "samples": [SAMPLE]},
        "tau2": {"info": info, "tasks": [], "simulations": [simulation]},
        "tau2_folder": {**simulation, "termination_reason": "user_stop"},
        "tau_bench": [test_tau_bench.result()],
        "swe_agent": test_swe_agent.DOCUMENT,
        "claude_code": test_claude_code.SESSION[6],
    }
    spans = {f"spans of {name}": ("spans", form()) for name, form in FORMS.items()}
    return {name: (name, value) for name, value in found.items()} | spans


@pytest.mark.parametrize("name", good_ones())
@given(data=st.data())
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_content_makes_a_reader_raise(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """One value of a good row is replaced by anything: the row is read or told of, nothing else."""
    format, good = good_ones()[name]
    row = json.loads(json.dumps(good))
    place: Any = row
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(junk)
    path = tmp_path_factory.mktemp("junk") / "a.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    importer = next(one for one in IMPORTERS if one.name == format)
    for item in importer.read(path):
        assert isinstance(item, Trajectory) or str(item)


@pytest.mark.parametrize(
    ("said", "success"),
    [
        ("false", False),
        (" True", True),
        (0, False),
        (1.0, True),
        ("no", None),
        (3, None),
        ([], None),
        (None, True),
    ],
)
def test_a_success_that_is_no_truth_value_never_lets_the_reward_decide(
    tmp_path: Path, said: object, success: bool | None
) -> None:
    path = lines(tmp_path / "a.jsonl", {"messages": CHAT, "reward": 1.0, "success": said})
    read = read_trajectories([path])
    assert [(t.reward, t.success) for t in read.trajectories] == [(1.0, success)]
    kind = {None: ["not_judged"], False: ["contradicts"], True: []}[success]
    assert [problem.kind for problem in read.problems] == kind


def test_a_reward_that_contradicts_the_verdict_is_told_of(tmp_path: Path) -> None:
    said = [(0, True), (1, False), (0.5, True), (0.5, False), (-3, True), (80, False), (0, False), (1, True)]
    rows = [{"messages": CHAT, "reward": reward, "success": success} for reward, success in said]
    read = read_trajectories([lines(tmp_path / "a.jsonl", *rows)])
    assert [one.success for one in read.trajectories] == [success for _, success in said]
    assert [(problem.position, problem.kind) for problem in read.problems] == [
        ("line 1", "contradicts"),
        ("line 2", "contradicts"),
    ]
    assert "the reward 0 and the success 'true' contradict each other" in str(read.problems[0])


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ({"type": None, "message": None}, None),
        ("None", None),
        (float("nan"), None),
        ({"type": None, "message": "boom"}, "infrastructure"),
        ("boom", "infrastructure"),
        (True, "infrastructure"),
    ],
)
def test_an_error_that_says_nothing_is_none(tmp_path: Path, error: object, fault: str | None) -> None:
    read = read_trajectories([lines(tmp_path / "a.jsonl", {"messages": CHAT, "reward": 1.0, "error": error})])
    assert [(one.fault, one.success) for one in read.trajectories] == [(fault, None if fault else True)]


def test_whether_a_result_is_an_error_is_read_as_text_too(tmp_path: Path) -> None:
    said = [{"is_error": "false"}, {"is_error": "True"}, {"error": "null"}, {"error": "no such order"}, {}]
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}]}
    rows = [
        {"messages": [*CHAT, call, {"role": "tool", "tool_call_id": "c", "content": "x", **one}], "reward": 1}
        for one in said
    ]
    read = read_trajectories([lines(tmp_path / "a.jsonl", *rows)])
    results = [one.messages[-1] for one in read.trajectories]
    assert [one.is_error for one in results] == [False, True, False, True, False]
    assert [one.metadata for one in results] == [{}, {}, {}, {"error": "no such order"}, {}]


def test_a_number_names_its_task_with_and_without_a_fraction(tmp_path: Path) -> None:
    names = [7, 7.0, float("nan"), None]
    rows = [{"messages": CHAT, "reward": 1.0, "target": "x", "task_id": name} for name in names]
    tasks = [one.task_id for one in read_trajectories([lines(tmp_path / "a.jsonl", *rows)]).trajectories]
    assert tasks[:2] == ["x/7", "x/7"] and tasks[2] == tasks[3] and tasks[2].startswith("x/prompt-")


def test_rows_that_tell_otherwise_of_one_task_are_told_of_once(tmp_path: Path) -> None:
    """Tasks of two domains are numbered alike, and nothing says which domain a row is of."""
    told = ["Cancel K1.", "Cancel K1.", "Move berth 4.", "Move berth 4.", None]
    rows = [
        {"messages": CHAT, "reward": 1.0, "task_id": "1", **({"instruction": one} if one else {})}
        for one in told
    ]
    read = read_trajectories([lines(tmp_path / "a.jsonl", *rows)])
    assert [one.instruction for one in read.tasks] == ["Cancel K1."] and len(read.trajectories) == 5
    (problem,) = read.problems
    assert (problem.position, problem.kind, problem.severity) == ("line 3", "other_task", "notice")


def test_a_table_gives_no_call_the_arguments_of_others(tmp_path: Path) -> None:
    """A column of objects has the fields of all its rows."""

    def row(name: str, arguments: Json, asked: str) -> Json:
        call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
        return {
            "messages": [USER, {"role": "assistant", "content": None, "tool_calls": [call]}],
            "reward": 1.0,
            "task_id": name,
            "instruction": asked,
            "expected_actions": [{"name": name, "arguments": arguments}],
            "error": {"type": None, "message": None} if name == "find" else {"type": "x", "message": "boom"},
        }

    rows = [row("find", {"city": "B", "near": {"to": "sea"}}, "Find one."), row("cancel", {"id": 7}, "Go.")]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    read = read_trajectories([tmp_path / "a.parquet"])
    calls = [one.messages[-1].tool_calls[0].arguments for one in read.trajectories]
    assert calls == [{"city": "B", "near": {"to": "sea"}}, {"id": 7}]
    assert [one.expected_actions[0].arguments for one in read.tasks] == calls
    assert [(one.instruction, one.has_expected) for one in read.tasks] == [("Find one.", True), ("Go.", True)]
    assert [one.fault for one in read.trajectories] == [None, "infrastructure"]


def test_a_pipe_is_told_of_and_not_waited_for(tmp_path: Path) -> None:
    """Nobody writes to it: opening it would wait for ever."""
    pipe, good = tmp_path / "pipe.jsonl", lines(tmp_path / "a.jsonl", {"messages": CHAT, "reward": 1.0})
    os.mkfifo(pipe)
    read = read_trajectories([pipe, "/dev/zero", good])
    assert len(read.trajectories) == 1
    assert [problem.kind for problem in read.problems] == ["unreadable", "unreadable"]
    assert "it is a pipe, socket or device" in str(read.problems[0])


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_is_called_so(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = lines(tmp_path / "a.jsonl", {"messages": CHAT, "reward": 1.0})
    path.write_bytes(pack(path.read_bytes()))
    with pytest.raises(InputError, match=r"the file is compressed \(unpack it first\)"):
        read_trajectories([path])


def test_imported_is_empty_at_first() -> None:
    assert Imported() == Imported([], [], [])
