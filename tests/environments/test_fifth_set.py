"""Sound environments that reckon, listen and query pass; cheats, halves of rules and hidden chance do not."""

from __future__ import annotations

import pytest

from tests.audit_fixtures.unforeseen.fifth.cheats import CHEATS, HALVES
from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import Unforeseen, fifth_set
from tests.quick import one_of_each
from trace_assets.environments.audit.hidden_draws import decided_by_chance

SOUND = fifth_set()
KILLED, UNKNOWN = "trace.mutation.kill_rate", "trace.unshown_names"
SEEN_BY = {
    "any hour of the day": KILLED,
    "any hour of the calendar": KILLED,
    "an hour that the seed's number knows": UNKNOWN,
    "a number that a digest of the seed knows": UNKNOWN,
    "a decision that only chance knows": UNKNOWN,
    "a reason that chance knows": UNKNOWN,
    "half of a name is enough": KILLED,
    "within a tenth": KILLED,
    "the crate may stay on": KILLED,
    "the same entry twice": "",
    "any of the digits": "",
    "keys at no cost until one fits": "trace.attacker.tries",
    "an approval of one's own may be merged or not": KILLED,
    "a serviced microscope may be booked or not": "trace.attacker.same_tool",
    "no file is ever sealed": "trace.purpose.idle_looks",
    "what is not eaten may be entered": KILLED,
    "a scale that is not to be trusted may be used": KILLED,
    "free in one of two calendars": KILLED,
}
"""What sees each; empty where nothing does."""


@pytest.mark.parametrize("one", one_of_each(SOUND, lambda one: "sound"), ids=lambda one: one.name)
def test_a_sound_one_is_rejected_by_nothing(one: Unforeseen) -> None:
    assert one.rejected_by() == {}


@pytest.mark.parametrize(
    "one", one_of_each((*CHEATS, *HALVES), lambda one: SEEN_BY[one.name]), ids=lambda one: one.name
)
def test_a_cheat_is_seen_by_what_sees_its_kind(one: Cheat) -> None:
    found = one.rejected_by()
    if SEEN_BY[one.name]:
        assert SEEN_BY[one.name] in found, found
    else:
        assert found == {}, "it is seen today: say by what"


def test_all_are_said_and_kinds_are_many() -> None:
    assert {one.name for one in (*CHEATS, *HALVES)} == set(SEEN_BY)
    assert (len(SOUND), len(CHEATS), len(HALVES)) == (8, 12, 6)


@pytest.mark.parametrize("one", SOUND, ids=lambda one: one.name)
def test_what_a_sound_one_asks_for_can_be_known(one: Unforeseen) -> None:
    assert decided_by_chance(one.subject())[0] == {}
