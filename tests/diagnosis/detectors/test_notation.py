"""What tools answer in another notation than JSON is read as JSON is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.diagnosis.detectors.notation import as_json, tagged
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import Message, ToolCall, Trajectory

RECORDS = st.dictionaries(
    st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True),
    st.one_of(st.text(max_size=12), st.integers(), st.booleans(), st.none()),
    min_size=1,
    max_size=4,
)


@given(st.lists(RECORDS, min_size=2, max_size=4))
def test_pythons_own_writing_and_lines_of_objects_say_what_json_says(
    records: list[dict[str, object]],
) -> None:
    assert json.loads(as_json("\n".join(json.dumps(one) for one in records))) == records
    assert json.loads(as_json(repr(records[0]))) == records[0]
    assert json.loads(as_json(repr(records))) == records
    assert as_json(json.dumps(records)) == json.dumps(records)


@given(st.text(alphabet="<>/ab ='\"&;!-?{}[],:\n", max_size=60))
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    assert isinstance(as_json(text), str)
    tagged(text)


@pytest.mark.parametrize(
    "hostile",
    [
        "<a>" * 20_000,
        "<a " + "b='c' " * 5_000 + ">",
        "{'a': " * 5_000,
        "[" * 40_000,
        "{'a': " + "-" * 40_000 + "1}",
    ],
)
def test_hostile_answers_stay_texts(hostile: str) -> None:
    assert as_json(hostile) == hostile


def answered(answer: str) -> Transcript:
    """A run of one call, which is answered."""
    call = ToolCall(id="1", name="get_hire", arguments={"hire": "H-7"})
    messages = (
        Message(role="assistant", content="", tool_calls=(call,)),
        Message(role="tool", content=answer, tool_call_id="1"),
    )
    run = Trajectory.model_construct(
        trajectory_id="r", target="t", task_batch="b", task_id="t", policy="p", messages=messages
    )
    return Transcript(run)


@pytest.mark.parametrize(
    "answer",
    [
        '{"no": "H-7", "state": "open"}',
        "{'no': 'H-7', 'state': 'open'}",
        '<hire no="H-7"><state>open</state></hire>',
        '<?xml version="1.0"?>\n<hires><hire><no>H-7</no><state>open</state></hire><hire no="H-8"/></hires>',
        '```json\n{"no": "H-7", "state": "open"}\n```',
        'no,state\nH-7,open\nH-8,"shut, for good"',
        '{"no": "H-7", "state": "open"}\n{"no": "H-8", "state": "shut"}\n',
    ],
)
def test_what_was_seen_of_a_thing_does_not_hang_on_how_it_was_written(answer: str) -> None:
    seen = answered(answer).observations["h-7"]
    assert [dict(one.fields) for one in seen] == [{"no": "H-7", "state": "open"}]


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        ("<refused><reason>arm would collide</reason></refused>", True),
        ("<error code='7'>no such hire</error>", True),
        ("{'error': 'no such hire', 'data': None}", True),
        ("<hire no='H-7'/>", False),
        ("{'error': None, 'no': 'H-7'}", False),
    ],
)
def test_a_refusal_is_one_however_it_was_written(answer: str, failed: bool) -> None:
    assert [step.failed for step in answered(answer).steps] == [failed]
