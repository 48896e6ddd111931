"""What a simulated user decided, where that alone is in the way: at a library and a clinic."""

from __future__ import annotations

import pytest

from tests.diagnosis.test_expected import call, run, task, want
from tests.diagnosis.test_foreign_faults import said, talk
from trace_assets.diagnosis.triage import triage
from trace_assets.records import ExpectedAction, Message, Trajectory, Triage

CARD = (
    '{"card": "L-410", "loans": [{"copy": "K7701", "title": "Blue Harbour"}, '
    '{"copy": "K7702", "title": "Salt"}]}'
)
LOOK = (said("user", "It is about my card L-410."), *call(0, "get_card", {"card": "L-410"}, CARD))
RENEW = want("renew_loan", card="L-410", copy="K7701")
LAYS_OUT = "I would renew 'Blue Harbour' on your card L-410. Shall I go ahead?"
TOLD = "You are a reader and want your loan of Blue Harbour renewed."


def ruled(one: Trajectory, *wanted: ExpectedAction, told: str = TOLD, policy: str = "# Library") -> Triage:
    """Return the ruling with the suspicions that are in force."""
    (row,) = triage([one], tasks=task(*wanted, told=told, policy=policy))
    return row


def test_a_yes_to_what_is_expected_that_ends_the_talk() -> None:
    one = talk(*LOOK, said("assistant", LAYS_OUT), said("user", "Yes, please go ahead. ###STOP###"))
    found = ruled(one, RENEW)
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "agreed_and_left", (3, 4))
    assert "renew_loan" in found.detail
    asks_beside = said("user", "Go ahead and renew it, I don't want to pay a fine. All good? ###STOP###")
    assert ruled(talk(*LOOK, said("assistant", LAYS_OUT), asks_beside), RENEW).rule == "agreed_and_left"


YES = said("user", "Yes, please go ahead. ###STOP###")


@pytest.mark.parametrize(
    "messages",
    [
        # What was proposed is not what is expected.
        (said("assistant", "I would renew 'Salt' on your card L-410. Shall I go ahead?"), YES),
        # It had been asked the same, and told to go on.
        (said("assistant", LAYS_OUT), said("user", "Yes."), said("assistant", "Shall I renew it now?"), YES),
        # Nothing was proposed.
        (said("assistant", "'Blue Harbour' on card L-410 is due. Renewals are free."), YES),
        # No consent, and none without a mark.
        (said("assistant", LAYS_OUT), said("user", "No, don't do it. ###STOP###")),
        (said("assistant", LAYS_OUT), said("user", "Yes, please go ahead.")),
        (said("assistant", LAYS_OUT), said("user", "Yes, please transfer me. ###TRANSFER###")),
        # It had tried, and was refused.
        (*call(1, "renew_loan", {"card": "L-410", "copy": "K7701"}, "Error: no", error=True),
         said("assistant", LAYS_OUT), YES),
        # It did something else beside.
        (*call(1, "cancel_card", {"card": "L-410"}, "{}"), said("assistant", LAYS_OUT), YES),
        # The last that it asked is about another deed.
        (said("assistant", LAYS_OUT), said("user", "Free?"), said("assistant", "Shall I send it?"), YES),
    ],
)  # fmt: skip
def test_where_the_user_may_go(messages: tuple[Message, ...]) -> None:
    assert ruled(talk(*LOOK, *messages), RENEW).rule != "agreed_and_left"


def test_a_proposal_of_what_is_expected_that_the_user_turns_down() -> None:
    refuses = said("user", "Actually, there is no need to renew it. Tell me the hours.")
    end = (said("assistant", "We open at nine."), said("user", "Thanks. ###STOP###"))
    one = talk(*LOOK, said("assistant", LAYS_OUT), refuses, *end)
    found = ruled(one, RENEW)
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "turned_down", (3, 4))
    other = said("assistant", "I would renew 'Salt' on your card L-410. Shall I go ahead?")
    assert ruled(talk(*LOOK, other, refuses, *end), RENEW).fault == "agent", "another loan was proposed"
    sorry = said("assistant", f"Unfortunately I cannot waive the fine. {LAYS_OUT}")
    assert ruled(talk(*LOOK, sorry, refuses, *end), RENEW).fault == "agent", "something was refused with it"
    asks = said("user", "How long would that be?")
    assert ruled(talk(*LOOK, said("assistant", LAYS_OUT), asks, *end), RENEW).fault == "agent"
    done = call(5, "cancel_card", {"card": "L-410"}, "{}")
    beside = talk(*LOOK, said("assistant", LAYS_OUT), refuses, *done, *end)
    assert ruled(beside, RENEW).fault == "agent", "that is not all that differs"


VISITS = want("cancel_visit", visit="V-301"), want("move_visit_reminder", visit="V-302", to="phone")
SWAPPED = (
    "You have the visits V-301 and V-302. For V-302 the reminder is to go to your phone. Cancel the other."
)


def at_clinic(*messages: Message) -> Trajectory:
    return talk(
        said("user", "I have two visits, V-301 and V-302."), said("assistant", "How can I help?"), *messages
    )


def test_a_user_who_mixes_two_records_up() -> None:
    asks = said("user", "Please cancel V-302."), said("user", "Send the reminder for V-301 to my phone.")
    first = call(1, "cancel_visit", {"visit": "V-302"}, "{}")
    second = call(2, "move_visit_reminder", {"visit": "V-301", "to": "phone"}, "{}")
    one = at_clinic(asks[0], *first, said("assistant", "Done."), asks[1], *second)
    found = ruled(one, *VISITS, told=SWAPPED)
    assert (found.fault, found.rule) == ("user_simulator", "other_named") and found.evidence[0] == 2
    assert "V-302 in place of V-301" in found.detail
    led = said("assistant", "Shall I cancel V-302?"), said("user", "Yes, cancel V-302.")
    agents = at_clinic(*led, *first, said("assistant", "Done."), asks[1], *second)
    assert ruled(agents, *VISITS, told=SWAPPED).fault == "agent", "the agent spoke of it first"
    vague = "You have the visits V-301 and V-302 and want one cancelled."
    assert ruled(one, *VISITS, told=vague).fault == "agent", "the instruction does not say which"
    both = want("cancel_visit", visit="V-301"), want("move_visit_reminder", visit="V-303", to="phone")
    assert ruled(one, *both, told=SWAPPED).fault == "agent", "the second is not what the first one left over"


ALL = "You move away and want everything on your card returned."
BACK = want("return_copies", card="L-410", copies=["K7701", "K7702"])


def returned(
    words: str, *copies: str, told: str = ALL, offer: str = "You have Blue Harbour and Salt."
) -> Triage:
    made = call(3, "return_copies", {"card": "L-410", "copies": list(copies)}, "{}")
    end = (said("assistant", "Done."), said("user", "Bye. ###STOP###"))
    return ruled(talk(*LOOK, said("assistant", offer), said("user", words), *made, *end), BACK, told=told)


def test_a_user_who_names_a_part_of_all_that_it_was_to_ask_for() -> None:
    found = returned("Return Blue Harbour, please.", "K7701")
    assert (found.fault, found.rule, found.evidence) == ("user_simulator", "asked_for_less", (4, 5))
    assert "copies: 1 of 2" in found.detail
    assert returned("Return Blue Harbour, and the rest.", "K7701").fault == "agent", "it named the rest"
    assert returned("Return Blue Harbour and Salt.", "K7701").fault == "agent", "it named both"
    assert returned("Return them.", "K7701").fault == "agent", "it named none"
    some = returned("Return Blue Harbour, please.", "K7701", told="You want two novels returned.")
    assert some.fault == "agent", "the instruction does not say all"
    assert returned("Return Blue Harbour.", "K7701", "K9999").fault == "agent", "it did what nobody named"


REASONS = "# Library\nThe reason for ending is either 'moving away' or 'too expensive'."
END = want("cancel_card", card="L-410", reason="moving away")


def ended(
    asks: str, answer: str, *, told: str = "You want your card ended.", policy: str = REASONS
) -> Triage:
    made = call(3, "cancel_card", {"card": "L-410", "reason": "too expensive"}, "{}")
    end = (said("assistant", "Done."), said("user", "Bye. ###STOP###"))
    return ruled(
        talk(*LOOK, said("assistant", asks), said("user", answer), *made, *end), END, told=told, policy=policy
    )


OPEN = "Which reason: 'moving away' or 'too expensive'?"


def test_an_option_that_the_user_had_to_pick_and_was_not_told() -> None:
    found = ended(OPEN, "Too expensive.")
    assert (found.fault, found.rule, found.evidence) == ("ground_truth", "free_option", (4, 5))
    assert "reason 'moving away'" in found.detail


@pytest.mark.parametrize(
    "found",
    [
        ended(OPEN, "Too expensive.", told="You are moving to Rome and want your card ended."),  # it was told
        ended("Is it 'too expensive'?", "Too expensive, yes."),  # the other was not named
        ended(OPEN, "Whatever."),  # it picked none
        ended(OPEN, "Too expensive.", policy="# Library"),  # no options of the policy's
        ended(OPEN, "Too expensive.", policy=f"{REASONS} By default take 'moving away'."),
    ],
)
def test_where_the_option_was_the_agents_to_know(found: Triage) -> None:
    assert found.fault == "agent"


def test_without_a_simulated_user_nobody_decided() -> None:
    words = said("assistant", LAYS_OUT), said("user", "Actually, no need to."), said("assistant", "Fine.")
    one = run().model_copy(update={"messages": (*LOOK, *words), "user_policy": None})
    assert ruled(one, RENEW).fault == "agent"
