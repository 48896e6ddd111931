"""What pays for a short cut is rejected by the check that is meant for it, and its sound twin by none."""

from __future__ import annotations

import pytest

from tests.audit_fixtures.shortcuts.broken import BROKEN, SEEN_BY, SOUND, Shortcut
from tests.quick import one_of_each
from trace_assets.environments.audit.needed_looks import asks_to_look_first, is_name
from trace_assets.environments.audit.severity import SEVERITIES


@pytest.mark.parametrize("one", one_of_each(BROKEN, lambda one: one.kind, then=1), ids=lambda one: one.name)
def test_a_short_cut_is_seen_by_what_is_meant_for_it(one: Shortcut) -> None:
    found = one.rejected_by()
    if SEEN_BY[one.kind]:
        assert SEEN_BY[one.kind] & set(found), found
    else:
        assert found == {}, "it is seen today: say by what"


@pytest.mark.parametrize("one", one_of_each(SOUND, then=2))
def test_a_sound_twin_is_rejected_by_nothing(one: Shortcut) -> None:
    assert one.rejected_by() == {}


def test_kinds_and_checks_are_known() -> None:
    assert {one.kind for one in BROKEN} == set(SEEN_BY)
    assert set().union(*SEEN_BY.values()) <= set(SEVERITIES)
    assert len({one.source() for one in [*BROKEN, *SOUND]}) == len(BROKEN) + len(SOUND)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Look at an order before it is cancelled", True),
        ("Before a refund is made, verify the window", True),
        ("Never call cancel_order without get_order", True),
        ("Move nothing until you have checked the depot", True),
        ("Look up when the first train arrives", False),
        ("Tell the fee and get a yes before the contract is ended", False),
        ("Add up what was delivered before more is accepted", False),
    ],
)
def test_only_what_asks_for_a_look_first_is_held_to_the_order(text: str, asks: bool) -> None:
    assert asks_to_look_first(text) is asks


@pytest.mark.parametrize("value", ["2024-05-01T10:00:00", "12,50", "+", "", 4821, None, "no. 7 or 8", "B"])
def test_dates_amounts_and_words_are_no_names(value: object) -> None:
    assert not is_name(value)
