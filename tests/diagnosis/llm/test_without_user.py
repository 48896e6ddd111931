"""Agents that talk to nobody: what is asked of their runs leaves the user out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trace_assets.diagnosis.llm.batches import draw_batches
from trace_assets.diagnosis.llm.cases import Grounds, cases_question
from trace_assets.diagnosis.llm.causes import cause_question, triage_question
from trace_assets.diagnosis.llm.discovery import Known, discovery_question
from trace_assets.diagnosis.llm.further import Open, further_question
from trace_assets.diagnosis.llm.labelling import label_hashes, label_question
from trace_assets.diagnosis.llm.request import Context, has_user
from trace_assets.diagnosis.llm.transcript import view
from trace_assets.records import Capability, Label, Message, Task, ToolCall, Trajectory
from trace_assets.settings import Discovery, Labels

ALONE = Context("Answer in one word.", has_user=False)
CAPABILITY = Capability(capability_id="c", target="x", name="Look first", description="d", analyst="m")
LACKS = Label(
    trajectory_id="a", capability_id="c", labeller="model:m", labelling_pass=1, label="LACKING", rationale="r"
)


def run(name: str, *said: tuple[str, str], success: bool = False) -> Trajectory:
    return Trajectory(
        trajectory_id=name,
        task_id=f"x/{name}",
        target="x",
        task_batch="b",
        policy="p",
        success=success,
        stop="completed",
        messages=tuple(Message(role=role, content=text) for role, text in said),  # type: ignore[arg-type]
    )


ASKED = (("system", "Be brief"), ("user", "Count the files"), ("assistant", "Three"))


def test_who_gives_the_task_alone_is_no_user() -> None:
    alone = [run("a", *ASKED), run("b", ("user", "First"), ("user", "and more"), ("assistant", "Done"))]
    assert not has_user(alone)
    assert has_user([*alone, run("c", *ASKED, ("user", "No, four"))]), "one run's user is the agent's"
    assert has_user([run("a", ("user", "Hello"))]) and has_user([]), "nobody is left out unseen"


def test_a_user_who_only_calls_tools_is_one() -> None:
    silent = run("a", *ASKED)
    call = Message(role="tool", content="on", tool_name="phone", tool_call_id="1", requestor="user")
    assert has_user([silent.model_copy(update={"messages": (*silent.messages, call)})])
    own = Message(role="assistant", content="", tool_calls=(ToolCall(id="1", name="phone"),))
    result = call.model_copy(update={"requestor": "assistant"})
    assert not has_user([silent.model_copy(update={"messages": (*silent.messages, own, result)})])


def questions(context: Context) -> dict[str, Any]:
    failed, passed = run("a", *ASKED), run("b", *ASKED, success=True)
    (batch,) = draw_batches([failed, passed], Discovery(passes=1))
    known, section = Known(context), Discovery(model="m")
    task = Task(task_id="x/a", target="x", task_batch="b", instruction="Count them all")
    return {
        "label": label_question(Labels(model="m"), view(failed, 1000), [CAPABILITY], 1, context),
        "discovery": discovery_question(section, batch, 1000, known)[0],
        "cases": cases_question(section, context, [], {}, Grounds(), 1),
        "further": further_question(section, batch, 1000, known, [CAPABILITY], Open({"a": {}}), Grounds())[0],
        "cause": cause_question(Labels(model="m"), failed, {"c": LACKS}, {"c": CAPABILITY}, known),
        "triage": triage_question("m", failed, 1000, task, (), context),
        "triage without a task": triage_question("m", failed, 1000, None, (), context),
    }


def test_nothing_that_is_asked_of_such_runs_speaks_of_a_user() -> None:
    for name, question in questions(ALONE).items():
        words = (question.system + question.user).replace("`1 user: ...`", "").replace("\n1 user: Count", "")
        assert "user" not in words.lower(), name


def test_the_same_questions_of_runs_with_a_user_speak_of_it() -> None:
    for name, question in questions(Context(ALONE.policy)).items():
        assert "`3 user: ...` (the user)" in question.system, name
        if name.startswith("triage"):
            assert "- `user_simulator`:" in question.system and "the user" in question.user


@pytest.mark.parametrize(("context", "usable"), [(ALONE, False), (Context(), True)])
def test_a_user_is_accused_only_where_there_is_one(context: Context, usable: bool) -> None:
    question = triage_question("m", run("a", *ASKED), 1000, None, (), context)
    said = {"rationale": "It left.", "evidence": [1], "fault": "user_simulator"}
    answer, complaints = question.read(json.dumps(said))
    assert (answer is not None, not complaints) == (usable, usable)
    answer, complaints = question.read(json.dumps(said | {"fault": "environment"}))
    assert answer is not None and answer.fault == "environment" and not complaints


def test_labels_that_were_asked_for_with_a_user_are_others() -> None:
    known = [
        label_hashes(Labels(model="m"), run("a", *ASKED), [CAPABILITY], one)
        for one in (Context(), Context(has_user=False))
    ]
    assert known[0] != known[1]
