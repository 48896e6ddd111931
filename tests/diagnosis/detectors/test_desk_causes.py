"""What the families that a shop's desk asked for propose, learned at a library, a garage and a clinic."""

from __future__ import annotations

from collections.abc import Sequence

from tests.diagnosis.detectors.desk_dialogues import (
    BOOKING,
    CHEAP,
    EXTEND,
    HOW_MANY,
    MOVE,
    ONE_ACCOUNT,
    READER,
    REFUSED,
    ROOMS,
    SEAL,
    SHELF,
    THREE,
    TWO_WISHES,
    TYRES,
    WISH,
    loan,
    renew,
)
from tests.diagnosis.detectors.dialogues import agent, call, transcript, user
from trace_assets.diagnosis.detectors import FAMILIES, Corpus
from trace_assets.records import Message

FAMILY = {one.name: one for one in FAMILIES}


def proposed(family: str, *dialogues: Sequence[list[Message]]) -> list[str]:
    made = [transcript(*parts, task=f"x/{number}") for number, parts in enumerate(dialogues)]
    return [one.name for one in FAMILY[family].propose(Corpus(made))]


def test_what_bars_what_is_learned_from_runs_of_both_orders() -> None:
    late, right = [TWO_WISHES, SEAL, REFUSED], [TWO_WISHES, MOVE, SEAL]
    found = proposed("barred_by_own_change", late, right)
    assert found == ["Move the visit room before sealing the visit notes"]
    assert proposed("barred_by_own_change", late) == [], "it may never be allowed"
    assert proposed("barred_by_own_change", right) == [], "nothing was barred"
    both = [TWO_WISHES, SEAL, MOVE]
    assert proposed("barred_by_own_change", late, right, both) == [], "it is not barred always"
    before = [TWO_WISHES, REFUSED, SEAL, REFUSED]
    assert proposed("barred_by_own_change", before, right) == [], "it was refused before as well"


def of_bookings(tool: str, **more: str) -> list[list[list[Message]]]:
    """Return a dialogue about each of three bookings, in which the user wants a part cancelled."""
    made = []
    for name in ("B-77101", "B-77102", "B-77103"):
        shown = (BOOKING[1].content or "").replace("B-77101", name)
        made.append([call("get_booking", shown, booking=name), TYRES, call(tool, booking=name, **more)])
    return made


def test_only_what_removes_a_record_with_parts_takes_the_whole_of_it() -> None:
    whole = of_bookings("cancel_booking")
    found = proposed("whole_for_part", *whole)
    assert found == ["Say that it takes the whole booking before cancelling the booking for one part"]
    parts = of_bookings("cancel_booking", service="SV-2001")
    assert proposed("whole_for_part", *whole, *parts) == [], "it can be given a part"
    assert proposed("whole_for_part", *of_bookings("update_booking")) == [], "nothing is lost"


def test_a_choice_is_asked_for_where_records_list_alternatives() -> None:
    one = [WISH, READER, EXTEND]
    found = proposed("unnamed_choice", one, one, one)
    assert found == ["Have the user say which account to use before changing anything"]
    alone = [WISH, ONE_ACCOUNT, EXTEND]
    assert proposed("unnamed_choice", alone, alone, alone) == []


def test_a_state_that_a_change_needs_is_learned_where_others_are_seen() -> None:
    ended = loan("L-509", "ended")
    one, other = [*THREE, ended, renew("L-501"), renew("L-502")], [*THREE, ended, renew("L-503")]
    found = proposed("alike_left_out", one, one, other, other)
    assert found == ["Leave out no loan that is alike when renewing the loan for all"]
    alone = [*THREE, renew("L-501"), renew("L-502"), renew("L-503")]
    assert proposed("alike_left_out", *[alone] * 4) == [], "no loan is in another state"


def test_things_are_known_by_what_many_records_list() -> None:
    def parcels(*goods: str) -> list[list[list[Message]]]:
        text = '{{"parcel": "P-1", "goods": [{{"name": "{}"}}], "steps": [{{"kind": "sent"}}]}}'
        return [[call("get_parcel", text.format(one), parcel="P-1")] for one in goods]

    found = proposed("other_record_told", *parcels("Garden hose", "Desk lamp", "Rake", "Boots", "Tent"))
    assert found == ["Tell a figure only from the record that holds the thing asked about"]
    assert proposed("other_record_told", *parcels("Hose", "Hose", "Lamp", "Lamp", "Lamp")) == []


def test_a_count_is_proposed_where_somebody_tells_one() -> None:
    told = [HOW_MANY, SHELF, agent("We have 4 copies of Salt.")]
    assert proposed("wrong_count", told) == [
        "Count what a result lists one by one before telling how many there are"
    ]
    assert proposed("wrong_count", [user("Hello."), agent("There are days.")]) == []


def test_an_extreme_is_proposed_where_somebody_tells_one() -> None:
    told = [CHEAP, ROOMS, agent("The cheapest room is $95.50.")]
    assert len(proposed("wrong_extreme", told)) == 1
    assert proposed("wrong_extreme", [CHEAP, ROOMS, agent("There are rooms.")]) == []


def test_what_was_agreed_to_needs_something_that_can_be_done() -> None:
    assert len(proposed("agreed_deed_left", [WISH, EXTEND])) == 1
    assert proposed("agreed_deed_left", [HOW_MANY, SHELF]) == []
