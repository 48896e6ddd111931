"""The fourth to twelfth sets: sound ones pass, however solved; a cheat is seen by what sees its kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit_fixtures.unforeseen.eighth.cheats import CHEATS as EIGHTH_CHEATS
from tests.audit_fixtures.unforeseen.eleventh.cheats import CHEATS as ELEVENTH_CHEATS
from tests.audit_fixtures.unforeseen.fifth.cheats import CHEATS as FIFTH_CHEATS
from tests.audit_fixtures.unforeseen.fifth.cheats import HALVES
from tests.audit_fixtures.unforeseen.fourth.cheats import CHEATS as FOURTH_CHEATS
from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.ninth.cheats import CHEATS as NINTH_CHEATS
from tests.audit_fixtures.unforeseen.runner import (
    Unforeseen,
    eighth_set,
    eleventh_set,
    fifth_set,
    fourth_set,
    ninth_set,
    seventh_set,
    sixth_set,
    tenth_set,
    twelfth_set,
)
from tests.audit_fixtures.unforeseen.seventh.cheats import CHEATS as SEVENTH_CHEATS
from tests.audit_fixtures.unforeseen.seventh.ways import WAYS as SEVENTH_WAYS
from tests.audit_fixtures.unforeseen.sixth.cheats import CHEATS as SIXTH_CHEATS
from tests.audit_fixtures.unforeseen.sixth.ways import WAYS as SIXTH_WAYS
from tests.audit_fixtures.unforeseen.tenth.cheats import CHEATS as TENTH_CHEATS
from tests.audit_fixtures.unforeseen.twelfth.cheats import CHEATS as TWELFTH_CHEATS
from trace_assets.environments.audit.half_looks import without_a_look
from trace_assets.environments.audit.listed_values import always_in_place
from trace_assets.environments.audit.severity import SEVERITIES
from trace_assets.environments.audit.strangers import says_its_words

SETS = (
    *(fourth_set, fifth_set, sixth_set, seventh_set),
    *(eighth_set, ninth_set, tenth_set, eleventh_set, twelfth_set),
)
SOUND = {one.name: one for read in SETS for one in read()}
WAYS: dict[str, Any] = {name: lambda s, way=way: [way(s)] for name, way in SIXTH_WAYS.items()} | SEVENTH_WAYS
_CHEATS = (
    FOURTH_CHEATS,
    FIFTH_CHEATS,
    HALVES,
    SIXTH_CHEATS,
    SEVENTH_CHEATS,
    EIGHTH_CHEATS,
    NINTH_CHEATS,
    TENTH_CHEATS,
    ELEVENTH_CHEATS,
    TWELFTH_CHEATS,
)
CHEATS = {one.name: one for own in _CHEATS for one in own}
KILLED, LEAKED, SAME = "trace.mutation.kill_rate", "semantic.no_solution_leakage", "trace.attacker.same_tool"
BALANCE, UNKNOWN, CLAIMED = "trace.balance", "trace.unshown_names", "trace.attacker.claimed_looks"
SENTENCES = "trace.purpose.sentences"
SEEN_BY = {
    "closing words of an odd length": "trace.mutation.reworded",
    "the order of arguments": "trace.mutation.harmless",
    "an optional argument stands for the look": CLAIMED,
    "a greeting stands for the look": CLAIMED,
    "a note stands for the look": CLAIMED,
    "a word that only the seed knows": UNKNOWN,
    "a number that only the seed knows": UNKNOWN,
    "the others are never meant": "trace.told.results",
    "more than was wanted": KILLED,
    "less than was wanted": KILLED,
    "a look sets everything back": "trace.attacker.takes_back",
    "an error sets everything back": "trace.attacker.takes_back",
    "the tool puts a wrong word right": KILLED,
    "nine times of ten the same word": BALANCE,
    "nine times of ten the same answer": BALANCE,
    "half of a look": "trace.attacker.looks_elsewhere",
    "a look that comes too late by the policy": "trace.attacker.late_looks",
    # The fifth set and its halves.
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
    "any of the digits": KILLED,
    "keys at no cost until one fits": "trace.attacker.tries",
    "an approval of one's own may be merged or not": KILLED,
    "a serviced microscope may be booked or not": SAME,
    "no file is ever sealed": "trace.purpose.idle_looks",
    "what is not eaten may be entered": KILLED,
    "a scale that is not to be trusted may be used": KILLED,
    "free in one of two calendars": KILLED,
    # The sixth set.
    "the damage alone decides": "",
    "water is paid by the maker while the warranty lasts": SENTENCES,
    "the request says who pays": BALANCE,
    "some of the members are enough": KILLED,
    "the first page alone is enough": SAME,
    "waiting is paid by itself": "semantic.floor_gap",
    "a look shows how much is paid so far": LEAKED,
    "a hand-over is always right": KILLED,
    "large sums are closed though pledged": "trace.purpose.policy",
    "only the order counts, not the volumes": KILLED,
    "the steps count in any order": KILLED,
    "the sum is shown with the days": LEAKED,
    "what is paid may be asked for again": BALANCE,
    "any question counts": KILLED,
    "the guest always says yes": BALANCE,
    "the wrong entry may stay": SAME,
    # The seventh set.
    "a look shows what is due": "",
    "even seeds pay any refill": KILLED,
    "whoever takes ten steps is paid": "trace.attacker.spam_all",
    "an apology is what is paid": KILLED,
    "controlled medicine is given early with a letter, and only then": "",
    "the request tells whether it clashes": "trace.told.opening",
    "only the order counts, not what is needed": KILLED,
    "water that runs is paid, whatever comes of it": "",
    "whoever books both has booked the right one": KILLED,
    "the port's hours are left out": "",
    "two new cards": KILLED,
    "an hour of any digits": KILLED,
    "a look may come after the note": "trace.attacker.late_looks",
    "on one list of four, all may go": KILLED,
    "a bed that is blocked may be watered on, or the gardener called unseen": KILLED,
    "a yes is not waited for": KILLED,
    # The eighth set.
    "contractors may push": "",
    "lots on hold are picked": "trace.purpose.tools",
    "what is posted twice is paid": KILLED,
    "a tenth more or less": KILLED,
    "once asked, ordered": "",
    "a field tells who is moved": "trace.purpose.looked_up",
    "the account tells who is honest": "",
    "the first lot that fits": "",
    "any status settles it": "trace.attacker.act_unseen",
    "reading the file is enough": SAME,
    "seats need not be together": "",
    "no excess, no limit": "",
    "any day from then on": KILLED,
    "either of the two": "",
    # The ninth set.
    "a shelf for the unit to be taken": LEAKED,
    "a channel column for what is due": LEAKED,
    "the pump's card tells how it ends": "",
    "a doctor's mark on what is due": LEAKED,
    "photographs only of what stays at home": LEAKED,
    "the alarm's number is odd where it was deployed": "",
    "the account holds what is to be refunded": LEAKED,
    "a negative patient may get positive blood": "",
    "the rate of an agreement needs no proof": "",
    "worn things are deducted": "",
    "textiles may hang as long as they are asked for": "",
    "in an oral exam the laptop is what is due": SENTENCES,
    "whatever was asked of the client": "",
    "the gauge need not be read again": "",
    "any service on the way may be restarted": "",
    "the oldest unit is not asked for": "",
    # The tenth set.
    "the hive's label tells what is due": LEAKED,
    "a contact column for the gate to be given": LEAKED,
    "the receipt is thanked for where the toy is kept": "",
    "what is granted counts as pending": SENTENCES,
    "the plant does not matter": "",
    "any gate that will do": "",
    # The eleventh set.
    "fifteen days are fourteen": SENTENCES,
    "an extension is not heard": SENTENCES,
    "a broken seal is no matter": SENTENCES,
    "at three months one is still reminded": SENTENCES,
    "parents are held to the income of others": "",
    "the age comes before the badge": SENTENCES,
    "days are counted from the order": BALANCE,
    "chilled before hazardous": SENTENCES,
    "gold stays on Sundays too": SENTENCES,
    "who is long a member may have broken things": "",
    # The twelfth set.
    "who waits is not weighed": "",
    "at seventy one pays half": "",
    "it may rain": "",
    "a biting dog needs no vaccination": "",
    "an extension helps long reports too": "",
}
"""What sees each, if only with a warning; empty where it takes somebody who understands the policy."""
QUICK = {
    *("an error sets everything back", "half of a look", "a note stands for the look"),
    *("a reason that chance knows", "keys at no cost until one fits", "the steps count in any order"),
    *("the request tells whether it clashes", "a yes is not waited for"),
    *("two new cards", "an hour of any digits"),
    *("florist_corrections", "vet_estimate", "greenhouse_valve"),
    *("a shelf for the unit to be taken", "museum_loans"),
    *("tool_rental", "roof_work"),
    *("what is posted twice is paid", "archive_answers", "missed_connections", "pick_lots"),
}
"""Of cheats and sound ones those that `make test` tries: one for each mend of the audit, by and large."""


def _marked(cases: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(one, id=name, marks=[] if name in QUICK else [pytest.mark.ci])
        for name, one in cases.items()
    ]


@pytest.mark.parametrize("one", _marked(SOUND))
def test_a_sound_one_is_rejected_by_nothing(one: Unforeseen) -> None:
    assert one.rejected_by() == {}


@pytest.mark.parametrize("name", WAYS)
def test_other_right_solutions_are_paid_too(name: str) -> None:
    module: dict[str, Any] = {}
    exec(compile(SOUND[name].source(), name, "exec"), module)
    for seed in range(40):
        module["reset"](seed)
        for script in WAYS[name](module["scene"](seed)):
            module["reset"](seed)
            for place, turn in enumerate(script):
                words, calls = turn, []
                if not isinstance(turn, str):
                    words, calls = None, [{"id": f"c{place}", "name": turn[0], "arguments": turn[1]}]
                module["step"]({"role": "assistant", "content": words, "tool_calls": calls})
            assert module["verdict"]()["reward"] == 1.0, (seed, script)


@pytest.mark.parametrize("one", _marked(CHEATS))
def test_a_cheat_is_seen_by_what_sees_its_kind(one: Cheat) -> None:
    found = one.rejected_by()
    if SEEN_BY[one.name]:
        assert SEEN_BY[one.name] in found, found
    else:
        assert found == {}, "it is seen today: say by what"


def test_all_are_said_and_kinds_are_many() -> None:
    assert set(CHEATS) == set(SEEN_BY)
    assert set(SEEN_BY.values()) - {""} <= set(SEVERITIES)
    assert {one.base for one in CHEATS.values()} <= set(SOUND)
    assert set(CHEATS) | set(SOUND) >= QUICK
    assert (len(SOUND), len(CHEATS), len(WAYS)) == (
        17 + 8 + 9 + 9 + 14 + 8 + 4 + 10 + 5,
        17 + 12 + 6 + 16 + 16 + 14 + 16 + 6 + 10 + 5,
        18,
    )


def test_a_look_is_needed_only_where_all_else_does_not_tell() -> None:
    """Who has seen that a claim lacks its report need not look whether the contract is in force."""
    found = without_a_look(SOUND["claim_two_records"].subject())
    assert sorted(found) == ["without look 1 by get_claim", "without look 1 by get_contract"]
    assert not any(one.success for played in found.values() for one in played)
    assert without_a_look(SOUND["members_two_wishes"].subject()) == {}


def test_only_a_list_of_several_tells_by_its_place() -> None:
    assert always_in_place(SOUND["bikes_found"].subject()) is None
    seen = CHEATS["the others are never meant"].rejected_by()["trace.told.results"]
    assert "last of list_bikes.bikes" in seen


def test_words_are_tried_one_by_one_only_where_they_are_paid() -> None:
    subject = SOUND["moorings_refused"].subject()
    assert list(says_its_words(subject, lambda probe, seed: probe.oracle(seed)[-1:])) == [
        "in the program's words"
    ]
