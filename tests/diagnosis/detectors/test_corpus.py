"""What is learned of a target's tools without looking at outcomes."""

from __future__ import annotations

import pytest

from trace_assets.diagnosis.detectors import Corpus, Transcript
from trace_assets.diagnosis.detectors.identity import find_ids, learn_pattern, looks_like_id
from trace_assets.records import Message, ToolCall, ToolSpec, Trajectory


def transcript(
    number: int, said: str, *steps: tuple[str, dict[str, object], str], task: int | None = None
) -> Transcript:
    messages = [Message(role="user", content=said)]
    for place, (tool, arguments, result) in enumerate(steps):
        call = ToolCall(id=f"c{place}", name=tool, arguments=arguments)
        messages.append(Message(role="assistant", tool_calls=(call,)))
        messages.append(Message(role="tool", content=result, tool_call_id=f"c{place}", tool_name=tool))
    return Transcript(
        Trajectory(
            trajectory_id=f"t{number}",
            task_id=f"x/{number if task is None else task}",
            target="x",
            task_batch="b",
            policy="p",
            messages=tuple(messages),
        )
    )


def asking(count: int, *, task: int | None = None) -> list[Transcript]:
    """Return transcripts in half of which the user asks for a cancellation, which is sometimes refused."""
    made = []
    for number in range(count):
        order = f"K{1000 + number}"
        if number % 2:
            steps = [("frob_order", {"order": order}, "{}")] if number % 10 != 9 else []
            made.append(transcript(number, f"kindly scrap order {order} for Ann", *steps, task=task))
        else:
            made.append(
                transcript(
                    number, f"where is order {order}", ("get_order", {"order": order}, "{}"), task=task
                )
            )
    return made


def test_cues_are_the_words_that_ask_for_a_tool() -> None:
    corpus = Corpus(asking(60))
    assert set(corpus.cues("frob_order")) <= {"kindly", "scrap", "ann"}
    assert corpus.cues("frob_order")
    assert set(corpus.cues("get_order")) == {"where"}


def test_many_trials_of_one_task_teach_no_cue() -> None:
    assert Corpus(asking(60, task=1)).cues("frob_order") == []


def test_values_and_words_said_after_the_call_are_no_cues() -> None:
    made = [
        transcript(number, f"kindly {number}", ("paint", {"colour": "red"}, "ok"), task=number)
        for number in range(20)
    ]
    made += [transcript(20 + number, "hello", task=20 + number) for number in range(20)]
    red = [
        transcript(number, f"kindly red {number}", ("paint", {"colour": "red"}, "ok"), task=number)
        for number in range(20)
    ]
    assert Corpus(red + made[20:]).cues("paint") == ["kindly"]


def test_arguments_that_name_objects_are_told_by_their_values() -> None:
    corpus = Corpus(
        [
            transcript(n, "x", ("move", {"order": f"K{1000 + n}", "city": "Rome", "count": str(n)}, "ok"))
            for n in range(5)
        ]
    )
    assert corpus.object_arguments == {"order": "[A-Z][0-9]{4}"}
    assert corpus.object_argument("move") == "order"
    assert corpus.object_argument("other") is None


def test_specifications_decide_which_tools_write_before_their_names_do() -> None:
    made = [transcript(0, "x", ("get_order", {}, "{}"), ("cancel_order", {}, "{}"))]
    assert Corpus(made).mutating == {"cancel_order"}
    tools = [ToolSpec(name="get_order", mutates=True), ToolSpec(name="cancel_order", mutates=False)]
    corpus = Corpus(made, tools)
    assert (corpus.mutating, corpus.reading) == ({"get_order"}, {"cancel_order"})


@pytest.mark.parametrize(("after", "writes"), [('{"state": "b"}', True), ('{"state": "a"}', False)])
def test_a_tool_without_a_telling_verb_writes_when_reads_change_after_it(after: str, writes: bool) -> None:
    look = ("get_order", {"order": "K1000"}, '{"state": "a"}')
    again = ("get_order", {"order": "K1000"}, after)
    made = [transcript(0, "x", look, ("frobnicate", {"order": "K1000"}, "ok"), again)]
    assert ("frobnicate" in Corpus(made).mutating) is writes


@pytest.mark.parametrize(
    "value", ["K4821", "#W4923227", "omar_rossi_1241", "SDZQKO", "555-123-2002", "a.b1@x.org"]
)
def test_identifiers(value: str) -> None:
    assert looks_like_id(value)
    pattern = learn_pattern([value])
    assert pattern is not None
    assert find_ids(f"It is {value}, thanks", pattern) == [value.lower().replace("#", "")]


@pytest.mark.parametrize(
    "value", ["lamp", "round_trip", "2024-05-20", "10:30", "117", "-5.50", "JFK", "", "1st", 7, None]
)
def test_what_is_no_identifier(value: object) -> None:
    assert not looks_like_id(value)
