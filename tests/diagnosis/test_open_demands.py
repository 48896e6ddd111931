"""Demands that nobody could meet: what cannot be had, and an option that nothing names. On a library."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnosis.test_expected import call, run, task, want
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.diagnosis.triage import triage
from trace_assets.records import ExpectedAction, Message, Trajectory, Triage

POLICY = """# Library
End a card with a reason, either 'moving away' or 'too expensive'. Other reasons are not accepted.
"""
SHELF = '{"copies": [{"copy": "B-7001", "available": false}, {"copy": "B-7002", "available": true}]}'
LEND = want("lend_copy", copy="B-7001")


def doubted(*runs: Trajectory, action: ExpectedAction = LEND) -> list[str]:
    return [
        row.rule for row in suspect_tasks(runs, task(action, policy=POLICY)) if row.rule == "not_to_be_had"
    ]


def test_what_every_look_shows_as_not_available_cannot_be_lent() -> None:
    other = run(("list_copies", {}, SHELF), ("lend_copy", {"copy": "B-7002"}, '{"ok": true}'))
    assert doubted(other) == ["not_to_be_had"]
    assert doubted(other, run(("list_copies", {}, SHELF), name="r2", success=True)) == [], "somebody passed"
    assert doubted(other, action=want("lend_copy", copy="B-7002")) == [], "that one was to be had"
    assert doubted(run(("list_copies", {}, '{"copy": "B-7001", "title": "Moby"}'))) == [], "nothing says so"


def test_what_somebody_holds_may_be_gone_from_the_shelf() -> None:
    held = run(
        ("get_member", {"member_id": "m_17"}, '{"loans": [{"copy": "B-7001"}]}'), ("list_copies", {}, SHELF)
    )
    assert doubted(held, action=want("return_copy", copy="B-7001")) == []
    late = SHELF.replace("false", "true", 1)
    again = run(("list_copies", {}, SHELF), ("list_copies", {}, late), name="r3")
    assert doubted(again, action=LEND) == [], "a later look shows it as available"


END = want("end_card", card="L-410", reason="moving away")


def ended(
    ticket: str, reason: str = "too expensive", *more: Message, policy: str = POLICY, **arguments: Any
) -> Triage:
    """Return the ruling on a run that ended a card on a ticket, for a reason."""
    made = call(0, "end_card", {"card": "L-410", "reason": reason, **arguments}, '{"ok": true}')
    said = (
        Message(role="user", content=ticket),
        *more,
        *made,
        Message(role="assistant", content="It is ended."),
    )
    one = run().model_copy(update={"messages": said, "n_messages": len(said), "user_policy": None})
    (row,) = triage([one], tasks=task(END, told=ticket, policy=policy))
    return row


def test_an_option_that_nothing_names_cannot_be_known_where_nobody_can_be_asked() -> None:
    found = ended("End my card L-410.")
    assert (found.fault, found.rule, found.evidence) == ("ground_truth", "unsaid_option", (1,))
    assert "reason 'moving away'" in found.detail


@pytest.mark.parametrize(
    "found",
    [
        ended("End my card L-410, I am moving to Rome."),  # the ticket says it
        ended("End my card L-410.", "bored"),  # no option of the policy's
        ended(
            "End my card L-410.", "too expensive", Message(role="user", content="Quick!")
        ),  # there was a talk
        ended("End my card L-410.", card="L-411"),  # another card too
        ended("End my card L-410.", policy=POLICY + "By default take 'moving away'."),  # the policy says it
        ended("End my card L-410.", policy="# Library"),  # the policy names no options
    ],
)
def test_where_the_option_was_to_be_known(found: Triage) -> None:
    assert (found.fault, found.rule) == ("agent", "agent")


def test_a_default_that_speaks_for_the_other_one_excuses_the_agent() -> None:
    found = ended("End my card L-410.", policy=POLICY + "By default take 'too expensive'.")
    assert found.rule == "unsaid_option", "the agent did as the policy has it"
