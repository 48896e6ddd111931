"""Which objects a request is about, where it asks for several things."""

from __future__ import annotations

import pytest

from trace_assets.diagnosis.detectors.missing_looks import WriteWithoutRead
from trace_assets.diagnosis.detectors.transcript import Transcript
from trace_assets.records import Message, ToolCall, Trajectory

ARGS = {"tool": "cancel_order", "read": "get_order", "argument": "order", "cues": ["cancel", "cancelled"]}


def asked(*texts: str, read: tuple[str, ...] = ()) -> Transcript:
    messages = [Message(role="user", content=text) for text in texts]
    for name in read:
        call = ToolCall(id=name, name="get_order", arguments={"order": name})
        messages += [
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", tool_call_id=name, tool_name="get_order", content="{}"),
        ]
    run = Trajectory(
        trajectory_id="t",
        target="shop",
        task_id="1",
        task_batch="b",
        split="discovery",
        policy="p",
        messages=tuple(messages),
    )
    return Transcript(run)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Refund the clock of order K15 and order K62 can be cancelled.", {"k62"}),
        ("I do not need order M16 any more, cancel it, and refund the rug of M80.", {"m16"}),
        ("Please cancel #W101, #W102 and #W103, and send #W104 to Rome.", {"w101", "w102", "w103"}),
        ("Cancel K15. Also M41 can be cancelled; refund M80.", {"k15", "m41"}),
        ("Please cancel my order.", None),
        ("Refund K15.", None),
    ],
)
def test_what_is_asked_of_one_object_says_nothing_of_another(text: str, meant: set[str] | None) -> None:
    assert asked(text).asked_about(ARGS["cues"]) == meant


def test_looking_at_another_order_is_not_looking_at_the_one_to_be_cancelled() -> None:
    request, detector = "Refund the clock of order K15 and order K62 can be cancelled.", WriteWithoutRead()
    assert detector.label(asked(request, read=("K15",)), ARGS).label == "NA"
    found = detector.label(asked(request, read=("K15", "K62")), ARGS)
    assert found.label == "PRESENT" and found.evidence == (0, 3), "the look at K62, not that at K15"
    assert detector.label(asked("Please cancel my order.", read=("K15",)), ARGS).label == "PRESENT"
