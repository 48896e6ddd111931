"""Sound environments of unforeseen kinds pass; cheats by somebody who had read the audit do not."""

from __future__ import annotations

import pytest

from tests.audit_fixtures.unforeseen.fourth.cheats import CHEATS, Cheat
from tests.audit_fixtures.unforeseen.runner import Unforeseen, fourth_set
from tests.quick import one_of_each
from trace_assets.environments.audit.half_looks import without_a_look
from trace_assets.environments.audit.listed_places import always_in_place
from trace_assets.environments.audit.own_words import says_its_words
from trace_assets.environments.audit.severity import SEVERITIES

SOUND = fourth_set()
SEEN_BY = {
    "closing words of an odd length": "trace.mutation.reworded",
    "the order of arguments": "trace.mutation.harmless",
    "an optional argument stands for the look": "trace.attacker.claimed_looks",
    "a greeting stands for the look": "trace.attacker.claimed_looks",
    "a note stands for the look": "trace.attacker.claimed_looks",
    "a word that only the seed knows": "trace.unshown_names",
    "a number that only the seed knows": "trace.unshown_names",
    "the others are never meant": "trace.told.results",
    "more than was wanted": "trace.mutation.kill_rate",
    "less than was wanted": "trace.mutation.kill_rate",
    "a look sets everything back": "trace.attacker.takes_back",
    "an error sets everything back": "trace.attacker.takes_back",
    "the tool puts a wrong word right": "trace.mutation.kill_rate",
    "nine times of ten the same word": "trace.balance",
    "nine times of ten the same answer": "trace.balance",
    "half of a look": "trace.attacker.looks_elsewhere",
    "a look that comes too late by the policy": "trace.attacker.late_looks",
}
"""What sees each."""
REJECTED_ONCE = {
    "florist_corrections": "trace.mutation.kill_rate, by wrong_first",
    "refund_either_way": "trace.mutation.kill_rate, by other_tool",
    "lost_property": "trace.attacker.same_tool",
    "choir_notes": "trace.attacker.overact",
    "recalled_batches": "trace.purpose.policy",
}
"""What five of the sound ones were rejected by at first sight."""


@pytest.mark.parametrize(
    "one", one_of_each(SOUND, lambda one: REJECTED_ONCE.get(one.name)), ids=lambda one: one.name
)
def test_a_sound_one_is_rejected_by_nothing(one: Unforeseen) -> None:
    assert one.rejected_by() == {}


@pytest.mark.parametrize("one", one_of_each(CHEATS, lambda one: SEEN_BY[one.name]), ids=lambda one: one.name)
def test_a_cheat_is_seen_by_what_sees_its_kind(one: Cheat) -> None:
    found = one.rejected_by()
    assert SEEN_BY[one.name] in found, found


def test_there_are_many_kinds() -> None:
    assert {one.name for one in CHEATS} == set(SEEN_BY)
    assert set(SEEN_BY.values()) <= set(SEVERITIES)
    assert len(SOUND) == 17 and all(one.kind == "sound" for one in SOUND)
    assert {one.base for one in CHEATS} <= {one.name for one in SOUND}


def _sound(name: str) -> Unforeseen:
    return next(one for one in SOUND if one.name == name)


def test_a_look_is_needed_only_where_all_else_does_not_tell() -> None:
    """Who has seen that a claim lacks its report need not look whether the contract is in force."""
    subject = _sound("claim_two_records").subject()
    found = without_a_look(subject)
    assert sorted(found) == ["without look 1 by get_claim", "without look 1 by get_contract"]
    assert not any(one.success for played in found.values() for one in played)
    assert without_a_look(_sound("members_two_wishes").subject()) == {}


def test_only_a_list_of_several_tells_by_its_place() -> None:
    assert always_in_place(_sound("bikes_found").subject()) is None
    cheat = next(one for one in CHEATS if one.name == "the others are never meant")
    assert "last of list_bikes.bikes" in cheat.rejected_by()["trace.told.results"]


def test_words_are_tried_one_by_one_only_where_they_are_paid() -> None:
    subject = _sound("moorings_refused").subject()
    assert list(says_its_words(subject, lambda probe, seed: probe.oracle(seed)[-1:])) == [
        "in the program's words"
    ]
