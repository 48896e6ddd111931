"""A recorded model on environments whose faults no check foresaw: what it rejects, and what not.

Of eighteen of the first set that no other check saw then it rejects all, and none of eighteen sound ones. The
checks `partly` and `coherent`, and what becomes of a reviewer's doubts, were made after two of them had been
missed; those of the second set were first tried without these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.audit_fixtures.purpose.here import findings
from tests.audit_fixtures.unforeseen.runner import Unforeseen, second_set, third_set, unforeseen
from tests.environments.judge.recorded import recorded_judge
from tests.environments.test_unforeseen import NOT_SEEN, SEEN_OF_THE_SECOND
from trace_assets.environments.audit.check import Finding

ASKED = ("oracle", "untold", "lacking", "reworded", "partly", "coherent")
AT_FIRST = ASKED[:4]
"""The checks that there were when the second set was first tried."""
SEEN_SINCE = {
    *("airline_two_changes", "airline_cancel_fare", "retail_return_window", "retail_cheapest_variant"),
    *("town_deadline", "pharmacy_all_medicines"),
}
"""By a check that was written after a model had been asked about them."""
FIRST = [
    one
    for one in unforeseen()
    if one.kind == "sound" or (one.kind, one.name) in NOT_SEEN | {("broken", name) for name in SEEN_SINCE}
]
SECOND = [one for one in second_set() if one.name not in SEEN_OF_THE_SECOND.keys() - SEEN_SINCE]
SEEN_AT_FIRST = {"gym_hold_firm", "pharmacy_all_medicines"}
QUICK = {
    *("bank_fee_refund", "hotel_right_booking", "retail_cheapest_variant", "airline_cancel_rule"),
    *("town_deadline", "vet_all_medicines", "museum_groups", "lab_units"),
}
THIRD = {
    "railway_delay": "oracle",
    "workshop_estimate": "oracle",
    "lab_units": "lacking",
    "languages_wish": "lacking",
    "paper_last_issue": "lacking",
    "parking_permits": "",
    "donation_interval": "",
    "museum_groups": "",
    "railway_connection": "",
    "recycling_quota": "",
}
"""The third set, and the check that rejects each; empty: it passes all, wrongly only `parking_permits`."""
TOLD = {
    ("sound", "airline_cancel_rule"): set[str](),
    ("sound", "hotel_refund_rounding"): set[str](),
    ("sound", "retail_consent"): set[str](),
    ("broken", "bank_fee_refund"): {"told_with"},
    ("broken", "hotel_right_booking"): set[str](),
    ("mispaired", "retail_all_pages"): {"told_without"},
}
"""Environments that a recorded model played as told, and the checks that reject them."""


def judged(one: Unforeseen, file: str, checks: tuple[str, ...], home: Path) -> dict[str, Finding]:
    found = findings(one.subject(recorded_judge(file, home)), [f"trace.judge.{name}" for name in checks])
    return {name.rpartition(".")[2]: finding for name, finding in found.items()}


def against(found: dict[str, Finding]) -> dict[str, str]:
    return {name: one.evidence for name, one in found.items() if one.status == "fail"}


def each(ones: list[Unforeseen]) -> list[Any]:
    return [
        pytest.param(
            one,
            id=f"{one.kind}: {one.name}",
            marks=[] if one.name in QUICK and one.kind != "mispaired" else [pytest.mark.slow],
        )
        for one in ones
    ]


@pytest.mark.parametrize("one", each(FIRST))
def test_the_recorded_judge_rejects_what_no_other_check_saw(one: Unforeseen, tmp_path: Path) -> None:
    found = judged(one, "unforeseen.jsonl", ASKED, tmp_path)
    assert bool(against(found)) == (one.kind != "sound"), found
    assert one.kind != "sound" or all(row.status == "pass" for row in found.values()), found


@pytest.mark.parametrize("one", each(SECOND))
def test_and_of_the_second_set(one: Unforeseen, tmp_path: Path) -> None:
    found = judged(one, "second.jsonl", ASKED, tmp_path)
    assert bool(against(found)) == (one.kind != "sound"), found


@pytest.mark.parametrize("one", each(SECOND))
def test_at_first_sight_it_saw_two_of_the_second_set(one: Unforeseen, tmp_path: Path) -> None:
    found = judged(one, "second.jsonl", AT_FIRST, tmp_path)
    seen_by_a_later_rule = (
        one.name == "courier_price"
    )  # what cannot be told twice: it had passed with four doubts
    assert bool(against(found)) == (one.name in SEEN_AT_FIRST or seen_by_a_later_rule), found


@pytest.mark.parametrize("one", each(third_set()))
def test_at_first_sight_it_sees_five_of_the_third_set(one: Unforeseen, tmp_path: Path) -> None:
    found = judged(one, "third.jsonl", ASKED, tmp_path)
    assert set(against(found)) == {THIRD[one.name]} - {""}, found
    assert bool(THIRD[one.name]) == (one.kind != "sound" and one.name != "parking_permits")
    assert THIRD[one.name] or all(row.status == "pass" for row in found.values()), found


@pytest.mark.parametrize("one", each([one for one in FIRST if (one.kind, one.name) in TOLD]))
def test_a_recorded_model_plays_as_it_is_told(one: Unforeseen, tmp_path: Path) -> None:
    found = judged(one, "told.jsonl", ("told_with",), tmp_path / "with")
    found |= judged(one, "told.jsonl", ("told_without",), tmp_path / "without")
    assert set(against(found)) == TOLD[one.kind, one.name], found
    assert all(row.status in ("pass", "fail") and row.n == 6 for row in found.values()), found


def test_there_are_as_many_sound_ones_as_others() -> None:
    assert len(FIRST) == 36 and sum(one.kind == "sound" for one in FIRST) == 18
    assert len(SECOND) == 11 and sum(one.kind == "sound" for one in SECOND) == 4
