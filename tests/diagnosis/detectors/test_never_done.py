"""What no run does is found lacking where a rule, or the ground truth of tasks, asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.diagnosis.detectors.dialogues import call, user
from trace_assets.diagnosis.detector_analyst import DetectorAnalyst
from trace_assets.records import Capability, ExpectedAction, Message, ToolSpec, Trajectory
from trace_assets.settings import Discovery

SPOKEN = "Check the warranty of a tool before you repair it. After repairing a tool, send a receipt."
NAMED = "Call `get_warranty` before you repair a tool. After repairing a tool, call send_receipt."
GIVEN = tuple(ToolSpec(name=name) for name in ("repair_tool", "get_warranty", "send_receipt", "send_flowers"))
REPAIR = call("repair_tool", order="K4821")


def runs(*dialogues: Sequence[list[Message]], failed: int) -> list[Trajectory]:
    return [
        Trajectory(
            trajectory_id=f"t{number}",
            task_id=f"x/{number}",
            target="x",
            task_batch="b",
            policy="p",
            success=number >= failed,
            messages=tuple(message for part in parts for message in part),
        )
        for number, parts in enumerate(dialogues)
    ]


def never_done(analyst: DetectorAnalyst, made: Sequence[Trajectory]) -> list[Capability]:
    families = ("unread_prerequisite", "customary_step", "ended_with_work_open")
    return [one for one in analyst.discover(made) if one.detector in families]


@pytest.mark.parametrize(("policy", "tools"), [(SPOKEN, GIVEN), (NAMED, ())])
def test_what_a_rule_asks_for_and_nobody_does_is_lacking(policy: str, tools: Sequence[ToolSpec]) -> None:
    made = runs(*[[user("it broke"), REPAIR]] * 8, [user("hello")], failed=6)
    analyst = DetectorAnalyst(Discovery(), tools, policy=policy)
    found = never_done(analyst, made)
    assert {one.name for one in found} == {
        "Get the warranty before repairing the tool",
        "Send the receipt after repairing the tool",
    }
    for one in found:
        labels = [row.label for row in analyst.label(made, [one])]
        assert labels == ["LACKING"] * 8 + ["NA"]
    done = [call("get_warranty"), REPAIR, call("send_receipt")]
    assert {row.label for row in analyst.label(runs(done, failed=0), found)} == {"PRESENT"}


@pytest.mark.parametrize(
    "policy",
    [
        "",
        "Tools have a warranty. Receipts exist.",
        "Never send a receipt after repairing a tool.",
        "The field send_receipt is shown.",
    ],
)
def test_without_a_rule_that_asks_for_it_an_unused_tool_is_no_duty(policy: str) -> None:
    made = runs(*[[user("it broke"), REPAIR]] * 8, failed=6)
    assert never_done(DetectorAnalyst(Discovery(), GIVEN, policy=policy), made) == []


LISTED = (
    "* repair_tool:\nALL of these hold:\n• {}\n• The tool was inspected previously.\n* sign_in_user:\nNone"
)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("The clerk has signed in already.", {"Sign in user", "Inspect the tool"}),
        ("The clerk is not signed in already.", {"Inspect the tool"}),
        ("Whoever has signed in is asked for a name.", {"Inspect the tool"}),
        ("The parcel was inspected already.", {"Inspect the tool"}),
    ],
)
def test_what_is_listed_under_a_tools_name_as_done_before_is_lacking(line: str, found: set[str]) -> None:
    tools = [ToolSpec(name=name) for name in ("repair_tool", "sign_in_user", "sign_out_user", "inspect_tool")]
    made = runs(*[[user("it broke"), REPAIR]] * 8, failed=6)
    for policy, wanted in ((LISTED, found), (LISTED.replace("repair_tool", "paint_tool"), set())):
        candidates = never_done(DetectorAnalyst(Discovery(), tools, policy=policy.format(line)), made)
        assert {one.name.partition(" before ")[0] for one in candidates} == wanted


def demand(*names: str) -> tuple[ExpectedAction, ...]:
    return tuple(ExpectedAction(name=name, arguments={}) for name in names)


@pytest.mark.parametrize(("demanding", "found"), [(range(6), True), (range(2), False), (range(5, 11), False)])
def test_what_tasks_demand_in_the_users_words_and_nobody_does_is_lacking(
    demanding: Sequence[int], found: bool
) -> None:
    """The word is said in the first six tasks; demanded by others, by few or by these."""
    asking = [[user("I want a certificate for it"), REPAIR]] * 6
    made = runs(*asking, *[[user("it broke"), REPAIR]] * 6, failed=6)
    expected: dict[str, Any] = {
        one.task_id: demand("repair_tool", *(["send_certificate"] if number in demanding else []))
        for number, one in enumerate(made)
    }
    analyst = DetectorAnalyst(Discovery(), expected=expected)
    candidates = never_done(analyst, made)
    assert [one.name for one in candidates] == ["When asked to, send the certificate before ending"] * found
    for one in candidates:
        assert [row.label for row in analyst.label(made, [one])] == ["LACKING"] * 6 + ["NA"] * 6
    kept = [call("send_certificate"), *asking[0]]
    assert "send_certificate" not in str(never_done(analyst, [*made, *runs(kept, failed=0)][::-1])), (
        "one does"
    )
