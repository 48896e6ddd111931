"""Traces of OpenTelemetry and of the tools that keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats import span_forms as forms
from tests.formats.forms import lines
from tests.formats.reading import read_trajectories
from trace_assets.formats.spans.importer import SpanImporter
from trace_assets.records import Trajectory
from trace_assets.untrusted.allowance import Allowance


def written(folder: Path, value: Any, *, before: str = "", indent: int | None = None) -> Path:
    path = folder / "export.json"
    path.write_text(before + json.dumps(value, indent=indent), encoding="utf-8")
    return path


def one(path: Path) -> Trajectory:
    (found,) = read_trajectories([path]).trajectories
    return found


@pytest.mark.parametrize("form", forms.FORMS)
@pytest.mark.parametrize("how", ["document", "pretty", "bom", "array", "lines"])
def test_every_form_gives_the_same_conversation(form: str, how: str, tmp_path: Path) -> None:
    value = forms.FORMS[form]()
    rows = value if isinstance(value, list) else [value]
    if how in ("array", "lines"):
        path = lines(tmp_path / "x.jsonl", *rows) if how == "lines" else written(tmp_path, rows)
    else:
        indent = 2 if how == "pretty" else None
        path = written(tmp_path, value, before="\ufeff" if how == "bom" else "", indent=indent)
    read = read_trajectories([path])
    (found,), (task,) = read.trajectories, read.tasks
    assert [problem.message for problem in read.problems] == []
    assert [message.role for message in found.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [message.content or "" for message in found.messages] == [
        *("Be brief.", forms.ASKED, "", forms.RESULT, forms.DONE),
    ]
    (call,) = found.messages[2].tool_calls
    assert (call.id, call.name, call.arguments) == ("c1", "get_order", forms.ARGUMENTS)
    assert found.messages[3].tool_call_id == "c1" and found.messages[3].tool_name == "get_order"
    assert (found.trajectory_id, found.policy, found.success, found.reward) == ("t1", "m-1", True, 1.0)
    assert (found.prompt_tokens, found.completion_tokens) == (20, 4)
    assert (found.task_id.rpartition("/")[2], found.trial) == ("7", 2)
    assert found.date == "2023-11-14T22:13:20+00:00" and found.seconds == 4
    assert (found.target, found.source) == ("spans:shop", f"spans:{path.name}")
    assert task.instruction == "You want W1 cancelled."


def test_what_is_expected_is_kept_with_the_task(tmp_path: Path) -> None:
    (task,) = read_trajectories([written(tmp_path, forms.mlflow())]).tasks
    assert task.has_expected and task.expected_outputs == ("It is cancelled",)


def test_facts_of_a_task_may_stand_in_the_metadata(tmp_path: Path) -> None:
    trace = forms.langfuse()
    actions = [{"name": "cancel_order", "arguments": {"order": "W1"}}]
    trace["metadata"] = {
        "task_id": "9",
        "expected_actions": actions,
        "domain_policy": "Ask first.",
        "target": "shop",
    }
    (task,) = read_trajectories([written(tmp_path, trace)]).tasks
    assert (task.task_id, task.target, task.domain_policy) == ("shop/9", "shop", "Ask first.")
    assert [action.name for action in task.expected_actions] == ["cancel_order"]


def test_traces_without_a_score_are_not_judged(tmp_path: Path) -> None:
    trace = {**forms.langfuse(), "scores": [{"name": "tone", "value": 0.2}]}
    read = read_trajectories([written(tmp_path, trace)])
    (found,) = read.trajectories
    assert (found.reward, found.success) == (None, None)
    assert [(check.name, check.gates) for check in found.checks] == [("tone", False)]
    assert [problem.kind for problem in read.problems] == ["not_judged"]


def test_the_last_results_come_from_the_tools_own_spans(tmp_path: Path) -> None:
    runs = forms.langsmith()[:3]
    found = one(written(tmp_path, runs))
    assert [message.role for message in found.messages] == ["system", "user", "assistant", "tool"]
    assert found.messages[3].content == forms.RESULT


def test_a_tool_that_failed_says_so(tmp_path: Path) -> None:
    trace = forms.langfuse()
    trace["observations"][2] |= {"level": "ERROR", "statusMessage": "no such order", "output": None}
    trace["observations"].pop()
    found = one(written(tmp_path, trace))
    assert found.messages[-1].is_error and found.messages[-1].content == "no such order"


def test_what_broke_the_whole_is_no_failure_of_the_agents(tmp_path: Path) -> None:
    runs = forms.langsmith()
    runs[0]["error"] = "RateLimitError: 429"
    found = one(written(tmp_path, runs))
    assert (found.fault, found.reward) == ("infrastructure", None)


def test_without_models_question_tools_and_answer_are_told(tmp_path: Path) -> None:
    trace = forms.mlflow()
    spans = trace["data"]["spans"]
    trace["data"]["spans"] = [spans[0], spans[2]]
    found = one(written(tmp_path, trace))
    assert [message.role for message in found.messages] == ["user", "assistant", "tool", "assistant"]
    assert found.messages[1].tool_calls[0].arguments == forms.ARGUMENTS
    assert found.messages[3].content == forms.DONE


def test_helpers_beside_the_agent_are_left_out(tmp_path: Path) -> None:
    trace = forms.langfuse()
    asked = [{"role": "user", "content": "Is this rude?"}]
    judge = {
        **trace["observations"][1],
        "id": "s9",
        "input": asked,
        "output": {"role": "assistant", "content": "No"},
    }
    trace["observations"].insert(2, judge)
    assert len(one(written(tmp_path, trace)).messages) == 5


def turn(number: int, messages: list[Any], said: str, **changes: Any) -> dict[str, Any]:
    trace = forms.langfuse()
    generation = {
        **trace["observations"][1],
        "input": messages,
        "output": {"role": "assistant", "content": said},
    }
    generation |= {"id": f"g{number}", "startTime": f"2023-11-14T22:14:{number:02}.000Z", "endTime": None}
    return {
        **trace,
        "id": f"t{number}",
        "observations": [generation],
        "scores": [],
        "metadata": {},
        **changes,
    }


def test_traces_of_a_session_that_go_on_are_one_conversation(tmp_path: Path) -> None:
    hi, hello = {"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}
    more = {"role": "user", "content": "More."}
    score = [{"name": "success", "value": 1}]
    traces = [turn(1, [hi], "Hello.", scores=score), turn(2, [hi, hello, more], "Bye.")]
    traces.append(turn(3, [more], "Yes?"))
    read = read_trajectories([written(tmp_path, traces)])
    assert [found.trajectory_id for found in read.trajectories] == ["t2", "t3"]
    first = read.trajectories[0]
    assert [message.content for message in first.messages] == ["Hi.", "Hello.", "More.", "Bye."]
    assert first.success and first.metadata["session"] == "k"
    traces[1]["sessionId"] = "another"
    assert len(read_trajectories([written(tmp_path, traces)]).trajectories) == 3


def test_spans_without_contents_say_how_to_record_them(tmp_path: Path) -> None:
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1"}
    document = forms._otlp([forms._span(1, "chat", bare)])
    good = forms.gen_ai()
    for scope in good["resourceSpans"][0]["scopeSpans"]:
        for span in scope["spans"]:
            span["traceId"] = "t2"
    read = read_trajectories([lines(tmp_path / "x.jsonl", document, good)])
    assert [found.trajectory_id for found in read.trajectories] == ["t2"]
    (problem,) = read.problems
    assert problem.position == "trace t1" and "CAPTURE_MESSAGE_CONTENT" in problem.message


@pytest.mark.parametrize(
    "row", [1, {"x": 1}, {"run_type": "llm", "inputs": None, "dotted_order": 7}, {"data": []}]
)
def test_rows_of_no_use_are_named_and_the_others_read(tmp_path: Path, row: Any) -> None:
    read = read_trajectories([written(tmp_path, [*forms.langsmith(), row])])
    assert [found.trajectory_id for found in read.trajectories] == ["t1"]
    assert len(read.problems) == 1


def test_more_spans_than_memory_are_told_of(tmp_path: Path) -> None:
    rows = [
        {**row, "trace_id": f"t{n}", "outputs": {"output": "x" * 20_000}}
        for n in range(200)
        for row in forms.langsmith()
    ]
    path = lines(tmp_path / "x.jsonl", *rows)
    items = list(SpanImporter().read(path, Allowance(64 << 20)))
    large = [item for item in items if getattr(item, "kind", "") == "too_large"]
    assert len(large) == 1 and "each trace in one part" in large[0].message  # type: ignore[union-attr]
    assert 0 < sum(isinstance(item, Trajectory) for item in items) < 200
