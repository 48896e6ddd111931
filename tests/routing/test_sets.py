"""Sets of adapters: what a task calls for, in which order, and what is left where not every set is there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.errors import InputError
from trace_assets.records import NO_ADAPTER, Route
from trace_assets.routing.router import (
    called_for,
    candidate_sets,
    members_of,
    needed,
    set_name,
    sets_of,
    within,
)

SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=5).filter(lambda values: sum(values) > 0.01)


@given(SHARES, st.floats(0.01, 1))
def test_each_adapter_is_judged_apart_by_its_share(values: list[float], cost: float) -> None:
    names = [*"abcd"[: len(values) - 1], NO_ADAPTER]
    need = {name: value / sum(values) for name, value in zip(names, values, strict=True)}
    chosen = needed(need, cost, weighed=False)
    assert chosen == sorted(chosen, key=lambda name: (-need[name], name))
    for name in names[:-1]:
        expected = need[name] > cost * (1 - need[name])
        assert (name in chosen) == expected or need[name] == pytest.approx(cost * (1 - need[name]))


@given(SHARES, st.floats(0.05, 1))
def test_the_cost_that_the_classifier_put_in_is_taken_out_again(values: list[float], cost: float) -> None:
    names = [*"abcd"[: len(values) - 1], NO_ADAPTER]
    need = {name: value / sum(values) for name, value in zip(names, values, strict=True)}
    costs = {name: share * (cost if name == NO_ADAPTER else 1) for name, share in need.items()}
    weighed = {name: value / sum(costs.values()) for name, value in costs.items()}
    close = any(share == pytest.approx(cost * (1 - share)) for share in need.values())
    assert close or needed(weighed, cost) == needed(need, cost, weighed=False)


def test_where_one_thing_is_lacking_the_set_is_the_single_choice() -> None:
    for share in (0.02, 0.2, 0.9):
        need = {"cancel": share, "multi": 0.0, NO_ADAPTER: 1 - share}
        assert set_name(needed(need, weighed=False)) == called_for(need)


def test_only_the_classifiers_probabilities_have_the_cost_in_them() -> None:
    row = {"cancel": 0.3, NO_ADAPTER: 0.7}
    routes = [
        Route(router=router, task_id=router, choice="cancel", probabilities=row)
        for router in ("classifier", "label_logits")
    ]
    # 0.3 beside 0.7 / 0.1 is a share of .04; 0.3 as it is stands for more than one in eleven.
    assert sets_of(routes) == {"classifier": [], "label_logits": ["cancel"]}


def test_a_set_is_named_whatever_the_order_and_read_back() -> None:
    assert set_name(["b", "a", "b", NO_ADAPTER]) == "a+b"
    assert members_of(set_name(["b", "a"])) == ("a", "b")
    with pytest.raises(InputError, match="rename it"):
        set_name(["a+b", "c"])


def test_what_is_not_served_gives_way_to_its_most_probable_part() -> None:
    wanted = ["multi", "cancel", "window"]
    assert within(wanted, {"cancel+multi+window", "cancel+multi"}) == "cancel+multi+window"
    assert within(wanted, {"cancel+multi", "cancel+window"}) == "cancel+multi"
    assert (within(wanted, ()), within([], ())) == ("multi", NO_ADAPTER)


def test_candidates_are_pairs_and_all_together() -> None:
    assert candidate_sets(["c", "a", "b"]) == [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    assert candidate_sets([]) == candidate_sets(["a"]) == []
