"""What a policy forbids by a value or beyond a number, and what it does not."""

from __future__ import annotations

import pytest

from trace_assets.diagnosis.detectors.policy_limits import limits
from trace_assets.diagnosis.detectors.policy_rules import bans
from trace_assets.diagnosis.detectors.policy_text import PolicyText

VALUES = {"state": ["open", "closed", "half open"], "kind": ["guest", "staff"]}


@pytest.mark.parametrize(
    ("sentence", "forbidden"),
    [
        ("Closed lockers cannot be rented.", {"closed"}),
        ("You must not rent lockers that are closed.", {"closed"}),
        ("Half open lockers cannot be rented.", {"half open"}),
        ("A locker can only be rented if its state is 'open'.", {"closed", "half open"}),
        ("Only open lockers can be rented.", {"closed", "half open"}),
        ("A locker can be rented if its state is open or closed, but only then.", {"half open"}),
        ("Closed lockers cannot be rented unless a manager agrees.", set()),
        ("Closed lockers can be rented.", set()),
        ("Closed lockers cannot be cleaned.", set()),  # another verb
        ("Even closed lockers cannot be rented.", set()),  # said of all
        ("Lockers cannot be rented on Sundays.", set()),  # names no value
        # What is allowed under a condition is not forbidden, and what another clause allows is no condition.
        (
            "Otherwise, closed lockers cannot be rented.",
            set(),
        ),  # only where the sentence before does not hold
        ("Closed lockers can be rented only if their state was open before.", set()),  # of closed ones alone
        ("Lockers can be rented only if paid, and closed lockers can always be rented.", set()),
        (
            "Lockers can be rented only if their state is open, and the fee can be waived.",
            {"closed", "half open"},
        ),
    ],
)
def test_what_is_forbidden_by_a_value(sentence: str, forbidden: set[str]) -> None:
    found = bans(PolicyText(sentence), "rent_locker", VALUES)
    said = {value for value in VALUES["state"] if any(one.forbids({"state": value}) for one in found)}
    assert said == forbidden
    assert not any(one.forbids({}) for one in found), "what is not known forbids nothing"


@pytest.mark.parametrize(
    ("sentence", "arguments", "broken"),
    [
        ("A locker can be rented for at most 30 days.", {"days": 31}, "days"),
        ("A locker can be rented for at most 30 days.", {"days": 30}, None),
        ("A locker can be rented for at most 30 days.", {"weeks": 31}, None),
        ("Lockers may be rented for up to 50 EUR.", {"price": 51.0}, "price"),
        ("A locker can be rented by no more than two members.", {"members": ["a", "b", "c"]}, "members"),
        ("A locker can be rented by no more than two members.", {"members": ["a", "b"]}, None),
        (
            "Lockers can be rented for up to 50 EUR per person.",
            {"price": 90.0},
            None,
        ),  # how many is not known
        ("Lockers are cleaned for at most 30 days.", {"days": 31}, None),
        ("Lockers can be rented for at most 30 days, except by staff.", {"days": 31}, None),
    ],
)
def test_what_goes_beyond_a_number(sentence: str, arguments: dict[str, object], broken: str | None) -> None:
    found = [most.broken_by(arguments) for most in limits(PolicyText(sentence), "rent_locker")]
    assert next((name for name in found if name), None) == broken


PROSE = (
    "# Rent locker\nAll lockers can be rented within 24 hours of booking, or if the hall was closed. "
    "Otherwise, guest lockers can be rented only if a deposit was paid and it is valid, and staff lockers "
    "can always be rented. Be strict."
)


def test_conditions_that_go_on_with_otherwise_are_one_list() -> None:
    assert PolicyText(PROSE).any_of("rent_locker") == [
        "within 24 hours of booking",
        "the hall was closed",
        "a deposit was paid and it is valid",
        "staff lockers",
    ]
    assert PolicyText(PROSE).any_of("book_locker") == [], "booking is only what time is counted from"
    assert PolicyText(PROSE).any_of("clean_locker") == []


@pytest.mark.parametrize(
    "text",
    [
        "Lockers can be rented if paid. Staff lockers can always be rented.",  # two rules
        "Lockers can be rented if paid. Otherwise, ask the manager.",  # what else is allowed is not said so
        "Lockers cannot be rented if broken. Otherwise, lockers can be rented if paid.",  # a ban comes first
        "Lockers can be rented. Otherwise, lockers can be rented if paid.",  # without a condition
    ],
)
def test_what_is_no_list_of_conditions(text: str) -> None:
    assert PolicyText(text).any_of("rent_locker") == []


def test_what_stands_under_anothers_label_or_heading_is_not_about_a_tool() -> None:
    tools = ["change_locker_code", "change_locker_owner"]
    for text in (
        "Change code: closed lockers cannot be changed.",
        "# Code\nClosed lockers cannot be changed.",
    ):
        found = [bool(bans(PolicyText(text), one, VALUES, tools=tools)) for one in tools]
        assert found == [True, False], text
    own = "Change lockers: closed lockers cannot be changed."
    assert all(bans(PolicyText(own), one, VALUES, tools=tools) for one in tools)


def test_only_the_deed_that_a_sentence_names_must_wait() -> None:
    text, writes = PolicyText("Only close an account after recording the payment."), ["record_payment"]
    assert [one.before for one in text.only_after("close_account", writes)] == [frozenset(writes)]
    assert text.only_after("open_account", writes) == text.only_after("cancel_account", writes) == []
    gift = PolicyText("If a guest asks you can offer a voucher after paying the bill.")
    assert gift.only_after("send_voucher", ["pay_bill"]), "who offers a voucher sends it"
