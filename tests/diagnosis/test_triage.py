"""To whom failures are put down."""

from __future__ import annotations

from typing import Any

import pytest

from trace_assets.diagnosis.attribution.case import Ruling
from trace_assets.diagnosis.triage import SECOND_LOOK, fault_shares, triage
from trace_assets.records import Check, Fault, Message, ToldTask, ToolCall, Trajectory, Triage

OFFER = Message(role="assistant", content="I will cancel order K4821. Would you like me to go on?")
YES = Message(role="user", content="Yes, please cancel it. ###STOP###")
ASKED = Message(role="user", content="Please cancel order K4821.")


def failed(*messages: Message, **changes: Any) -> Trajectory:
    values: dict[str, Any] = {
        "trajectory_id": "t",
        "task_id": "x/1",
        "target": "x",
        "task_batch": "b",
        "policy": "p",
        "user_policy": "u",
        "success": False,
        "reward": 0.0,
        "stop": "completed",
        "messages": messages or (ASKED,),
        **changes,
    }
    return Trajectory(**values)


def ruling(*messages: Message, told: str = "", **changes: Any) -> Triage:
    tasks = {"x/1": ToldTask(task_id="x/1", instruction=told)}
    (found,) = triage([failed(*messages, **changes)], tasks=tasks, suspicions=())
    return found


def action(tool: str, passed: bool = False) -> Check:
    return Check(name=f"action/0/{tool}", kind="action", passed=passed)


def called(tool: str, result: str, *, error: bool = False) -> tuple[Message, Message]:
    call = ToolCall(id="c", name=tool, arguments={"order": "K4821"})
    answer = Message(role="tool", content=result, tool_call_id="c", tool_name=tool, is_error=error)
    return Message(role="assistant", tool_calls=(call,)), answer


def test_passed_has_no_fault() -> None:
    found = ruling(success=True, reward=1.0, stop="max_turns")
    assert (found.outcome, found.fault, found.rule) == ("passed", None, "passed")


def test_the_default_is_the_agent() -> None:
    found = ruling(ASKED, agent("Done."), checks=(Check(name="db", kind="state", passed=False),))
    assert (found.outcome, found.fault, found.rule) == ("failed", "agent", "agent")
    assert "db" in found.detail


@pytest.mark.parametrize(
    ("changes", "outcome", "fault", "rule"),
    [
        ({"success": None, "reward": None}, "unjudged", "environment", "reward_missing"),
        (
            {"success": None, "reward": None, "fault": "infrastructure", "error": "server down"},
            "unjudged",
            "infrastructure",
            "recorded_fault",
        ),
        ({"stop": "infrastructure_error"}, "unjudged", "infrastructure", "infrastructure_stop"),
        ({"stop": "environment_error"}, "failed", "environment", "environment_stop"),
        ({"stop": "user_error"}, "failed", "user_simulator", "simulator_error"),
        ({"stop": "agent_error"}, "failed", "agent", "agent_error"),
        ({"stop": "max_turns"}, "failed", "agent", "step_limit"),
        ({"stop": "context_overflow"}, "failed", "agent", "context_overflow"),
        ({"checks": (Check(name="j", kind="judge", passed=None),)}, "failed", "environment", "check_missing"),
    ],
)
def test_how_it_ended(changes: dict[str, Any], outcome: str, fault: str, rule: str) -> None:
    found = ruling(**changes)
    assert (found.outcome, found.fault, found.rule) == (outcome, fault, rule)


def test_a_failed_check_outweighs_one_that_did_not_run() -> None:
    checks = (Check(name="j", kind="judge", passed=None), Check(name="db", kind="state", passed=False))
    assert ruling(agent("Done."), checks=checks).fault == "agent"


def test_a_user_who_agrees_and_leaves_in_one_message_is_the_simulators_fault() -> None:
    found = ruling(ASKED, OFFER, YES, checks=(action("cancel_order"),))
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "simulator_stopped_first", (1, 2))
    assert "cancel_order" in found.detail


@pytest.mark.parametrize(
    ("messages", "changes"),
    [
        # The write that the grader wanted was made after all.
        ((ASKED, *called("cancel_order", "ok"), OFFER, YES), {"checks": (action("cancel_order"),)}),
        # What is missing is only a look, which no write waited for.
        ((ASKED, OFFER, YES), {"checks": (action("get_order"),)}),
        # The user did not agree.
        ((ASKED, OFFER, Message(role="user", content="Forget it. ###STOP###")), {}),
        # The agent did not offer anything.
        ((ASKED, Message(role="assistant", content="Your order is cancelled."), YES), {}),
        # Agreeing to be handed over does not explain why a refund is missing.
        (
            (ASKED, OFFER, Message(role="user", content="Yes, transfer me. ###TRANSFER###")),
            {"checks": (action("refund_item"),)},
        ),
        # Nobody simulated a user: no model is named, and no mark stands in what it says.
        ((ASKED, OFFER, Message(role="user", content="Yes, please cancel it.")), {"user_policy": None}),
        # The tool had been tried again and again, and it refused.
        (
            (ASKED, *called("cancel_order", "Error: no", error=True) * 2, OFFER, YES),
            {"checks": (action("cancel_order"),)},
        ),
        # The user thinks that all is done.
        (
            (
                ASKED,
                Message(role="assistant", content="It is done. Is there anything else I can do?"),
                Message(role="user", content="No, that's all. ###STOP###"),
            ),
            {"checks": (action("cancel_order"),)},
        ),
    ],
)
def test_the_simulator_is_accused_on_evidence_only(
    messages: tuple[Message, ...], changes: dict[str, Any]
) -> None:
    assert ruling(*messages, **changes).fault == "agent"


def test_a_handover_that_the_task_wanted_and_the_user_cut_off() -> None:
    offer = Message(role="assistant", content="Would you like me to transfer you?")
    leave = Message(role="user", content="Yes, please transfer me to a human. ###TRANSFER###")
    found = ruling(ASKED, offer, leave, checks=(action("transfer_to_human_agents"),))
    assert found.rule == "simulator_stopped_first"


def test_a_simulator_that_repeats_itself_is_stuck() -> None:
    again = Message(role="user", content="Where is it?")
    answers = [Message(role="assistant", content=f"It is in {city}.") for city in ("Rome", "Oslo", "Bern")]
    turns = [turn for answer in answers for turn in (again, answer)]
    assert ruling(*turns).rule == "simulator_stuck"
    same = [turn for _ in range(3) for turn in (again, answers[0])]
    assert ruling(*same).fault == "agent", "an agent that repeats itself too is no victim"


def test_a_tool_that_broke_is_the_environments_fault_unless_it_recovered() -> None:
    broke = called("cancel_order", "Traceback (most recent call last): KeyError", error=True)
    found = ruling(ASKED, *broke)
    assert (found.fault, found.rule, found.evidence) == ("environment", "tool_exception", (1, 2))
    fine = called("cancel_order", "ok")
    renamed = tuple(
        one.model_copy(
            update={"tool_call_id": "d"}
            if one.role == "tool"
            else {"tool_calls": tuple(call.model_copy(update={"id": "d"}) for call in one.tool_calls)}
        )
        for one in fine
    )
    assert ruling(ASKED, *broke, *renamed).fault == "agent"


TOLD = "Cancel order K4821; you paid $40 with card 771-2345."


def user(text: str) -> Message:
    return Message(role="user", content=text)


def agent(text: str) -> Message:
    return Message(role="assistant", content=text)


@pytest.mark.parametrize("said", ["Cancel K4822.", "I paid $45 for K4821.", "My card is 7712346."])
def test_a_user_who_contradicts_its_instruction(said: str) -> None:
    found = ruling(user(said), agent("One moment."), told=TOLD)
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "simulator_contradicts", (0,))
    assert "its instruction says" in found.detail


@pytest.mark.parametrize(
    "messages",
    [
        (user("Cancel #k4821, paid with 7712345."),),  # the same, written otherwise
        (user("Cancel K4822."), agent("There is none."), user("Oh, K4821.")),  # put right
        (agent("It is K4822 for $55."), user("Yes, K4822 for $55.")),  # the agent said so first
        (*called("get_order", '{"id": "K4999", "total": 61.5}'), user("K4999 for $61.50, then.")),
        (user("It was on 2024-05-20 at 10:30, 2 lamps."),),  # neither identifiers nor amounts
    ],
)
def test_values_that_contradict_nothing(messages: tuple[Message, ...]) -> None:
    assert ruling(*messages, agent("Well."), told=TOLD).fault == "agent"


def test_without_an_instruction_or_a_simulator_nothing_is_contradicted() -> None:
    said = (user("Cancel K4822."), agent("Done."))
    assert ruling(*said).fault == "agent"
    assert ruling(*said, told=TOLD, user_policy=None).fault == "agent"


def test_a_user_who_leaves_with_a_wish_open_and_the_write_undone() -> None:
    offer = agent("Which would you like: a refund or another lamp? Please let me know.")
    leaves = user("I’d like the refund. What do I need to do next? ###STOP###")
    found = ruling(ASKED, offer, leaves, checks=(action("refund_item"),))
    assert found.rule == "simulator_stopped_first" and "asked for more" in found.detail
    assert ruling(ASKED, offer, leaves).fault == "agent", "no grader says that anything is missing"
    content = user("No, that is all. ###STOP###")
    assert ruling(ASKED, offer, content, checks=(action("refund_item"),)).fault == "agent"


@pytest.mark.parametrize(
    ("changes", "messages", "rule"),
    [
        ({"error": "Error code: 429 - rate limit"}, (ASKED,), "outage"),
        ({}, (ASKED, agent("Error: 503 Service Unavailable")), "outage"),
        ({"limit": "tokens"}, (ASKED, agent("I will")), "truncated_output"),
        (
            {},
            (ASKED, agent("I will cancel your order K4821 at once and the refund will be on your ca")),
            "agent",
        ),
        (
            {"stop": "unknown"},
            (ASKED, agent("I will cancel your order K4821 at once and the refund will be on your ca")),
            "truncated_output",
        ),
        ({}, (ASKED, agent("I will cancel your order K4821 at once; you get the money back soon.")), "agent"),
        ({"limit": "messages"}, (ASKED,), "step_limit"),
        ({}, (ASKED, agent(" ")), "agent_error"),
        (
            {},
            (
                ASKED,
                Message(
                    role="assistant", tool_calls=(ToolCall(id="c", name="x", arguments={"raw": '{"a": 1'}),)
                ),
            ),
            "truncated_output",
        ),
        (
            {},
            (
                ASKED,
                Message(role="assistant", tool_calls=(ToolCall(id="c", name="x", arguments={"raw": "{a}"}),)),
            ),
            "agent_error",
        ),
    ],
)
def test_endings_that_only_the_messages_or_limits_tell(
    changes: dict[str, Any], messages: tuple[Message, ...], rule: str
) -> None:
    assert ruling(*messages, **changes).rule == rule


def test_a_refusal_is_no_exception() -> None:
    for text in (
        "Error: Order not found",
        "ValueError: no such order",
        "TypeError: missing argument 'order'",
    ):
        assert ruling(ASKED, *called("cancel_order", text, error=True)).fault == "agent"
    shown = '{"log": "KeyError: seen in 2019"}'
    assert ruling(ASKED, *called("get_log", shown)).fault == "agent"


def test_a_second_look_sees_what_rules_leave_to_the_agent() -> None:
    def look(trajectories: Any) -> dict[str, Ruling]:
        assert [one.trajectory_id for one in trajectories] == ["a"]
        # It was asked about the first alone: what it says of the others does not count.
        return dict.fromkeys("abc", Ruling("environment", SECOND_LOOK, (0,), "the page was down"))

    base = failed(ASKED, agent("Done."), trajectory_id="a", user_policy=None)
    passed = base.model_copy(update={"trajectory_id": "b", "success": True})
    broken = base.model_copy(update={"trajectory_id": "c", "fault": "infrastructure"})
    rows = triage([base, passed, broken], look)
    assert [(row.fault, row.rule) for row in rows] == [
        ("environment", "model_second_look"),
        (None, "passed"),
        ("infrastructure", "recorded_fault"),
    ]


def test_what_a_second_look_says_of_the_agent_stays_where_rules_say_no_more() -> None:
    said = Ruling("agent", SECOND_LOOK, (1,), "it never looked")
    base = failed(ASKED, agent("Done."), trajectory_id="a", user_policy=None)
    stopped = base.model_copy(update={"trajectory_id": "b", "stop": "max_turns"})
    first, other = triage([base, stopped], lambda _: {"a": said, "b": said})
    assert (first.fault, first.rule, first.evidence, first.detail) == said
    assert (other.fault, other.rule) == ("agent", "step_limit")


@pytest.mark.parametrize("fault", ["agent", "user_simulator", "ground_truth"])
def test_a_models_word_goes_over_a_rule_that_is_checked(fault: Fault) -> None:
    one = failed(ASKED, agent("Done."), trajectory_id="a")
    by_rule = Ruling("user_simulator", "turned_down", (0,), "the user turned it down")
    rules = (lambda _: by_rule,)
    for (row,) in (triage([one], rules=rules), triage([one], lambda _: {}, rules=rules)):
        assert (row.fault, row.rule, row.suspected) == ("user_simulator", "turned_down", None)
    (row,) = triage([one], lambda asked: {asked[0].trajectory_id: Ruling(fault, SECOND_LOOK)}, rules=rules)
    assert (row.fault, row.rule) == (fault, SECOND_LOOK)
    told = "turned_down (message 0): the user turned it down" if fault == "agent" else ""
    assert (row.suspected, row.suspicion) == ("user_simulator" if told else None, told)


@pytest.mark.parametrize("fault", ["agent", "user_simulator", "environment"])
def test_what_is_only_suspected_decides_nothing_and_is_told(fault: Fault) -> None:
    yes = Message(role="user", content="Yes. ###STOP###")
    left = failed(ASKED, agent("Shall I cancel it?"), yes, trajectory_id="a")
    for (row,) in (triage([left]), triage([left], lambda _: {})):
        assert (row.fault, row.rule, row.suspected) == ("agent", "agent", "user_simulator")
        assert row.suspicion.startswith("simulator_stopped_first (messages 1, 2): the user agreed")
    (row,) = triage([left], lambda _: {"a": Ruling(fault, SECOND_LOOK, (1,), "it said why")})
    assert (row.fault, row.rule, row.detail) == (fault, SECOND_LOOK, "it said why")
    assert row.suspected is None, "a model has looked at the run since"
    (sure,) = triage([left.model_copy(update={"fault": "infrastructure"})])
    assert (sure.fault, sure.suspected, sure.suspicion) == ("infrastructure", None, "")


def test_a_tool_that_raises_over_what_it_was_asked_for_is_only_suspected() -> None:
    for key in ("'K4821'", "None"):
        one = failed(ASKED, *called("get_order", f"KeyError: {key}", error=True))
        (row,) = triage([one])
        assert (row.fault, row.suspected) == ("agent", "environment")
        assert row.suspicion == f"tool_error_on_value (messages 1, 2): get_order broke: KeyError: {key}"
    worse = [*called("get_order", "KeyError: None", error=True), *called("pay", "HTTP 503", error=True)]
    (row,) = triage([failed(ASKED, *worse)])
    assert (row.fault, row.rule, row.suspected) == ("environment", "tool_exception", None)


def test_who_played_is_told_with_the_adapter() -> None:
    assert ruling(ASKED).policy == "p"
    assert ruling(ASKED, adapter="lookup").policy == "p + lookup"


def counted(fault: Fault | None, rule: str, n: int, outcome: str = "failed") -> list[Triage]:
    values = {"trajectory_id": "t", "target": "x", "task_id": "x/1", "outcome": outcome}
    return [Triage.model_validate({**values, "fault": fault, "rule": rule})] * n


def test_every_party_has_its_share_of_what_did_not_pass() -> None:
    rows = counted(None, "passed", 10, "passed") + counted("agent", "step_limit", 1)
    rows += counted("agent", "agent", 3) + counted("infrastructure", "outage", 4, "unjudged")
    agent, *_, infrastructure = shares = fault_shares(rows)
    parties = ["agent", "user_simulator", "ground_truth", "environment", "infrastructure"]
    assert [(one["fault"], one["n"], one["of"], one["share"]) for one in shares] == [
        (party, n, 8, n / 8) for party, n in zip(parties, (4, 0, 0, 0, 4), strict=True)
    ]
    assert infrastructure["rules"] == {"outage": 4}
    assert list(agent["rules"].items()) == [("agent", 3), ("step_limit", 1)], "the commonest rule first"
    # Wilson's interval of 4 in 8.
    assert (agent["share_low"], agent["share_high"]) == pytest.approx((0.215, 0.785), abs=0.001)


def test_nothing_failed_leaves_no_shares() -> None:
    found = fault_shares(counted(None, "passed", 3, "passed"))
    assert {(one["n"], one["of"], one["share"]) for one in found} == {(0, 0, None)}
