"""Each rule on faults alone: where it speaks, where it is silent, and which messages it shows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnosis.test_triage import ASKED, OFFER, YES, action, agent, called, ruling, user
from trace_assets.diagnosis.attribution import grading, simulator
from trace_assets.diagnosis.attribution import script as contradictions
from trace_assets.diagnosis.attribution.case import Case, Known
from trace_assets.diagnosis.attribution.ending import agents_end, broken_stop, outage, recorded_fault
from trace_assets.diagnosis.attribution.grading import not_judged, tool_exception
from trace_assets.diagnosis.attribution.script import contradiction
from trace_assets.diagnosis.attribution.simulator import out_of_part, stopped_first, stuck
from trace_assets.diagnosis.triage import triage
from trace_assets.records import ActionDiff, Check, ExpectedAction, Message, Task, ToolCall, Trajectory


def case(*messages: Message, told: str = "", **changes: Any) -> Case:
    values: dict[str, Any] = {
        "trajectory_id": "t",
        "task_id": "x/1",
        "target": "x",
        "task_batch": "b",
        "policy": "p",
        "user_policy": "u",
        "success": False,
        "messages": messages,
    }
    task = Task(task_id="x/1", target="x", task_batch="b", instruction=told)
    return Case(Trajectory(**{**values, **changes}), Known(tasks={task.task_id: task}))


def system(text: str) -> Message:
    return Message(role="system", content=text)


def calls(*named: tuple[str, dict[str, Any]], content: str | None = None) -> Message:
    made = tuple(ToolCall(id=f"c{i}", name=name, arguments=given) for i, (name, given) in enumerate(named))
    return Message(role="assistant", content=content, tool_calls=made)


def test_a_program_is_known_by_what_it_said_where_the_source_is_silent() -> None:
    silent = Message(role="user", tool_calls=(ToolCall(id="u", name="check_phone", arguments={}),))
    assert case(OFFER, user("Thanks ###STOP###"), user_policy=None).simulated
    assert not case(OFFER, silent, user("Thanks."), user_policy=None).simulated
    assert case(OFFER, silent, user("Thanks.")).simulated


def test_what_changes_something_is_told_by_all_runs_of_a_target_together() -> None:
    own = case(ASKED, *called("frobnicate", "ok"))
    assert Case(own.trajectory, Known({}, writes={"x": frozenset({"frobnicate"})})).writes == {"frobnicate"}
    assert own.writes == frozenset(), "where nothing is known of its target, its own calls tell"


def test_a_step_that_is_expected_may_be_what_changes_something_though_nobody_called_it() -> None:
    wanted = ExpectedAction(name="cancel_order", arguments={"order": "K4821"})
    look = ExpectedAction(name="get_order", arguments={"order": "K4821"})
    task = Task(task_id="x/1", target="x", task_batch="b", has_expected=True, expected_actions=(look, wanted))
    own = Case(case(ASKED).trajectory, Known({"x/1": task}))
    assert own.writes == {"cancel_order"} and own.expected_writes == [wanted]


def test_a_difference_is_of_one_of_several_steps() -> None:
    first, second = (ExpectedAction(name="cancel", arguments={"order": name}) for name in ("K1", "K2"))
    row = ActionDiff(
        trajectory_id="t",
        number=0,
        target="x",
        task_id="x/1",
        policy="p",
        kind="missed",
        tool="cancel",
        expected_arguments={"order": "K2"},
    )
    assert grading._is_of(row, [first, second]) and not grading._is_of(row, [first])
    other = row.model_copy(update={"tool": "refund"})
    assert not grading._is_of(other, [first, second])


@pytest.mark.parametrize("tool", ["toggle_pump", "toggle_a_pump", "toggle_the_pump_mode", "set_mode_pump"])
def test_what_a_tool_switches_stands_first_after_its_verb(tool: str) -> None:
    assert contradictions._subject(tool) == "pump"


# --- contradiction


@pytest.mark.parametrize(
    "text",
    [
        *("1999", "2024", "2024-05-20", "2024/5/2", "2024.12.31", "2024-05", "05/20/24", "5/20/2024"),
        *("20-5-24", "10:30", "10:30pm", "9:05am", "123", "1234", "12.50", "1234.5", "#2024", "5th", "K12"),
    ],
)
def test_what_is_no_identifier(text: str) -> None:
    assert list(contradictions._values(f"it is {text} then")) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("K482", ("A999", "k482")),
        ("#W4923227", ("A9999999", "w4923227")),
        ("omar_rossi_1241", ("A_A_9999", "omar_rossi_1241")),
        ("12345", ("99999", "12345")),
        ("2189", None),
        ("2024-05-20x", ("99999999A", "20240520x")),
        ("771-2345", ("9999999", "7712345")),
        ("771.2345", None),
        ("771.234.5", ("9999999", "7712345")),
        ("a@b123.com", ("A@A999.A", "a@b123.com")),
    ],
)
def test_what_is_an_identifier(text: str, value: tuple[str, str] | None) -> None:
    assert list(contradictions._values(f"it is {text} then")) == ([] if value is None else [value])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("$1,200.50", {("dollar", "1200.5")}),
        ("$ 40", {("dollar", "40")}),
        ("40 dollars or 41 USD", {("dollar", "40"), ("dollar", "41")}),
        ("€5, 6 euros, 7 eur", {("euro", "5"), ("euro", "6"), ("euro", "7")}),
        ("10% or 12 percent", {("percent", "10"), ("percent", "12")}),
        ("£3", {("£", "3")}),
        ("2.0 GB, 300mb, 1 TB", {("gb", "2"), ("mb", "300"), ("tb", "1")}),
        ("1 dollar", {("dollar", "1")}),
        ("3 gbx", set()),
    ],
)
def test_amounts_of_one_unit_are_compared(text: str, values: set[tuple[str, str]]) -> None:
    assert set(contradictions._values(text)) == values


TOLD = "Cancel order K4821; you paid $40 with card 771-2345."


@pytest.mark.parametrize(
    ("messages", "at"),
    [
        ((user("Cancel K4822."),), 0),
        ((user("Hello."), agent("How can I help?"), user("Cancel K4822.")), 2),
        ((user("I paid $45 for K4821."),), 0),
        # The agent spoke of one number, the user then of a third.
        ((agent("Is it K4900?"), user("No, K4901.")), 1),
        # A tool's answer or a call showed another one.
        ((*called("get", '{"id": "K4900"}'), user("K4901 then.")), 2),
        # What the user itself said wrong before excuses nothing later: the first slip is told.
        ((user("K4822"), agent("K4822?"), user("Yes, K4822.")), 0),
        # A number that is part of the instruction, in another unit, is fine; one that is not is no amount.
        ((user("I paid $39.99."),), 0),
    ],
)
def test_the_user_says_what_it_was_not_told(messages: tuple[Message, ...], at: int) -> None:
    found = contradiction(case(*messages, told=TOLD))
    assert found is not None
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "simulator_contradicts", (at,))


@pytest.mark.parametrize(
    "messages",
    [
        (agent("Is it K4822?"), user("Yes, K4822.")),
        (calls(("get_order", {"id": "K4822"})), user("K4822.")),
        (calls(("pay", {"amount": 45})), user("$45 it was.")),
        (user("It costs $2345."),),  # no amount of the instruction, but a number that stands in it
        (user("My order is ABC-77."),),
        (user("K4822, sorry: K4821."),),
        (user("K4822."), agent("Really?"), user("K4821 I meant.")),
        (user("Zip 12345-678."),),  # of a shape that the instruction does not have
        (agent("K4822"),),  # nobody but the user is measured
        (Message(role="user"),),
    ],
)
def test_the_user_says_nothing_else(messages: tuple[Message, ...]) -> None:
    assert contradiction(case(*messages, told=TOLD)) is None


def test_a_value_of_another_kind_puts_nothing_right() -> None:
    assert contradiction(case(user("K4822."), agent("?"), user("I paid $40."), told=TOLD)) is not None


def test_an_agent_that_says_the_right_one_puts_nothing_right() -> None:
    assert contradiction(case(user("K4822."), agent("K4821?"), user("Yes."), told=TOLD)) is not None


def test_the_detail_names_what_was_said_and_three_of_what_was_meant() -> None:
    found = contradiction(case(user("Cancel K4999."), told="Orders K4821, K4822, K4823 and K4824, for $40."))
    assert (
        found is not None and found.detail == "the user said k4999, its instruction says k4821, k4822, k4823"
    )


@pytest.mark.parametrize("told", ["", "Cancel your latest order."])
def test_without_a_value_in_the_instruction_nothing_is_measured(told: str) -> None:
    assert contradiction(case(user("Cancel K4822 for $40."), told=told)) is None


def test_nobody_simulated_contradicts_nothing() -> None:
    assert contradiction(case(user("Cancel K4822."), told=TOLD, user_policy=None)) is None


# --- how it ended


def test_a_recorded_fault_is_told_in_the_records_words() -> None:
    found = recorded_fault(case(ASKED, fault="environment", error="the shop burnt down"))
    assert found == ("environment", "recorded_fault", (), "the shop burnt down")
    found = recorded_fault(case(ASKED, fault="user_simulator", stop="user_error"))
    assert found == ("user_simulator", "recorded_fault", (), "stopped by user_error")
    assert recorded_fault(case(ASKED, stop="user_error")) is None


@pytest.mark.parametrize(
    ("stop", "fault", "rule"),
    [
        ("infrastructure_error", "infrastructure", "infrastructure_stop"),
        ("environment_error", "environment", "environment_stop"),
        ("user_error", "user_simulator", "simulator_error"),
        ("agent_error", None, None),
        ("max_turns", None, None),
        ("context_overflow", None, None),
        ("completed", None, None),
    ],
)
def test_only_others_stops_are_broken_ones(stop: str, fault: str | None, rule: str | None) -> None:
    found = broken_stop(case(ASKED, stop=stop, error="why"))
    assert found == (None if fault is None else (fault, rule, (), "why"))
    if fault is not None:
        assert broken_stop(case(ASKED, stop=stop)) == (fault, rule, (), f"stopped by {stop}")


OUTAGES = ["rate limit", "rate limited", "Too Many Requests", "connection refused", "connection timed out"]
OUTAGES += ["service unavailable", "bad gateway", "gateway timeout", "HTTP 429", "status: 503", "code 502"]
OUTAGES += ["name resolution", "CUDA out of memory"]


@pytest.mark.parametrize("words", OUTAGES)
def test_an_outage_by_the_recorded_error(words: str) -> None:
    error = f"it broke: {words} " + "x" * 400
    assert outage(case(user("?"), agent("Hm."), error=error)) == ("infrastructure", "outage", (), error[:300])


@pytest.mark.parametrize("words", OUTAGES)
@pytest.mark.parametrize("start", ["Error", " error:", "HTTP Error", '{"error": "', "Exception"])
def test_an_outage_in_place_of_the_last_answer(start: str, words: str) -> None:
    text = f"{start} {words} " + "x" * 400
    for last in (agent(text), system(text)):
        assert outage(case(ASKED, last)) == ("infrastructure", "outage", (1,), text[:300])


@pytest.mark.parametrize(
    "last",
    [
        user("Error: 503 Service Unavailable"),
        called("get", "Error: 503 Service Unavailable", error=True)[1],
        agent("The page says: Error: 503 Service Unavailable"),
        agent("Error: order not found"),
        agent("Error: " + "x" * 400 + " Service Unavailable"),
        agent("Service Unavailable"),
        Message(role="assistant"),
        calls(("get", {}), content="Error: 503 Service Unavailable"),
    ],
)
def test_what_is_no_outage(last: Message) -> None:
    assert outage(case(ASKED, last)) is None


NOTICES = [
    "You're out of extra usage, it resets at 3:30pm",
    "Usage limit reached.",
    "You exceeded your quota",
]
NOTICES += [
    "Rate limit exceeded",
    "Your credit balance is too low to go on",
    "The model is currently overloaded",
]


@pytest.mark.parametrize("text", NOTICES)
def test_a_notice_of_the_models_service_in_place_of_an_answer(text: str) -> None:
    assert outage(case(ASKED, agent(text))) == ("infrastructure", "outage", (1,), text)
    called_it = calls(("get", {}), content=text)
    assert outage(case(ASKED, called_it)) is None, "it acts, so it speaks for itself"
    assert outage(case(ASKED, agent(text), user("And now?"))) is None, "somebody went on"
    assert outage(case(ASKED, agent(f"{text} {'So it is. ' * 30}"))) is None, "it explains something"


def test_an_agent_may_speak_of_limits_that_its_user_has() -> None:
    asks = user("Why is my internet slow? How much usage is left?")
    assert outage(case(asks, agent("Usage limit reached."))) is None
    look = called("get_usage", '{"usage": 9}')
    assert outage(case(ASKED, *look, agent("You have exceeded your usage."))) is None


def test_an_error_of_another_kind_and_no_messages_are_no_outage() -> None:
    assert outage(case(ASKED, error="ValueError: 7")) is None
    assert outage(case()) is None


LIMITS = {"tokens": "truncated_output", "token": "truncated_output", "context": "context_overflow"}
LIMITS |= dict.fromkeys(("messages", "message", "turn"), "step_limit")
LIMITS |= {"errors": "agent_error", "time": "time_limit", "working": "time_limit", "cost": "cost_limit"}


@pytest.mark.parametrize(("limit", "rule"), LIMITS.items())
def test_the_limit_that_ended_it(limit: str, rule: str) -> None:
    assert agents_end(case(ASKED, agent("Well."), limit=limit)) == ("agent", rule, (1,), "")
    # The stop says more than the limit does.
    assert agents_end(case(ASKED, agent("Well."), limit=limit, stop="max_turns"))[1] == "step_limit"


def test_an_end_without_a_word_more_is_the_agents_without_evidence() -> None:
    assert agents_end(case(ASKED, agent("Well."))) == ("agent", "agent", (), "")
    assert agents_end(case(ASKED, agent("Well."), limit="unheard of")) == ("agent", "agent", (), "")
    assert agents_end(case()) == ("agent", "agent", (), ""), "nobody said anything"
    assert agents_end(case(stop="max_turns")) == ("agent", "step_limit", (), "")


def test_the_checks_that_failed_are_named_five_at_most() -> None:
    checks = [Check(name=f"c{n}", kind="state", passed=False) for n in range(7)]
    checks.insert(1, Check(name="fine", kind="state", passed=True))
    checks.insert(1, Check(name="unknown", kind="state", passed=None))
    checks.insert(1, Check(name="loose", kind="state", passed=False, gates=False))
    found = agents_end(case(ASKED, checks=tuple(checks)))
    assert found.detail == "checks that failed: c0, c1, c2, c3, c4"


@pytest.mark.parametrize(
    ("last", "rule"),
    [
        (calls(("a", {"raw": '{"x": 1'})), "truncated_output"),
        (calls(("a", {"raw": "[1, 2"})), "truncated_output"),
        (calls(("a", {"raw": "x]"})), "agent_error"),
        (calls(("a", {"raw": "{}"})), "agent_error"),
        # The last broken one counts; a whole one among them does not.
        (calls(("a", {"raw": "{"}), ("b", {"raw": "}"}), ("c", {"x": 1})), "agent_error"),
        (calls(("a", {"raw": "}"}), ("b", {"raw": "{"})), "truncated_output"),
        (calls(("a", {"raw": "{", "x": 1})), "agent"),
        (calls(("a", {"x": 1})), "agent"),
        (calls(("a", {})), "agent"),
        (Message(role="assistant"), "agent_error"),
        (agent("  \n"), "agent_error"),
        (agent("Done."), "agent"),
        (user(""), "agent"),
        (user("and then I would like to ask whether it is at all possible that you"), "agent"),
    ],
)
def test_output_that_cannot_be_used(last: Message, rule: str) -> None:
    assert agents_end(case(ASKED, last))[1] == rule


LONG = "I have looked at your order and can tell you that it is "
SIXTY = (LONG + "x" * 60)[:60]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (SIXTY, "truncated_output"),
        (SIXTY[:59], "agent"),
        (f"{SIXTY}  \n", "truncated_output"),
        *((f"{SIXTY}{mark}", "truncated_output") for mark in ",;:([{\"'-7Z"),
        *((f"{SIXTY}{mark}", "agent") for mark in (".", "!", "?", ")", "*", "…", "。")),
        *((f"{SIXTY}.\n{mark} one more", "agent") for mark in "-*#|"),
        (f"{SIXTY}.\n  - one more", "agent"),
        (f"- {SIXTY}.\nand so it", "truncated_output"),
        (f"{SIXTY}.\nYOU ARE BEING TRANSFERRED TO A HUMAN", "agent"),
        (f"{SIXTY}.\nYou are being transferred to a human", "truncated_output"),
    ],
)
def test_words_that_stop_in_the_middle(text: str, rule: str) -> None:
    assert agents_end(case(ASKED, agent(text)))[1] == rule


def test_words_beside_a_call_are_not_cut_off() -> None:
    assert agents_end(case(ASKED, calls(("a", {}), content=SIXTY)))[1] == "agent"


# --- grading


def test_no_reward_is_the_graders_silence() -> None:
    found = not_judged(case(ASKED, success=None))
    assert found == ("environment", "reward_missing", (), "the grader gave no reward")


def checks(**passed: bool | None) -> tuple[Check, ...]:
    return tuple(Check(name=name, kind="judge", passed=value) for name, value in passed.items())


def test_a_check_that_did_not_run_excuses_only_where_none_failed() -> None:
    found = not_judged(case(ASKED, checks=checks(a=None, b=True, c=None)))
    assert found == ("environment", "check_missing", (), "these checks did not run: a, c")
    assert not_judged(case(ASKED, checks=checks(a=None, b=False))) is None
    assert not_judged(case(ASKED, checks=checks(a=True))) is None
    loose = Check(name="a", kind="judge", passed=None, gates=False)
    assert not_judged(case(ASKED, checks=(loose,))) is None
    failed_loose = Check(name="b", kind="judge", passed=False, gates=False)
    assert not_judged(case(ASKED, checks=(*checks(a=None), failed_loose))) is not None


def again(pair: tuple[Message, Message], number: int) -> tuple[Message, Message]:
    """The same call and answer under another id."""
    said, answer = pair
    renamed = tuple(one.model_copy(update={"id": f"c{number}"}) for one in said.tool_calls)
    return said.model_copy(update={"tool_calls": renamed}), answer.model_copy(
        update={"tool_call_id": f"c{number}"}
    )


@pytest.mark.parametrize(
    ("result", "error", "speaks"),
    [
        ("KeyError: 'x'", True, True),
        ("something: KeyError: 'x'", True, True),
        ("something: KeyError: 'x'", False, False),
        ("KeyError: 'x'", False, True),
        ("  Traceback (most recent call last):\n  File\nValueError: 7", False, True),
        ("Internal Server Error", False, True),
        ("ValueError: no such order", True, False),
        ("x" * 400 + " KeyError: 'x'", True, False),
        ("x" * 380 + " KeyError: 'x'", True, True),
    ],
)
def test_a_tool_that_broke(result: str, error: bool, speaks: bool) -> None:
    found = tool_exception(case(ASKED, *called("get", result, error=error)))
    assert (found is not None) is speaks
    if found is not None:
        assert (found.fault, found.rule, found.evidence) == ("environment", "tool_exception", (1, 2))
        last_line = result[:400].strip().splitlines()[-1][:200]
        assert found.detail == f"get broke: {last_line}"


def test_a_tool_that_worked_before_and_another_that_works_after_excuse_nothing() -> None:
    broke, fine = called("get", "KeyError: 'x'", error=True), again(called("get", "ok"), 1)
    other = again(called("put", "ok"), 2)
    assert tool_exception(case(ASKED, *fine, *broke)) is not None
    assert tool_exception(case(ASKED, *broke, *other)) is not None
    assert tool_exception(case(ASKED, *broke, *other, *fine)) is None
    third = again(called("put", "KeyError: 'x'", error=True), 2)
    found = tool_exception(case(ASKED, *broke, *fine, *third))
    assert found is not None and found.evidence == (5, 6), "what recovered hides nothing that broke later"
    refused = again(called("get", "no", error=True), 1)
    assert tool_exception(case(ASKED, *broke, *refused)) is not None


@pytest.mark.parametrize(
    ("result", "speaks"), [("KeyError: 'x'", False), ("cp: No space left on device", True)]
)
def test_what_a_program_of_the_agents_raises_is_no_broken_tool(result: str, speaks: bool) -> None:
    answer = called("bash", result, error=True)[1].model_copy(update={"tool_call_id": "c0"})
    ran = case(ASKED, calls(("bash", {"command": "python count.py"})), answer)
    assert (tool_exception(ran) is not None) is speaks


def test_a_call_without_an_answer_broke_nothing() -> None:
    assert tool_exception(case(ASKED, calls(("get", {})))) is None


def test_a_hand_over_is_wanted_where_a_check_of_its_own_decides() -> None:
    checks = (
        Check(name="actions/transfer", kind="action", passed=False, gates=True),
        Check(name="actions/cancel", kind="action", passed=False, gates=False),
    )
    one = case(checks=checks)
    wanted = [name for name in ("transfer", "cancel", "refund") if simulator._is_judged(one, name)]
    assert wanted == ["transfer"]
    assert simulator._is_judged(case(), "transfer"), "nobody says how it is graded"


# --- the simulated user

MISSING = (action("cancel_order"),)


@pytest.mark.parametrize("words", ["Yes!", "yeah", "sure", "OK go", "go ahead", "that works", "Confirmed"])
def test_one_that_agrees_and_leaves(words: str) -> None:
    found = stopped_first(case(ASKED, OFFER, user(words)))
    assert found is not None and found.evidence == (1, 2)
    assert found.detail == "the user agreed and ended before the agent could act"


def test_what_the_user_looks_up_before_it_leaves_is_its_own() -> None:
    looks = Message(role="user", tool_calls=(ToolCall(id="u", name="check_phone", arguments={}),))
    shown = Message(role="tool", content="On", tool_call_id="u", tool_name="check_phone", requestor="user")
    found = stopped_first(case(ASKED, OFFER, looks, shown, YES))
    assert found is not None and found.evidence == (1, 4)
    others = shown.model_copy(update={"requestor": "assistant"})
    assert stopped_first(case(ASKED, OFFER, looks, others, YES)) is None, "the agent was at work"


def test_a_question_that_nobody_answered_may_be_asked_again() -> None:
    assert stopped_first(case(ASKED, OFFER, user(" "), OFFER, YES)) is not None


def test_the_write_that_was_never_called_is_named() -> None:
    found = stopped_first(
        case(ASKED, OFFER, YES, checks=(*MISSING, action("refund_item"), action("get_order")))
    )
    assert found is not None and found.detail.endswith("act (never called: cancel_order, refund_item)")


@pytest.mark.parametrize(
    "messages",
    [
        (OFFER, user("Yes, please cancel it.")),  # it had hardly begun
        (ASKED, YES, OFFER),
        (ASKED, YES, YES),
        (ASKED, OFFER, OFFER),
        (ASKED, OFFER, Message(role="user")),
        (ASKED, Message(role="assistant"), YES),
        (ASKED, agent("It is done."), YES),
        (ASKED, OFFER, user("Yes, transfer me to a human.")),
        (ASKED, OFFER, user("Thanks.")),
        (ASKED, agent("Would you like me to go on? " + "x" * 400), YES),
        (ASKED, OFFER, user("Order K1, as I said."), OFFER, YES),  # it asks again what it was told
    ],
)
def test_leaving_that_is_no_fault(messages: tuple[Message, ...]) -> None:
    changes = {"checks": MISSING}
    assert stopped_first(case(*messages, **changes)) is None


def test_one_that_agrees_and_calls_it_off_in_one_breath_did_not_agree() -> None:
    assert stopped_first(case(ASKED, OFFER, user("Yes, but I don't want that."))) is None


def test_at_the_last_turn_nobody_left() -> None:
    assert stopped_first(case(ASKED, OFFER, YES, stop="max_turns")) is None
    assert stopped_first(case(ASKED, OFFER, YES, stop="completed")) is not None
    # Who played the user is not said: a program did where its mark stands.
    assert stopped_first(case(ASKED, OFFER, user("Yes, please cancel it."), user_policy=None)) is None
    assert stopped_first(case(ASKED, OFFER, YES, user_policy=None)) is not None


def test_one_that_ends_with_its_first_words_never_listened() -> None:
    found = stopped_first(case(OFFER, YES, checks=MISSING))
    assert found is not None and found.evidence == (1,)
    assert found.detail == "the user ended the conversation with its first words"
    assert stopped_first(case(OFFER, user("###STOP###"))) is None, "it said nothing"
    assert stopped_first(case(OFFER, YES, agent("Done."))) is None, "the agent had the last word"
    assert stopped_first(case(OFFER)) is None, "nobody answered"
    looked = Message(role="user", tool_calls=(ToolCall(id="u", name="check_phone", arguments={}),))
    assert stopped_first(case(looked, YES)) is not None, "a call is no word"


def test_a_wish_that_is_open_counts_where_the_grader_names_the_write() -> None:
    wish = user("I would like the money back on my card instead.")
    assert stopped_first(case(ASKED, OFFER, wish)) is None
    found = stopped_first(case(ASKED, OFFER, wish, checks=MISSING))
    assert found is not None and found.detail.startswith("the user asked for more and ended")
    closing = agent("It is cancelled. Is there anything else I can help you with?")
    assert stopped_first(case(ASKED, closing, wish, checks=MISSING)) is None
    # A wish that is called off is none.
    refuses = user("No, I would like to keep it.")
    assert stopped_first(case(ASKED, OFFER, refuses, checks=MISSING)) is None
    # All that the grader wanted was called, or what is missing is only a look.
    assert stopped_first(case(ASKED, OFFER, wish, checks=(action("get_order"),))) is None
    assert stopped_first(case(ASKED, OFFER, wish, checks=(action("cancel_order", passed=True),))) is None
    done = called("cancel_order", "ok")
    assert stopped_first(case(ASKED, *done, OFFER, wish, checks=MISSING)) is None
    # What is missing was tried and refused: the user had waited for it.
    refused = called("cancel_order", "no", error=True)
    assert stopped_first(case(ASKED, *refused, OFFER, wish, checks=MISSING)) is None


def test_agreeing_to_be_handed_over_counts_where_that_is_what_is_missing() -> None:
    leaves = user("Yes, transfer me.")
    handover = action("transfer_to_human_agents")
    found = stopped_first(case(ASKED, OFFER, leaves, checks=(handover, *MISSING)))
    assert found is not None and found.detail.endswith("(never called: transfer_to_human_agents)")
    assert stopped_first(case(ASKED, OFFER, leaves, checks=MISSING)) is None
    assert stopped_first(case(ASKED, OFFER, leaves)) is None


@pytest.mark.parametrize("own", [0, 1, 2, 3])
def test_what_the_user_does_before_its_last_words_comes_after_the_agents(own: int) -> None:
    """Its own calls, their answers and its words: however many, the agent's last words stand before them."""
    tool = Message(role="user", tool_calls=(ToolCall(id="u", name="check_phone", arguments={}),))
    shown = Message(role="tool", content="ok", tool_call_id="u", tool_name="check_phone", requestor="user")
    between = (tool, shown, user("I looked."))[:own]
    found = stopped_first(case(ASKED, OFFER, *between, YES))
    assert found is not None and found.evidence == (1, 2 + own)
    agents = shown.model_copy(update={"requestor": "assistant"})
    assert stopped_first(case(ASKED, OFFER, agents, YES)) is None, "the agent had gone on"


def turns(*pairs: tuple[str, str]) -> list[Message]:
    return [one for said, answered in pairs for one in (user(said), agent(answered))]


def test_messages_without_a_word_are_no_other_answer() -> None:
    again = [
        user("Where?"),
        agent("Rome."),
        user("Where?"),
        calls(("look", {})),
        agent("Rome."),
        user("Where?"),
    ]
    assert stuck(case(*again)) is None


def test_one_that_says_the_same_again_and_again() -> None:
    same = turns(("Where?", "Rome."), ("Where?", "Oslo."), ("Where?", "Bern."))
    found = stuck(case(*same))
    assert found is not None and (found.fault, found.rule) == ("user_simulator", "simulator_stuck")
    assert found.evidence == (0, 2, 4) and found.detail == "the user repeated itself 3 times"
    # Only the last three count, and an answer before them is none to them.
    longer = stuck(case(*turns(("Hi.", "Hello.")), *same))
    assert longer is not None and longer.evidence == (2, 4, 6)
    assert stuck(case(*same, user_policy=None)) is None
    assert stuck(case(*same[2:])) is None
    assert stuck(case(*turns(("Where?", "Rome."), ("Where?", "Oslo."), ("What?", "Bern.")))) is None


def test_two_different_answers_are_enough_and_one_is_not() -> None:
    assert stuck(case(*turns(("Where?", "Rome."), ("Where?", "Oslo."), ("Where?", "Oslo.")))) is not None
    assert stuck(case(*turns(("Where?", "Oslo."), ("Where?", "Oslo."), ("Where?", "Oslo.")))) is None
    # What was said before the three does not count as an answer to them.
    before = turns(("Hi.", "Rome."))
    assert stuck(case(*before, *turns(*[("Where?", "Oslo.")] * 3))) is None
    # An empty message is nothing said.
    silent = [
        user("Where?"),
        agent("Rome."),
        user(""),
        user("Where?"),
        agent(""),
        user("Where?"),
        agent("Oslo."),
    ]
    assert stuck(case(*silent)) is not None


@pytest.mark.parametrize(
    "words",
    [
        *("As an AI I cannot.", "I am an AI.", "I'm an AI", "a language model", "How can I help you today?"),
        *("How may I assist you?", "my instructions say so", "My system prompt"),
    ],
)
def test_one_that_falls_out_of_its_part(words: str) -> None:
    found = out_of_part(case(ASKED, agent("Yes?"), user(words + " x" * 200), user(words)))
    assert found is not None
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "simulator_out_of_part", (2,))
    assert found.detail == f"the user fell out of its part: {(words + ' x' * 200)[:200]}"
    assert ruling(ASKED, user(words)).rule == "simulator_out_of_part", "it is one of the rules"
    assert out_of_part(case(ASKED, agent(words))) is None
    assert out_of_part(case(ASKED, user(words), user_policy=None)) is None
    assert out_of_part(case(Message(role="user"), ASKED)) is None


# --- all rules


def test_the_first_rule_that_applies_decides() -> None:
    """From what was recorded to what is read between the lines."""
    everything: dict[str, Any] = {"fault": "environment", "stop": "user_error", "error": "HTTP 429"}
    talk = (
        ASKED,
        *called("get", "KeyError: 'x'", error=True),
        user("K4822"),
        OFFER,
        user("Yes! I am an AI."),
    )
    expected = ["recorded_fault", "simulator_error", "outage", "check_missing", "tool_exception"]
    expected += ["simulator_contradicts", "simulator_stopped_first", "simulator_out_of_part", "agent"]
    undone = checks(judge=None)
    steps: list[tuple[tuple[Message, ...], str, dict[str, Any]]] = [
        (talk, TOLD, {**everything, "checks": undone}),
        (talk, TOLD, {"stop": "user_error", "error": "HTTP 429", "checks": undone}),
        (talk, TOLD, {"error": "HTTP 429", "checks": undone}),
        (talk, TOLD, {"checks": undone}),
        (talk, TOLD, {}),
        ((talk[0], *talk[3:]), TOLD, {}),
        ((talk[0], *talk[3:]), "", {}),
        ((talk[0], talk[5]), "", {}),
        ((talk[0], OFFER), "", {}),
    ]
    assert [ruling(*messages, told=told, **changes).rule for messages, told, changes in steps] == expected


def test_what_infrastructure_broke_is_nobodys_failure_and_the_rest_is_one() -> None:
    assert ruling(ASKED, stop="infrastructure_error").outcome == "unjudged"
    assert ruling(ASKED, stop="environment_error").outcome == "failed"
    assert ruling(ASKED, stop="environment_error", success=None, reward=None).outcome == "unjudged"
    passed = ruling(ASKED, success=True, reward=1.0)
    assert (passed.rule, passed.evidence, passed.detail) == ("passed", (), "")


def test_a_second_look_is_not_asked_about_nothing_and_overrules_nobody_else() -> None:
    broken = case(ASKED, fault="environment").trajectory
    passed = case(ASKED, success=True).trajectory

    def never(_: Any) -> Any:
        raise AssertionError("it was asked")

    assert [one.fault for one in triage([broken, passed], never)] == ["environment", None]
    ours = case(ASKED, agent("Done.")).trajectory
    (row,) = triage([ours], lambda _: {"another": ("environment", "r", (), "")})  # type: ignore[dict-item, return-value]
    assert (row.fault, row.target, row.task_id, row.trajectory_id) == ("agent", "x", "x/1", "t")


def test_what_all_runs_tell_may_be_learned_from_more_than_these() -> None:
    one = case(user("Cancel K4822."), agent("One moment."), told=TOLD)
    assert [row.rule for row in triage([one.trajectory], known=one.known)] == ["simulator_contradicts"]
    assert [row.rule for row in triage([one.trajectory])] == ["agent"]


def test_a_records_words_are_looked_for_in_every_result() -> None:
    """One that failed, or that tells of something else, ends the search in no run."""
    red = '{"item": "A1", "color": "red", "note": "sold to a very long-winded customer of the old town"}'
    other = ('{"item": "B2", "color": "blue"}', '{"item": "A1", "size": "large"}')
    own = case(
        ASKED,
        *called("get_item", '{"error": "A1 is not there: try green"}'),
        *called("get_item", other[0]),
        *called("get_item", red),
        *called("get_item", other[1]),
    )
    words = contradictions._words_of(own, "A1")
    assert {"red", "large"} <= words and not {"blue", "green", "winded"} & words
