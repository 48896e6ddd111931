"""Environments by an author who had not seen the checks: which are rejected, and which wrongly or not."""

from __future__ import annotations

import pytest

from tests.audit_fixtures.unforeseen.runner import VALUES, Unforeseen, second_set, third_set, unforeseen

ALL = unforeseen()
NOT_SEEN = {
    ("broken", "airline_bag_allowance"),
    ("broken", "airline_cancel_health"),
    *(("broken", name) for name in ("bank_fee_refund", "clinic_confirm_change", "hotel_refuse_or_hand_over")),
    *(("broken", name) for name in ("hotel_right_booking", "library_fines", "library_two_loans")),
    *(("broken", name) for name in ("telecom_refuel_cap", "telecom_resume")),
    ("mispaired", "library_claim_window"),
    *(("mispaired", name) for name in ("bank_string_numbers", "clinic_verify_change", "retail_all_pages")),
}
"""Broken ones that pass without a contract, labelled runs and a model: the policy has to be understood."""
SEEN_OF_THE_SECOND = {
    "pharmacy_all_medicines": "trace.attacker.looks_elsewhere",
    "school_both_parts": "trace.mutation.kill_rate",
    "town_deadline": "trace.attacker.late_looks",
}
"""Of the second set, what is rejected without a model, and by what; all others pass."""
WRONGLY_REJECTED: set[tuple[str, str]] = set()
"""Sound ones that fail."""
QUICK = {
    ("broken", "airline_cancel_insurance"),
    ("broken", "clinic_referral"),
    ("broken", "retail_cancel_reason"),
    ("broken", "retail_owner"),
    ("broken", "telecom_transfer_note"),
    ("sound", "airline_cancel_rule"),
    ("sound", "library_many_loans"),
}
QUICK_SECOND = {"school_both_parts", "town_deadline", "vet_all_medicines"}
QUICK_THIRD = {"parking_permits", "paper_last_issue", "donation_interval"}
"""What the checks were wrong about at first sight: a request in the oracle's words, emphasis within a date, a
refusal that may be handed over by a tool whose name does not say so."""
CAUGHT = {
    ("broken", "airline_cancel_insurance"): "trace.purpose.rule",
    ("broken", "airline_two_changes"): "trace.attacker.late_looks",
    ("broken", "clinic_referral"): "trace.told.opening",
    ("broken", "retail_return_window"): "trace.attacker.looks_elsewhere",
    ("broken", "retail_cancel_reason"): VALUES,
    ("broken", "retail_owner"): "trace.purpose.looked_up",
    ("broken", "telecom_transfer_note"): "trace.mutation.reworded",
}
"""What some of them are seen by, whatever else sees them."""


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
    if known in CAUGHT:
        assert CAUGHT[known] in found


def test_they_are_many_and_the_known_misses_are_among_them() -> None:
    names = {(one.kind, one.name) for one in ALL}
    assert len(names) == len(ALL) == 60
    assert names >= NOT_SEEN | WRONGLY_REJECTED | QUICK
    assert {kind for kind, _ in WRONGLY_REJECTED} <= {"sound"}


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(
            one, id=f"{one.kind}: {one.name}", marks=[] if one.name in QUICK_SECOND else pytest.mark.slow
        )
        for one in second_set()
    ],
)
def test_of_the_second_set_one_is_rejected_without_a_model_and_no_sound_one(one: Unforeseen) -> None:
    found = one.rejected_by()
    assert list(found) == [check for name, check in SEEN_OF_THE_SECOND.items() if name == one.name], found


def test_the_second_set_has_eight_broken_ones_and_four_sound_ones() -> None:
    kinds = [one.kind for one in second_set()]
    assert (kinds.count("broken"), kinds.count("sound"), len(kinds)) == (8, 4, 12)
    assert {one.spec.target for one in second_set()}.isdisjoint(one.spec.target for one in ALL)


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(
            one, id=f"{one.kind}: {one.name}", marks=[] if one.name in QUICK_THIRD else pytest.mark.slow
        )
        for one in third_set()
    ],
)
def test_of_the_third_set_one_is_rejected_without_a_model(one: Unforeseen) -> None:
    assert list(one.rejected_by()) == ["trace.attacker.late_looks"] * (one.name == "parking_permits")


def test_the_third_set_has_six_broken_ones_and_four_sound_ones_of_targets_of_its_own() -> None:
    kinds = [one.kind for one in third_set()]
    assert (kinds.count("broken"), kinds.count("sound"), len(kinds)) == (6, 4, 10)
    assert {one.spec.target for one in third_set()}.isdisjoint(
        one.spec.target for one in [*ALL, *second_set()]
    )
