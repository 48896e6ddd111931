"""Runs of loops of one's own: actions as text, columns, runs by key, one text, and what is none of these."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.formats.agent_steps import call_in
from trace_assets.formats.envelope import turns_in
from trace_assets.formats.problem import Problem
from trace_assets.formats.registry import choose
from trace_assets.records import Trajectory

TURNS = [
    {"action": "open[box 1]", "observation": "a pan 2"},
    {"action": "take pan 2", "observation": "Nothing happens."},
]
ASKED = "Bring me the pan"
FIELDS: dict[str, Any] = {"task_id": "pan", "task": ASKED, "success": False}
COLUMNS = {
    "actions": [one["action"] for one in TURNS],
    "observations": [one["observation"] for one in TURNS],
}
TEXT = "\n".join(
    f"Thought {n}: so\nAction {n}: {one['action']}\nObservation {n}: {one['observation']}"
    for n, one in enumerate(TURNS, 1)
)
FORMS: dict[str, Any] = {
    "steps": {**FIELDS, "steps": TURNS},
    "as SWE-agent calls the list": {**FIELDS, "trajectory": TURNS},
    "numbered": {**FIELDS, "steps": [{"step": n, **one} for n, one in enumerate(TURNS)]},
    "columns": {**FIELDS, **COLUMNS},
    "columns within": {**FIELDS, "turn_history": COLUMNS},
    "one text": {**FIELDS, "scratchpad": TEXT},
}
CALLS = [("open", {"input": "box 1"}), ("act", {"input": "take pan 2"})]


def _runs(path: Path) -> list[Trajectory]:
    chosen = choose(path)
    assert not isinstance(chosen, Problem), chosen
    return [one for one in chosen.read(path) if isinstance(one, Trajectory)]


def _read(path: Path) -> list[Trajectory]:
    found = _runs(path)
    for one in found:
        assert [(call.name, dict(call.arguments)) for m in one.messages for call in m.tool_calls] == CALLS
        assert [m.content for m in one.messages if m.role == "tool"] == COLUMNS["observations"]
        assert one.messages[0].content == ASKED and one.success is False
    return found


@pytest.mark.parametrize("form", FORMS)
def test_each_line_is_a_run(form: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(json.dumps({**FORMS[form], "task_id": name}) for name in "ab"))
    assert [one.task_id[-1] for one in _read(path)] == ["a", "b"]


@pytest.mark.parametrize("form", FORMS)
def test_runs_may_stand_under_their_names(form: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"7": FORMS[form], "8": FORMS[form]}))
    assert [one.trajectory_id for one in _read(path)] == ["runs/7", "runs/8"]


def test_what_was_seen_first_follows_the_question(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    row = {**FIELDS, **COLUMNS, "observations": ["You are in a room.", *COLUMNS["observations"]]}
    path.write_text(json.dumps([row, row | {"task_id": "b"}]))
    assert [one.content for one in _read(path)[0].messages[:2]] == [ASKED, "You are in a room."]


def test_an_answer_is_said_and_not_called(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    done = {"thought": "", "action": "Finish[In the box]", "observation": "Answer is INCORRECT"}
    path.write_text(json.dumps([{**FIELDS, "steps": [*TURNS, done]}] * 2))
    assert _runs(path)[0].messages[-1].content == "In the box"


@pytest.mark.parametrize(
    "row",
    [
        {**FIELDS, **COLUMNS, "observations": ["only one"]},
        {**FIELDS, "actions": [1, 2], "observations": [3, 4]},
        {**FIELDS, "scratchpad": "I act: nothing was observed."},
    ],
)
def test_what_is_no_run_is_refused(row: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([row]))
    assert isinstance(choose(path), Problem)


@settings(max_examples=examples(60), deadline=None)
@given(st.text(alphabet="ab[](),'=1 `:\nThoughtActinObserva"))
def test_any_text_is_an_action(text: str) -> None:
    name, arguments = call_in(text)
    assert (name or not text.strip()) and all(isinstance(one, str) for one in arguments)
    assert isinstance(turns_in(text), list)
