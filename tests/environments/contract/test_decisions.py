"""Which of the things that a run deals with its label is about."""

from __future__ import annotations

import pytest

from trace_assets.environments.contract.decisions import decisions_of, things_meant
from trace_assets.records import Message, ToolCall, Trajectory


def called(place: int, tool: str, **arguments: str) -> tuple[Message, Message]:
    call = ToolCall(id=f"c{place}", name=tool, arguments=arguments)
    return (
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", tool_call_id=f"c{place}", tool_name=tool, content='{"state": "open"}'),
    )


def loans(*calls: tuple[str, str], asked: str = "Renew L-1 and close L-2.", end: str = "Done.") -> Trajectory:
    told = [message for n, (tool, loan) in enumerate(calls) for message in called(n, tool, loan=loan)]
    messages = (Message(role="user", content=asked), *told, Message(role="assistant", content=end))
    return Trajectory(
        trajectory_id="t",
        target="library",
        task_id="1",
        task_batch="b",
        split="discovery",
        policy="p",
        messages=messages,
    )


BOTH = loans(("get_loan", "L-1"), ("renew", "L-1"), ("close", "L-2"))


def test_a_label_is_about_the_thing_whose_calls_show_it() -> None:
    (one,) = decisions_of(BOTH, "LACKING", "close-unread", {5})
    assert one.thing == "L-2" and one.calls == ("close",)
    (other,) = decisions_of(BOTH, "PRESENT", "close-unread", {2})
    assert other.thing == "L-1" and other.calls == ("get_loan", "renew"), "an answer shows it too"


def test_a_refusal_is_about_what_it_speaks_of() -> None:
    run = loans(("get_loan", "L-1"), ("get_loan", "L-2"), end="L-2 is closed already, I cannot renew it.")
    assert things_meant(run, {5}) == {"L-2"}


def test_what_was_never_touched_says_nothing_of_what_was() -> None:
    run = loans(("get_loan", "L-1"), ("renew", "L-1"))
    (none,) = decisions_of(run, "LACKING", "all-named", {0, 5})
    assert (none.thing, none.calls, none.shown) == ("", (), {}), "L-2 is what was left out"
    assert things_meant(loans(("renew", "L-1"), asked="Renew L-1.", end="No."), {0}) == {"L-1"}


@pytest.mark.parametrize("evidence", [set(), {7}, {99}])
def test_without_a_message_that_names_anything_it_is_every_thing(evidence: set[int]) -> None:
    assert things_meant(BOTH, evidence) == {"L-1", "L-2"}
