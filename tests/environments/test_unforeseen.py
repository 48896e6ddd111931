"""Environments by an author who had not seen the checks: which are rejected, and which wrongly or not."""

from __future__ import annotations

import pytest

from tests.audit_fixtures.unforeseen.runner import Unforeseen, unforeseen

ALL = unforeseen()
NOT_SEEN: frozenset[tuple[str, str]] = frozenset()
"""Broken ones that pass without a contract, labelled runs or a model: a reader of the policy is needed."""
WRONGLY_REJECTED: frozenset[tuple[str, str]] = frozenset()
"""Sound ones that fail without a contract that says which tools change anything."""
QUICK = {
    ("broken", "airline_cancel_insurance"),
    ("broken", "retail_cancel_reason"),
    ("broken", "retail_owner"),
    ("broken", "telecom_transfer_note"),
    ("sound", "airline_cancel_rule"),
    ("sound", "library_many_loans"),
}


def _marked() -> list[object]:
    slow = [pytest.mark.slow]
    return [
        pytest.param(one, id=f"{one.kind}: {one.name}", marks=[] if (one.kind, one.name) in QUICK else slow)
        for one in ALL
    ]


@pytest.mark.parametrize("one", _marked())
def test_what_is_broken_is_rejected_and_nothing_else(one: Unforeseen) -> None:
    found = one.rejected_by()
    known = (one.kind, one.name)
    wanted = (one.kind != "sound") != (known in NOT_SEEN | WRONGLY_REJECTED)
    assert bool(found) == wanted, found


def test_they_are_many_and_the_known_misses_are_among_them() -> None:
    names = {(one.kind, one.name) for one in ALL}
    assert len(names) == len(ALL) == 60
    assert NOT_SEEN | WRONGLY_REJECTED | QUICK <= names
    assert {kind for kind, _ in WRONGLY_REJECTED} <= {"sound"}
