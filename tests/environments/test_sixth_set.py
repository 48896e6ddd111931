"""Sound environments that wait, page, ask, undo and hand over pass, however solved; cheats do not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import Unforeseen, sixth_set
from tests.audit_fixtures.unforeseen.sixth.cheats import CHEATS
from tests.audit_fixtures.unforeseen.sixth.ways import WAYS
from tests.quick import one_of_each

SOUND = sixth_set()
KILLED, LEAKED, SAME = "trace.mutation.kill_rate", "semantic.no_solution_leakage", "trace.attacker.same_tool"
BALANCE = "trace.balance"
SEEN_BY = {
    "the damage alone decides": "",
    "water is paid by the maker while the warranty lasts": "",
    "the request says who pays": BALANCE,
    "some of the members are enough": KILLED,
    "the first page alone is enough": SAME,
    "waiting is paid by itself": "semantic.floor_gap",
    "a look shows how much is paid so far": LEAKED,
    "a hand-over is always right": KILLED,
    "large sums are closed though pledged": "",
    "only the order counts, not the volumes": KILLED,
    "the steps count in any order": KILLED,
    "the sum is shown with the days": LEAKED,
    "what is paid may be asked for again": BALANCE,
    "any question counts": KILLED,
    "the guest always says yes": BALANCE,
    "the wrong entry may stay": SAME,
}
"""What sees each, one by accident; empty where it takes somebody who understands the policy."""
QUICK = {"the steps count in any order", "the sum is shown with the days", "any question counts"}
"""Those that checks made for this set see."""


@pytest.mark.parametrize("one", one_of_each(SOUND), ids=lambda one: one.name)
def test_a_sound_one_is_rejected_by_nothing(one: Unforeseen) -> None:
    assert one.rejected_by() == {}


@pytest.mark.parametrize("one", SOUND, ids=lambda one: one.name)
def test_another_right_solution_is_paid_too(one: Unforeseen) -> None:
    module: dict[str, Any] = {}
    exec(compile(one.source(), one.name, "exec"), module)
    for seed in range(40):
        module["reset"](seed)
        for place, turn in enumerate(WAYS[one.name](module["scene"](seed))):
            calls = (
                [] if isinstance(turn, str) else [{"id": f"c{place}", "name": turn[0], "arguments": turn[1]}]
            )
            module["step"]({"role": "assistant", "content": None if calls else turn, "tool_calls": calls})
        assert module["verdict"]()["reward"] == 1.0, seed


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, marks=[] if one.name in QUICK else [pytest.mark.ci]) for one in CHEATS],
    ids=lambda one: one.name,
)
def test_a_cheat_is_seen_by_what_sees_its_kind(one: Cheat) -> None:
    found = one.rejected_by()
    if SEEN_BY[one.name]:
        assert SEEN_BY[one.name] in found, found
    else:
        assert found == {}, "it is seen today: say by what"


def test_all_are_said() -> None:
    assert {one.name for one in CHEATS} == set(SEEN_BY)
    assert (len(SOUND), len(CHEATS)) == (9, 16)
