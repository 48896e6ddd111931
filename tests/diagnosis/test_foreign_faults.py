"""Failures that are not the agent's: lost calls, wrong tasks, users who leave their script. On a gym."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnosis.test_expected import CANCEL, POLICY, PROFILE, call, run, task, want
from trace_assets.diagnosis.expected.suspects import suspect_tasks
from trace_assets.diagnosis.triage import triage
from trace_assets.records import Check, ExpectedAction, Message, Task, Trajectory, Triage


def ruling(one: Trajectory, *actions: ExpectedAction, **known: Any) -> Triage:
    (row,) = triage([one], tasks=task(*actions, **known), suspicions=())
    return row


def said(role: str, text: str, **changes: Any) -> Message:
    return Message.model_validate({"role": role, "content": text, **changes})


def talk(*messages: Message, **changes: Any) -> Trajectory:
    return run(**changes).model_copy(update={"messages": messages, "n_messages": len(messages)})


@pytest.mark.parametrize("messages", [(), (said("system", POLICY),), (said("user", "Please cancel C-101."),)])
def test_a_transcript_without_a_message_of_the_agent_is_nobodys_failure(
    messages: tuple[Message, ...],
) -> None:
    found = ruling(talk(*messages), CANCEL)
    assert (found.fault, found.rule, found.outcome) == ("infrastructure", "no_answer", "unjudged")
    spoke = ruling(talk(*messages, said("assistant", "No.")), CANCEL)
    assert (spoke.fault, spoke.outcome) == ("agent", "failed")
    too_long = talk(*messages).model_copy(update={"stop": "context_overflow", "limit": "context"})
    assert ruling(too_long, CANCEL).rule == "context_overflow"


EMPTY = Message(role="assistant", content="", metadata={"completion_tokens": 41})
HELLO = said("user", "Please cancel my course C-101.")


def test_an_empty_message_after_generated_tokens_is_a_lost_call() -> None:
    found = ruling(talk(HELLO, EMPTY), CANCEL)
    assert (found.fault, found.rule, found.evidence, found.outcome) == (
        "infrastructure",
        "lost_call",
        (1,),
        "unjudged",
    )
    assert "41 tokens" in found.detail


@pytest.mark.parametrize(
    "messages",
    [
        (HELLO, EMPTY.model_copy(update={"metadata": {}})),  # nothing says that anything was generated
        (
            HELLO,
            EMPTY.model_copy(update={"metadata": {"completion_tokens": 9, "reasoning": "so"}}),
        ),  # it only thought
        # The program refused a message that had text and a call: the agent's form was wrong.
        (
            HELLO,
            EMPTY.model_copy(
                update={"metadata": {"completion_tokens": 9, "errors": ["bad. content: I will"]}}
            ),
        ),
        # It had written calls as text before.
        (
            HELLO,
            said("assistant", '{"name": "cancel_course", "arguments": {}}'),
            said("user", "What?"),
            EMPTY,
        ),
        # It had by then done what it should not.
        (HELLO, *call(0, "send_voucher", {"member_id": "m_17"}, "{}"), EMPTY),
        (HELLO, EMPTY, said("user", "Hello?")),  # the run went on
        (HELLO, EMPTY.model_copy(update={"content": "Well."})),  # it is not empty
    ],
)
def test_where_the_agent_is_to_blame_for_its_empty_message(messages: tuple[Message, ...]) -> None:
    assert ruling(talk(*messages), CANCEL).fault == "agent"


GUEST = {"first": "Ada", "last": "Byron", "born": "1991-12-24"}
WRONG = want("book_course", course_id="C-101", guests=[GUEST])
LOOK = ("get_member", {"member_id": "m_17"}, PROFILE)
RIGHTLY = ("book_course", {"course_id": "C-101", "guests": [{**GUEST, "born": "1990-02-01"}]}, '{"ok": 1}')


def test_a_run_that_fails_on_what_is_wrong_with_its_task_alone() -> None:
    found = ruling(run(LOOK, RIGHTLY), WRONG)
    assert (found.fault, found.rule, found.evidence) == ("ground_truth", "value_in_no_record", (3,))
    assert ruling(run(LOOK), WRONG).fault == "ground_truth", "nothing was done"
    refused = (*call(1, "transfer_to_human", {}, "{}"),)
    assert (
        ruling(run(LOOK).model_copy(update={"messages": (HELLO, *call(0, *LOOK), *refused)}), WRONG).fault
        == "ground_truth"
    )


@pytest.mark.parametrize(
    "calls",
    [
        (LOOK, RIGHTLY, ("send_voucher", {"member_id": "m_17"}, "{}")),  # it also did what nobody asked for
        (LOOK, ("book_course", {"course_id": "C-101", "guests": [GUEST]}, "{}")),  # it did what is wrong
        (LOOK, ("book_course", {"course_id": "C-999", "guests": [{**GUEST, "born": "1990-02-01"}]}, "{}")),
    ],
)
def test_a_wrong_task_is_no_excuse(calls: Any) -> None:
    assert ruling(run(*calls), WRONG).fault == "agent"


def test_what_comes_before_the_wrong_demand_should_have_been_done() -> None:
    first = want("update_booking", booking_id="B-9")
    assert ruling(run(LOOK), first, WRONG).fault == "agent"
    assert ruling(run(LOOK), WRONG, first).fault == "ground_truth", "what comes after it was not reached"


def test_without_the_rules_that_found_it_a_wrong_task_is_not_wrong() -> None:
    assert ruling(run(LOOK, RIGHTLY)).fault == "agent"
    (row,) = triage([run(LOOK, RIGHTLY)])
    assert row.fault == "agent"


def test_a_wrong_demand_is_found_behind_a_look_and_shown_where_something_was_said() -> None:
    look = want("get_member", member_id="m_17")
    assert ruling(run(LOOK, RIGHTLY), look, WRONG).fault == "ground_truth"
    spoken, empty = triage([run(LOOK), talk(name="r2")], tasks=task(WRONG))
    assert (spoken.fault, spoken.evidence) == ("ground_truth", (3,)), "the agent's last words"
    assert (empty.fault, empty.evidence) == ("ground_truth", ()), "there is no message to show"


def test_of_two_wrong_demands_the_one_that_the_run_lacks_is_told() -> None:
    same = {"order_id": "O-1", "item_ids": ["77"], "new_item_ids": ["77"]}
    both = (want("exchange_items", **same), WRONG)
    exchanged = ("exchange_items", same, "{}")
    as_told = ("book_course", {"course_id": "C-101", "guests": [GUEST]}, "{}")
    assert ruling(run(LOOK, exchanged, RIGHTLY), *both).rule == "value_in_no_record"
    assert ruling(run(LOOK, as_told), *both).rule == "no_change_demanded"


def test_what_is_only_suspected_of_a_task_excuses_nobody() -> None:
    given = want("add_credit", member_id="m_17", hours=4.5)
    told = ["You want to train.", *["You take 4.5 hours if need be."] * 4]
    tasks = {f"gym/{n}": task(given, name=f"gym/{n}", told=one)[f"gym/{n}"] for n, one in enumerate(told)}
    runs = [run(name=f"r{n}", task=f"gym/{n}") for n in range(5)]
    assert [(one.task_id, one.grade) for one in suspect_tasks(runs, tasks)] == [("gym/0", "suspected")]
    assert {one.fault for one in triage(runs, tasks=tasks)} == {"agent"}


ROOM = {"booking_id": "B-9", "room": "B"}
MOVED = ("update_booking", ROOM, '{"ok": 1}')
UNMOVED = ("get_booking", {"booking_id": "B-9"}, '{"booking_id": "B-9", "room": "A"}')


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (["get_booking"], "environment"),
        (["get_booking", "cancel_booking"], "agent"),
        (["get_member"], "agent"),  # not all: it called another one
        ([], "agent"),
    ],
)
def test_a_call_that_the_agent_had_no_tool_for_is_not_its_failure(given: list[str], fault: str) -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in given]
    one = run(UNMOVED, metadata={"tools": tools})
    assert ruling(one, want("cancel_booking", booking_id="B-9")).fault == fault
    users = want("cancel_booking", booking_id="B-9").model_copy(update={"requestor": "user"})
    assert ruling(one, users).rule != "missing_tool"
    assert ruling(one, want("get_hours")).rule != "missing_tool", "whoever lacks a look may know it otherwise"


def test_a_change_that_a_later_look_does_not_show_was_lost() -> None:
    found = ruling(run(MOVED, UNMOVED), want("update_booking", **ROOM))
    assert (found.fault, found.rule, found.evidence) == ("environment", "lost_write", (1, 4))
    assert found.detail == "update_booking set room to 'B', and get_booking then showed 'A'"


@pytest.mark.parametrize(
    "calls",
    [
        (UNMOVED, MOVED),  # nobody looked afterwards
        (("find_booking", ROOM, "[]"), UNMOVED),  # nothing was to be changed
        (MOVED, (*UNMOVED[:2], '{"booking_id": "B-9", "room": "b"}')),
        (MOVED, (*UNMOVED[:2], '{"booking_id": "B-9", "day": "Monday"}')),
        (MOVED, ("get_booking", {"booking_id": "B-8"}, UNMOVED[2])),
        (MOVED, (*UNMOVED, True)),  # the look was refused
        (MOVED, (*UNMOVED[:2], '[{"booking_id": "B-9", "room": "A"}, {"booking_id": "B-7", "room": "A"}]')),
        (MOVED, ("update_booking", {**ROOM, "room": "A"}, "{}"), UNMOVED),  # it was changed again
        # Lists and switches are told in too many ways.
        (("update_booking", {**ROOM, "guests": ["Ada"]}, "{}"), (*UNMOVED[:2], '{"guests": 2, "day": 1}')),
        (("update_booking", {**ROOM, "paid": True}, "{}"), (*UNMOVED[:2], '{"paid": "no", "day": 1}')),
    ],
)
def test_where_no_change_was_lost(calls: Any) -> None:
    wanted = [want(tool, **given) for tool, given, *_ in calls if tool == "update_booking"]
    assert ruling(run(*calls), *wanted).fault == "agent"


def test_a_change_that_was_not_all_is_not_called_lost() -> None:
    assert ruling(run(MOVED, UNMOVED), want("update_booking", **ROOM), CANCEL).fault == "agent"


def test_a_step_that_the_last_one_overwrites() -> None:
    first = want("update_booking", booking_id="B-9", room="A", day="Monday")
    last = want("update_booking", booking_id="B-9", room="B", day="Friday")
    done = ("update_booking", {"booking_id": "B-9", "room": "B", "day": "Friday"}, "{}")
    found = ruling(run(done), first, last)
    assert (found.fault, found.rule, found.evidence) == ("ground_truth", "superseded_step", (1,))
    beside = ("update_booking", {"booking_id": "B-7", "room": "A"}, "{}")
    found = ruling(run(beside, done), want(beside[0], **beside[1]), first, last)
    assert (found.rule, found.evidence) == ("superseded_step", (3,)), "the call that overwrites it is shown"
    other = want("update_booking", booking_id="B-8", room="A", day="Monday")
    assert ruling(run(done), other, last).fault == "agent", "another booking is left as it was"
    more = want("update_booking", booking_id="B-9", room="A", day="Monday", coach="Bo")
    assert ruling(run(done), more, last).fault == "agent", "the last one says nothing of the coach"
    assert ruling(run(done), last, first).fault == "agent", "the last one is what is missing"


SHOP = (
    '{"variants": [{"item_id": "500601", "colour": "crimson", "kind": "mat"}, '
    '{"item_id": "500602", "colour": "turquoise", "kind": "mat"}]}'
)
OFFER = "There is a crimson mat and a turquoise mat. Which one would you like?"
TAKE = said("user", "The turquoise one, please. Yes, go ahead.")
BOUGHT = call(2, "modify_order", {"order_id": "O-1", "item_id": "500602"}, "{}")
BYE = (said("assistant", "Done. Anything else?"), said("user", "No. ###STOP###"))
CRIMSON = want("modify_order", order_id="O-1", item_id="500601")
START = (said("user", "I want another mat."), *call(1, "list_mats", {}, SHOP))


def test_a_user_who_chooses_another_of_the_offered() -> None:
    found = ruling(talk(*START, said("assistant", OFFER), TAKE, *BOUGHT, *BYE), CRIMSON)
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "users_choice", (4, 5))
    assert "turquoise" in found.detail


@pytest.mark.parametrize(
    "messages",
    [
        (said("assistant", "There is a turquoise mat. Shall I order it?"), TAKE),  # the other was not offered
        (said("assistant", OFFER), said("user", "Yes, please.")),  # the user did not choose
        # The other was said not to be had, or this one to be the best: the agent led there.
        (said("assistant", "There is a turquoise mat. The crimson mat is not available."), TAKE),
        (said("assistant", f"{OFFER} The turquoise one is the cheapest."), TAKE),
    ],
)
def test_where_it_was_not_the_users_choice(messages: tuple[Message, ...]) -> None:
    assert ruling(talk(*START, *messages, *BOUGHT, *BYE), CRIMSON).fault == "agent"


def test_a_users_choice_explains_only_itself() -> None:
    beside = call(9, "send_voucher", {"member_id": "m_17"}, "{}")
    one = talk(*START, said("assistant", OFFER), TAKE, *BOUGHT, *beside, *BYE)
    assert ruling(one, CRIMSON).fault == "agent"
    nobody = talk(*START, said("assistant", OFFER), TAKE, *BOUGHT).model_copy(update={"user_policy": None})
    assert ruling(nobody, CRIMSON).fault == "agent"


@pytest.mark.parametrize(
    ("offer", "fault"),
    [
        ("The crimson mat is not new. There is a turquoise mat!", "agent"),
        ("There is a crimson mat. The old one is not available; there is a turquoise mat.", "user_simulator"),
        (
            "There is a crimson mat!\nSold out: the green one?\nAnd there is a turquoise mat.",
            "user_simulator",
        ),
        ("There is a turquoise mat, there isn't a crimson one", "agent"),
        ("There is a turquoise mat, there isn’t a crimson one", "agent"),
        # The best of its kind: said of another thing, or of this one in another clause than the price.
        (f"{OFFER} The crimson one is the cheapest; the turquoise one is here.", "user_simulator"),
        (f"{OFFER} I recommend the turquoise one.", "agent"),
        (f"{OFFER} We have many.\nSuggesting: turquoise", "agent"),
    ],
)
def test_what_is_offered_and_praised_is_told_clause_by_clause(offer: str, fault: str) -> None:
    assert ruling(talk(*START, said("assistant", offer), TAKE, *BOUGHT, *BYE), CRIMSON).fault == fault


def test_who_speaks_decides_what_is_offered_chosen_and_praised() -> None:
    own = said("user", "I saw a crimson mat and a turquoise mat, which is the best.")
    assert ruling(talk(*START, own, said("assistant", "Yes?"), TAKE, *BOUGHT), CRIMSON).rule == "users_choice"
    agents = said("assistant", "Then the turquoise one.")
    one = talk(*START, said("assistant", OFFER), said("user", "Any."), agents, *BOUGHT, *BYE)
    assert ruling(one, CRIMSON).fault == "agent", "the agent chose"
    both = said("user", "The turquoise one, not the crimson one.")
    assert ruling(talk(*START, said("assistant", OFFER), both, *BOUGHT, *BYE), CRIMSON).fault == "agent"
    shown = talk(
        *START, *call(3, "show_mat", {}, OFFER), said("assistant", "Turquoise?"), TAKE, *BOUGHT, *BYE
    )
    assert ruling(shown, CRIMSON).fault == "agent", "what a tool shows was not offered"
    silent = (Message(role="assistant"), Message(role="user"))
    one = talk(*START, *silent, said("assistant", OFFER), TAKE, *silent, *BOUGHT, *BYE)
    assert ruling(one, CRIMSON).evidence == (6, 9), "messages without a word say nothing"


@pytest.mark.parametrize(("between", "fault"), [(11, "user_simulator"), (12, "agent")])
def test_a_choice_stands_among_the_last_twelve_messages_before_its_call(between: int, fault: str) -> None:
    small = [said("assistant", "One moment."), *[said("user", "Fine.")] * (between - 1)]
    one = talk(*START, said("assistant", OFFER), TAKE, *small, *BOUGHT, *BYE)
    assert ruling(one, CRIMSON).fault == fault


@pytest.mark.parametrize(
    ("crimson", "turquoise", "fault"),
    [
        ("crimson", "turquoise", "user_simulator"),
        ("128gb", "256gb", "user_simulator"),
        ("410", "520", "user_simulator"),
        ("crimson", "turquoise " + "and long " * 4, "agent"),  # of more than 40 letters: no name for a thing
        ("red", "big", "user_simulator"),
        ("re", "bi", "agent"),  # too short to be told from other words
    ],
)
def test_things_are_told_apart_by_the_words_of_their_records(
    crimson: str, turquoise: str, fault: str
) -> None:
    shop = SHOP.replace("crimson", crimson).replace("turquoise", turquoise)
    start = (START[0], *call(1, "list_mats", {}, shop))
    words = turquoise.split()[0]
    offer = said("assistant", f"There is {crimson} and {words}. Which one would you like?")
    one = talk(*start, offer, said("user", f"The {words} one."), *BOUGHT, *BYE)
    assert ruling(one, CRIMSON).fault == fault


def test_records_of_a_refused_look_or_of_other_things_tell_nothing() -> None:
    refused = (START[0], *call(1, "list_mats", {}, SHOP, error=True))
    assert ruling(talk(*refused, said("assistant", OFFER), TAKE, *BOUGHT, *BYE), CRIMSON).fault == "agent"
    more = SHOP.replace("]", ', {"item_id": "500603", "colour": "green"}]')
    start = (START[0], *call(1, "list_mats", {}, more))
    green = said("user", "The green one, please.")
    assert ruling(talk(*start, said("assistant", OFFER), green, *BOUGHT, *BYE), CRIMSON).fault == "agent"


def test_a_choice_may_leave_a_thing_out_and_a_hand_over_beside_it_decides_nothing() -> None:
    bought = call(2, "modify_order", {"order_id": "O-1", "item_ids": ["500602"]}, "{}")
    both = want("modify_order", order_id="O-1", item_ids=["500601", "500602"])
    only = said("user", "Only the turquoise one.")
    assert ruling(talk(*START, said("assistant", OFFER), only, *bought, *BYE), both).rule == "users_choice"
    handed = call(3, "transfer_to_human", {}, "{}")
    one = talk(*START, said("assistant", OFFER), TAKE, *BOUGHT, *handed, *BYE)
    assert ruling(one, CRIMSON).rule == "users_choice"
    missed = want("send_voucher", member_id="m_17")
    assert (
        ruling(talk(*START, said("assistant", OFFER), TAKE, *BOUGHT, *BYE), CRIMSON, missed).fault == "agent"
    )


@pytest.mark.parametrize(
    ("offer", "takes", "fault"),
    [
        ("Crimson, turquoise, green or yellow?", "Turquoise and yellow.", "user_simulator"),
        ("Crimson, turquoise or yellow?", "Turquoise and yellow.", "agent"),  # one of the two was not offered
        ("Crimson, turquoise, green or yellow?", "Turquoise, or crimson.", "agent"),
        ("Crimson, turquoise, green or yellow?", "Turquoise, and green?", "agent"),
    ],
)
def test_of_several_things_all_have_to_be_offered_and_none_of_them_named(
    offer: str, takes: str, fault: str
) -> None:
    more = ', {"item_id": "500603", "colour": "green"}, {"item_id": "500604", "colour": "yellow"}]'
    start = (START[0], *call(1, "list_mats", {}, SHOP.replace("]", more)))
    bought = call(2, "modify_order", {"order_id": "O-1", "item_ids": ["500602", "500604"]}, "{}")
    wanted = want("modify_order", order_id="O-1", item_ids=["500601", "500603"])
    one = talk(*start, said("assistant", offer), said("user", takes), *bought, *BYE)
    assert ruling(one, wanted).fault == fault


def test_every_difference_has_to_be_a_choice_and_the_first_words_of_it_are_told() -> None:
    shop = (
        '{"mats": [{"mat_id": "500601", "colour": "crimson"}, '
        '{"mat_id": "500602", "colour": "blue sky, deep night, old gold"}], '
        '"bags": [{"bag_id": "700601", "size": "small"}, {"bag_id": "700602", "size": "large"}]}'
    )
    start = (START[0], *call(1, "list_all", {}, shop))
    offer = said("assistant", "There is crimson or blue sky, deep night, old gold. And small or large bags?")
    mat, bag = said("user", "Old gold, blue sky, deep night."), said("user", "A large one.")
    bought = call(2, "modify_order", {"order_id": "O-1", "mat_id": "500602", "bag_id": "700602"}, "{}")
    wanted = want("modify_order", order_id="O-1", mat_id="500601", bag_id="700601")
    found = ruling(talk(*start, offer, mat, said("assistant", "And a bag?"), bag, *bought, *BYE), wanted)
    assert (found.rule, found.evidence) == ("users_choice", (4, 6, 7))
    assert found.detail.startswith("the user was offered what its task wants and chose otherwise (")
    assert "mat id: blue, deep, gold, night" in found.detail and "bag id: large" in found.detail
    one = talk(*start, offer, mat, said("assistant", "And a bag?"), said("user", "Any."), *bought, *BYE)
    assert ruling(one, wanted).fault == "agent", "nobody chose the bag"
    count = want("modify_order", order_id="O-1", mat_id="500601", bag_id="700602", count=3)
    assert ruling(talk(*start, offer, mat, *bought, *BYE), count).fault == "agent", "nor how many"


def users_call(number: int, tool: str, result: str) -> list[Message]:
    made = [one.model_copy(update={"requestor": "user"}) for one in call(number, tool, {}, result)]
    return [made[0].model_copy(update={"role": "user"}), made[1]]


PUMP = ExpectedAction(name="toggle_pump", arguments={}, requestor="user")
ASK = said("assistant", "Is the pump running?")


def test_a_user_who_denies_what_its_device_shows() -> None:
    denied = said("user", "No, there is no pump symbol on the display.")
    later = users_call(1, "check_display", "Display: Pump running | Water 40 %")
    found = ruling(talk(HELLO, ASK, denied, said("assistant", "Please look again."), *later, *BYE), PUMP)
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "denied_state", (2, 5))
    looked = talk(HELLO, ASK, *users_call(0, "check_display", "Display: dark"), denied, *later, *BYE)
    assert ruling(looked, PUMP).fault == "agent", "it had looked before it spoke"
    fine = talk(HELLO, ASK, denied, *users_call(1, "check_display", "Display: Pump off"), *BYE)
    assert ruling(fine, PUMP).fault == "agent", "it was right"
    agents = (want("toggle_pump"), ExpectedAction(name="reset_meter", arguments={}, requestor="user"))
    assert ruling(talk(HELLO, ASK, denied, *later, *BYE), *agents).fault == "agent", (
        "not the user's to switch"
    )
    alone = talk(HELLO, ASK, denied, *later).model_copy(update={"user_policy": None})
    assert ruling(alone, PUMP).fault == "agent", "a person may err"
    twice = said("user", "The pump is off so it is not working.")
    assert ruling(talk(HELLO, ASK, twice, *later, *BYE), PUMP).rule == "denied_state", "two denials, one each"
    long = said("user", "There is no pump symbol " + "x" * 200)
    assert (
        f"'{('there is no pump symbol ' + 'x' * 200)[:120]}'"
        in ruling(talk(HELLO, ASK, long, *later, *BYE), PUMP).detail
    )
    mended = talk(HELLO, ASK, denied, *later, *users_call(2, "toggle_pump", "ok"), *BYE)
    assert ruling(mended, PUMP, CANCEL).fault == "agent", "it was put right"


def denies(words: str, shown: str, *more: Message, wanted: tuple[ExpectedAction, ...] = (PUMP,)) -> bool:
    """Tell whether the words of a user are taken for its fault, where its device then shows something."""
    later = users_call(1, "check_display", shown)
    one = talk(HELLO, ASK, said("user", words), *more, said("assistant", "Please look."), *later, *BYE)
    return ruling(one, *wanted).rule == "denied_state"


@pytest.mark.parametrize(
    ("words", "shown", "denied"),
    [
        ("The pump is off.", "Pump running", True),
        ("The pump is off.", "Pump not running", False),
        ("The pump is on.", "Pump off", True),
        ("The pump is on.", "Pump running", False),
        ("The pump works.", "Pump: false", True),
        ("The pump is not off.", "Pump off", True),
        ("The pump is not off.", "Pump running", False),
        ("The pump is blue.", "Pump off", False),  # nothing of its state
        ("The water is off.", "Pump running", False),  # of another thing
        ("The pump is off.", "Water running", False),
        # What is asked, asked for or wished for is not told.
        ("The pump is off?", "Pump running", False),
        ("Is the pump off", "Pump running", False),
        ("Please, the pump is off", "Pump running", True),
        ("Please switch the pump off", "Pump running", False),
        ("  i want the pump off", "Pump running", False),
        # Clause by clause.
        ("Water is on, the pump is off", "Pump running", True),
        ("The pump is here, water is off", "Pump running", False),
        ("The pump is here but water is off", "Pump running", False),
        ("The pump is here so water is off", "Pump running", False),
        ("The pump is here — water is off", "Pump running", False),
        ("The pump is here - water is off", "Pump running", False),
        ("The pump-motor is off", "Pump running", True),
        ("Is it? The pump is off", "Pump running", True),
        # What the device shows of another thing stands apart, and the first it shows of this one counts.
        ("The pump is off.", "Water off | Pump running", True),
        ("The pump is off.", "Pump running; Water off", True),
        ("The pump is off.", "Pump running. Water off", True),
        ("The pump is off.", "Pump running  Water off", True),
        ("The pump is off.", "Pump running.  Water off", True),
        ("The pump is off.", "Pump running water off", False),
        ("The pump is off.", "Water on | Pump off", False),
        ("The pump is off.", "Pump off\nPump running", False),
    ],
)
def test_what_a_user_says_is_held_against_what_its_device_shows(words: str, shown: str, denied: bool) -> None:
    assert denies(words, shown) is denied


def test_which_look_and_which_step_of_the_user_count() -> None:
    words, on = said("user", "The pump is off."), "Pump running"
    before = users_call(0, "check_display", on)
    later = users_call(1, "check_display", on)
    assert denies("The pump is off.", on, wanted=(PUMP, CANCEL)), "the agent's own miss beside it"
    first = talk(*before, words, said("assistant", "Please look."), *later, *BYE)
    assert ruling(first, PUMP).fault == "agent", "it looked before anybody spoke"
    spoke = said("assistant", "And now?")
    one = talk(HELLO, ASK, *before, spoke, words, *later, *BYE)
    assert (ruling(one, PUMP).rule, ruling(one, PUMP).evidence) == ("denied_state", (5, 7)), "an old look"
    assert ruling(talk(HELLO, ASK, *before, spoke, words, *BYE), PUMP).fault == "agent", "no look afterwards"
    agents = talk(HELLO, ASK, words, *call(1, "check_display", {}, on), *users_call(2, "ring", "ok"), *BYE)
    assert ruling(agents, PUMP).fault == "agent", "what the agent looked at is not the user's device"
    again = PUMP.model_copy(update={"arguments": {"speed": 2}})
    no = users_call(2, "toggle_pump", "no")
    failed = (no[0], no[1].model_copy(update={"is_error": True}))
    assert ruling(talk(HELLO, ASK, words, *later, *failed, *BYE), again).rule == "denied_state"
    wordless = talk(HELLO, ASK, Message(role="user"), said("assistant", "The pump is off."), *later, *BYE)
    assert ruling(wordless, PUMP).fault == "agent", "the agent said it"
    later_words = talk(HELLO, ASK, said("user", "Wait."), spoke, words, *later, *BYE)
    assert ruling(later_words, PUMP).evidence == (4, 6)


def test_a_step_that_names_nothing_is_denied_by_no_words() -> None:
    reboot = ExpectedAction(name="reboot", arguments={}, requestor="user")
    assert not denies("It is not working.", "Pump running", wanted=(reboot,))
    assert denies("The pump is off.", "Pump running", wanted=(reboot, PUMP))


def test_a_user_is_known_to_be_simulated_by_its_marks() -> None:
    words = (said("user", "Please cancel C-101."), said("assistant", "Shall I cancel C-101?"))
    last = said("user", "Yes, please do. ###STOP###")
    one = talk(*words, last).model_copy(update={"user_policy": None})
    assert ruling(one, CANCEL).rule == "simulator_stopped_first"
    plain = talk(*words, said("user", "Yes, please do.")).model_copy(update={"user_policy": None})
    assert ruling(plain, CANCEL).fault == "agent"


@pytest.mark.parametrize(
    ("asks", "answer", "fault"),
    [
        ("Could you please tell me your member number?", "It is m_17. ###STOP###", "user_simulator"),
        ("Could you please tell me your member number?", "###STOP###", "user_simulator"),
        ("Could you please tell me your member number?", "I already told you. ###STOP###", "agent"),
        ("Could you please tell me your member number?", "Thanks for nothing, bye. ###STOP###", "agent"),
        ("Could you please tell me your member number?", "###OUT-OF-SCOPE###", "agent"),
        # What it asks for must stand in its last two sentences or lines, and no farewell may come after it.
        ("Could you tell me your number\nI looked it up\nAll is fine", "###STOP###", "agent"),
        ("Could you try it tomorrow? Feel free to write to me then.", "###STOP###", "agent"),
        ("It is all done. Anything else I can do for you?", "###STOP###", "agent"),
        ("You are being transferred. Please hold on.", "###TRANSFER###", "agent"),
        ("Shall I transfer you to a human agent?", "Yes, please. ###TRANSFER###", "agent"),
    ],
)
def test_who_is_to_blame_for_the_end(asks: str, answer: str, fault: str) -> None:
    one = talk(said("user", "Please cancel C-101."), said("assistant", asks), said("user", answer))
    assert ruling(one, CANCEL).fault == fault


@pytest.mark.parametrize(
    ("wanted", "judged", "fault"),
    [
        (CANCEL, False, "user_simulator"),
        (want("transfer_to_human"), True, "user_simulator"),
        # A hand over changes nothing: it is missed only where the grader asks for the call itself.
        (want("transfer_to_human"), False, "agent"),
    ],
)
def test_a_hand_over_is_missed_where_it_is_judged(wanted: ExpectedAction, judged: bool, fault: str) -> None:
    check = Check(name=f"action/0/{wanted.name}", kind="action", passed=False, gates=judged)
    words = (HELLO, said("assistant", "Shall I go on?"), said("user", "Yes. ###STOP###"))
    assert ruling(talk(*words, checks=(check,)), wanted).fault == fault


def test_what_was_tried_and_refused_is_nothing_that_the_user_did_not_wait_for() -> None:
    refused = call(0, "cancel_course", {"course_id": "C-1"}, "Error: there is no such course", error=True)
    end = (said("assistant", "Shall I cancel half of it?"), said("user", "Yes. ###STOP###"))
    assert ruling(talk(HELLO, *end), CANCEL).rule == "simulator_stopped_first"
    assert ruling(talk(HELLO, *refused, *end), CANCEL).fault == "agent"


def test_a_first_message_that_ends_the_conversation() -> None:
    one = talk(said("assistant", "Hello!"), said("user", "Please cancel C-101. ###STOP###"))
    assert ruling(one, CANCEL).rule == "simulator_stopped_first"


def test_a_task_without_any_expectation_accuses_nobody() -> None:
    unknown = {"gym/1": Task(task_id="gym/1", target="gym", task_batch="b", domain_policy=POLICY)}
    (row,) = triage([run(LOOK)], tasks=unknown)
    assert row.fault == "agent"


CANCELLED = call(1, "cancel_course", {"course_id": "C-101"}, "{}")
SMALL_TALK = (said("user", "Thanks, have a nice day."), said("assistant", "You too."))


def went_on(*messages: Message, times: int = 3, small: tuple[Message, ...] = SMALL_TALK) -> Trajectory:
    return talk(HELLO, *messages, *(small * times)).model_copy(update={"stop": "max_turns"})


def test_a_user_who_does_not_stop_when_all_is_done() -> None:
    found = ruling(went_on(*CANCELLED), CANCEL)
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "simulator_never_stopped", (3, 7))
    assert found.detail.endswith("the user did not end the conversation in 3 messages")
    silent = ruling(went_on(*CANCELLED, small=(Message(role="user"), *SMALL_TALK)), CANCEL)
    assert silent.rule == "simulator_never_stopped", "a message without a word is one too"
    talked = ruling(went_on())  # nothing was to be done, and nothing was called
    assert (talked.rule, talked.evidence) == ("simulator_never_stopped", (0, 5))


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (went_on(*CANCELLED, times=2), (CANCEL,)),
        (went_on(), (CANCEL,)),  # something was left to do
        (went_on(*CANCELLED, small=(said("user", "And?"), said("assistant", "Yes?"))), (CANCEL,)),
        (went_on(*CANCELLED).model_copy(update={"stop": "completed"}), (CANCEL,)),
        (went_on(*CANCELLED).model_copy(update={"user_policy": None}), (CANCEL,)),
        # What came before the last call, or before an answer to one, is no small talk.
        (went_on(*CANCELLED, *(SMALL_TALK * 3), said("tool", "{}"), times=1), (CANCEL,)),
        (went_on(*(SMALL_TALK * 3), *CANCELLED, times=1), (CANCEL,)),
    ],
)
def test_where_a_user_had_reason_to_go_on(one: Trajectory, expected: tuple[ExpectedAction, ...]) -> None:
    assert ruling(one, *expected).rule != "simulator_never_stopped"


@pytest.mark.parametrize("sign", ["", "#"])
def test_a_choice_is_known_by_a_number_that_is_none_in_text(sign: str) -> None:
    """Records tell a number where the call has the same as text, or leave out the sign before it."""
    shop = SHOP.replace('"500601"', "500601").replace('"500602"', "500602")
    start = (START[0], *call(1, "list_mats", {}, shop))
    bought = call(2, "modify_order", {"order_id": "O-1", "item_id": f"{sign}500602"}, "{}")
    crimson = want("modify_order", order_id="O-1", item_id=f"{sign}500601")
    found = ruling(talk(*start, said("assistant", OFFER), TAKE, *bought, *BYE), crimson)
    assert (found.fault, found.rule) == ("user_simulator", "users_choice") and "turquoise" in found.detail


@pytest.mark.parametrize(
    ("order", "refused", "fault"),
    [
        ("O-100", True, "user_simulator"),
        ("O-200", True, "agent"),
        ("O-100", False, "agent"),
    ],
)
def test_a_call_that_is_refused_anyway_decides_nothing(order: str, refused: bool, fault: str) -> None:
    """Beside a choice of the user's: it counts where the very thing was tried and refused."""
    refund = want("refund_order", order_id="O-100", amount=5)
    tried = call(3, "refund_order", {"order_id": order, "amount": 9}, "no", error=refused)
    one = talk(*START, said("assistant", OFFER), TAKE, *BOUGHT, *(tried if refused else ()), *BYE)
    assert ruling(one, CRIMSON, refund).fault == fault
