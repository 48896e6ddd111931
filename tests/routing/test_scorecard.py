from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_assets.records import Route
from trace_assets.routing.scores import confusion, score

NAMES = ("a", "b", "none")


def route(task_id: str, choice: str, p: float = 1.0, router: str = "classifier") -> Route:
    rest = {name: (1 - p) / 2 for name in NAMES if name != choice}
    return Route(router=router, task_id=task_id, choice=choice, probabilities={choice: p, **rest})


def test_the_figures_of_a_small_case() -> None:
    routes = [route("1", "a", 0.9), route("2", "a", 0.9), route("3", "none", 0.6), route("4", "b", 0.6)]
    found = score(routes, {"1": "a", "2": "b", "3": "none", "4": "a"})
    assert (found.n, found.accuracy, found.majority_share) == (4, 0.5, 0.5)
    assert found.calibration_error == pytest.approx((abs(1.8 - 1) + abs(1.2 - 1)) / 4)


def test_tasks_without_a_known_choice_are_not_counted() -> None:
    found = score([route("1", "a"), route("2", "b")], {"1": "a"})
    assert found.n == 1 and found.accuracy == 1.0


def test_nothing_known_gives_no_figures() -> None:
    found = score([route("1", "a")], {})
    assert (found.n, found.accuracy, found.calibration_error, found.majority_share) == (0, None, None, None)


def test_mixed_routers_and_double_routes_are_refused() -> None:
    with pytest.raises(ValueError, match="several routers"):
        score([route("1", "a"), route("2", "a", router="label_logits")], {})
    with pytest.raises(ValueError, match="twice"):
        score([route("1", "a"), route("1", "b")], {})


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.floats(0, 1)), min_size=1, max_size=50
    )
)
def test_figures_stay_in_their_ranges_and_agree_with_the_confusion(
    rows: list[tuple[str, str, float]],
) -> None:
    routes = [route(str(n), choice, p) for n, (choice, _, p) in enumerate(rows)]
    truth = {str(n): right for n, (_, right, _) in enumerate(rows)}
    found = score(routes, truth)
    assert found.accuracy is not None and found.accuracy_low is not None and found.accuracy_high is not None
    assert 0 <= found.accuracy_low <= found.accuracy <= found.accuracy_high <= 1
    assert found.calibration_error is not None and 0 <= found.calibration_error <= 1
    table = confusion(routes, truth)
    assert sum(sum(row.values()) for row in table.values()) == len(rows)
    assert sum(table[name][name] for name in table) == pytest.approx(found.accuracy * len(rows))
    assert found.majority_share is not None and found.majority_share >= 1 / len(NAMES)
    assert max(sum(row.values()) for row in table.values()) == pytest.approx(found.majority_share * len(rows))


@given(st.permutations(range(12)))
def test_the_order_of_routes_does_not_matter(order: list[int]) -> None:
    routes = [route(str(n), NAMES[n % 3], 0.5 + n / 30) for n in range(12)]
    truth = {str(n): NAMES[n % 2] for n in range(12)}
    shuffled, plain = score([routes[n] for n in order], truth), score(routes, truth)
    assert shuffled.model_dump() == pytest.approx(plain.model_dump())


def test_none_is_the_last_row_of_the_confusion() -> None:
    table = confusion([route("1", "none"), route("2", "b")], {"1": "zzz", "2": "b"})
    assert list(table) == ["b", "zzz", "none"] and table["zzz"]["none"] == 1
