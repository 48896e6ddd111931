"""What a policy forbids by a value or beyond a number, and what it does not."""

from __future__ import annotations

import pytest

from trace_assets.diagnosis.detectors.policy_rules import bans, limits
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
