"""Every threshold of the selection at its very edge, and who is taken when several would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.diagnosis.test_selection import PASSED, decide, study
from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.cover import Cover
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.leak import empty_contrast
from trace_assets.diagnosis.selection import expected_cost, select, select_matrix
from trace_assets.diagnosis.thresholds import shortcoming
from trace_assets.records import Capability, Contrast
from trace_assets.settings import ContrastSection, Selection

SECTION = Selection(
    min_gap=0.25,
    min_gap_low=0.125,
    min_coverage=0.5,
    min_coverage_low=0.375,
    max_q=0.0625,
    min_relevant=10,
    min_alpha=0.5,
    min_varying_tasks=10,
)


def row(**changes: Any) -> Contrast:
    """One that lies exactly on every threshold."""
    values = {
        "capability_id": "c",
        "target": "t",
        "er_failed": 0.5,
        "er_failed_low": 0.4,
        "er_failed_high": 0.6,
        "er_passed": 0.25,
        "er_passed_low": 0.2,
        "er_passed_high": 0.3,
        "gap": 0.25,
        "gap_low": 0.125,
        "gap_high": 0.5,
        "coverage": 0.5,
        "coverage_low": 0.375,
        "coverage_high": 0.625,
        "p_value": 0.03125,
        "q_value": 0.0625,
        "n_failed": 40,
        "n_passed": 60,
        "n_failed_relevant": 10,
        "n_passed_relevant": 10,
        "n_failed_lacking": 5,
        "n_passed_lacking": 2,
        "n_tasks": 20,
        "alpha": 0.5,
        "alpha_low": 0.4,
        "alpha_high": 0.6,
        "n_considered": 2,
    }
    return Contrast(**{**values, **changes})  # type: ignore[arg-type]


BELOW = "gap 0.25 [0.12, 0.50]"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"gap": 0.2499}, "gap 0.25 [0.12, 0.50] is below 0.25"),
        ({"gap_low": 0.1249}, f"the lower bound of the {BELOW} is below 0.12"),
        ({"gap_low": None}, "the lower bound of the gap 0.25 [no interval: one task] is below 0.12"),
        ({"gap": 0.2, "gap_low": 0.1}, "gap 0.20 [0.10, 0.50] is below 0.25"),
        ({"coverage": 0.4999}, "coverage 0.50 [0.38, 0.62] is below 0.50"),
        ({"coverage_low": 0.3749}, "the lower bound of the coverage 0.50 [0.37, 0.62] is below 0.38"),
        (
            {"coverage_low": None},
            "the lower bound of the coverage 0.50 [no interval: one task] is below 0.38",
        ),
        ({"q_value": None}, "not tested: fewer than 8 relevant on one side"),
        ({"q_value": 0.0626}, "q value 0.063 is above 0.06 (p 0.031, 2 considered)"),
        ({"q_value": 0.5, "n_considered": None}, "q value 0.500 is above 0.06 (p 0.031, 1 considered)"),
        ({"n_failed_relevant": 9}, "only 9 relevant failures, 10 are needed"),
        ({"n_passed_relevant": 9}, "only 9 relevant successes, 10 are needed"),
        ({"alpha": 0.4999}, "labels agree to alpha 0.50 [0.40, 0.60] only, 0.50 is needed"),
        ({"alpha": None}, ""),
        ({"gap": None}, "gap undefined: relevant to 10 of 40 failures and 10 of 60 successes"),
        ({"coverage": None}, "gap undefined: relevant to 10 of 40 failures and 10 of 60 successes"),
        ({"n_varying_tasks": 10, "varying_gap_high": 0.25}, ""),
        ({"n_varying_tasks": 9, "varying_gap_high": 0.2}, ""),
        ({"n_varying_tasks": 10, "varying_gap_high": None}, ""),
        (
            {"n_varying_tasks": 10, "varying_gap": 0.1, "varying_gap_low": 0.0, "varying_gap_high": 0.2499},
            "in the 10 tasks with runs that lack it and runs that do not, the former do not fail more often "
            "(gap 0.10 [0.00, 0.25]): hard tasks are behind the gap, not the lack",
        ),
        (
            {"gap": 0.2, "n_varying_tasks": 10, "varying_gap": 0.1, "varying_gap_high": 0.1},
            "gap 0.20 [0.12, 0.50] is below 0.25",
        ),
    ],
)
def test_each_threshold_at_its_edge(changes: dict[str, Any], reason: str) -> None:
    assert shortcoming(row(**changes), SECTION) == reason


def test_an_agreement_can_be_overridden_and_everything_is_told_in_order() -> None:
    assert shortcoming(row(alpha=0.1), SECTION.model_copy(update={"override_agreement": True})) == ""
    told = shortcoming(
        row(gap=0.1, coverage=0.1, q_value=0.9, alpha=0.1, n_failed_relevant=1, n_passed_relevant=2), SECTION
    )
    words = ["1 relevant failure,", "2 relevant successes", "gap 0.10", "coverage 0.10", "q value", "alpha"]
    places = [told.index(word) for word in words]
    assert places == sorted(places) and told.count("; ") == 5


@pytest.mark.parametrize(
    ("changes", "empty"),
    [
        ({"er_passed": 0.0, "n_passed_relevant": 10}, True),
        ({"er_passed": 0.0, "n_passed_relevant": 9}, False),
        ({"er_passed": 0.01, "n_passed_relevant": 50}, False),
        ({"er_passed": None, "n_passed_relevant": 50}, False),
        ({"er_passed": 0.0, "er_failed": 1.0, "n_failed_relevant": 8, "n_passed_relevant": 2}, True),
        ({"er_passed": 0.0, "er_failed": 1.0, "n_failed_relevant": 7, "n_passed_relevant": 2}, False),
        ({"er_passed": 0.0, "er_failed": 0.9, "n_failed_relevant": 50, "n_passed_relevant": 2}, False),
    ],
)
def test_labels_that_may_follow_the_outcome(changes: dict[str, Any], empty: bool) -> None:
    one = row(**changes)
    assert empty_contrast([row(), one]) == ([one] if empty else [])


def test_what_is_paid_for_a_signal() -> None:
    section = Selection(cost="signal", cost_group_size=4, prices={"c": 3.0, "family": 5.0})
    half = {"n_failed_relevant": 10, "n_passed_relevant": 10, "n_failed_lacking": 6, "n_passed_lacking": 4}
    assert expected_cost(row(**half), section) == pytest.approx(3 / (1 - 2 * 0.5**4))
    assert expected_cost(row(**half, capability_id="d"), section, "family") == pytest.approx(5 / (1 - 2 / 16))
    assert expected_cost(row(**half, capability_id="d"), section) == pytest.approx(1 / (1 - 2 / 16))
    quarter = {**half, "n_failed_lacking": 8, "n_passed_lacking": 7}
    assert expected_cost(row(**quarter), section) == pytest.approx(3 / (1 - 0.25**4 - 0.75**4))
    # Never, and always: within one half of a trajectory of 0 and 1.
    for lacking in (0, 10):
        edge = {**half, "n_failed_lacking": lacking, "n_passed_lacking": lacking}
        cost = 3 / (1 - (0.5 / 20) ** 4 - (1 - 0.5 / 20) ** 4)
        assert expected_cost(row(**edge), section) == pytest.approx(cost)
    none = {"n_failed_relevant": 0, "n_passed_relevant": 0, "n_failed_lacking": 0, "n_passed_lacking": 0}
    assert expected_cost(row(**none), section) == 3.0
    assert expected_cost(row(**half), section.model_copy(update={"cost": "equal"})) == 3.0


# --- who is taken


def cover(
    lacking: Mapping[str, Sequence[int]],
    relevant: Mapping[str, Sequence[int]] | None = None,
    costs: Mapping[str, float] | None = None,
    first_message: Mapping[str, int] | None = None,
    **section: Any,
) -> tuple[list[str], dict[str, tuple[bool, float | None, str]]]:
    """Take among candidates as they are, whatever they would be alone."""
    labels, triage = study(lacking, relevant, first_message)
    rows = contrast(labels, triage, ContrastSection(resamples=100, permutations=100), "t")
    matrix = LabelMatrix.build(labels, triage, "t")
    lax = Selection(**{"min_gap": 0.05, "min_marginal_coverage": 0.05, **section})
    taken = Cover(rows, matrix, {name: name.upper() for name in lacking}, costs or {}, lax).take()
    return taken.order, taken.verdicts


def test_of_equal_coverage_the_larger_gap_is_taken_first_then_the_name() -> None:
    lacking = {"a": [*range(20), 100, 101, 102], "b": range(20, 40), "c": [*range(40, 60), 103]}
    assert cover(lacking)[0] == ["b", "c", "a"]
    assert cover({"b": range(20, 40), "a": range(20)})[0] == ["a", "b"]


def test_cost_divides_what_is_new() -> None:
    lacking = {"a": range(40), "b": range(40, 70), "c": range(70, 80)}
    assert cover(lacking, costs={"a": 2.0, "b": 1.0, "c": 0.3})[0] == ["c", "b", "a"]
    verdicts = cover(lacking, costs={"a": 2.0})[1]
    assert verdicts["a"][2].endswith("that no earlier one explains, at an expected cost of 2")
    assert "cost" not in verdicts["b"][2]


def test_the_marginal_coverage_that_is_needed() -> None:
    lacking = {"a": range(40), "b": [*range(35), *range(40, 45)]}
    assert cover(lacking, min_marginal_coverage=0.05)[0] == ["a", "b"]
    lacking["b"] = [*range(36), *range(40, 44)]
    order, verdicts = cover(lacking, min_marginal_coverage=0.05)
    assert order == ["a"]
    assert verdicts["b"] == (False, 0.04, "its failures are already covered by 'A': adds 4 of 100")


def test_one_without_any_shared_failure_is_told_what_is_needed() -> None:
    _, verdicts = cover({"a": range(40), "b": range(60, 64)}, min_marginal_coverage=0.045)
    assert verdicts["b"] == (False, 0.04, "it covers 4 of 100 failures, 5 are needed")
    order, verdicts = cover({"b": range(60, 64)})
    assert order == [] and verdicts["b"][2] == "it covers 4 of 100 failures, 5 are needed"


def test_the_most_overlapping_of_those_taken_is_named() -> None:
    _, verdicts = cover({"a": range(40), "b": range(40, 80), "c": [*range(5), *range(40, 60)]})
    assert verdicts["c"][2] == "its failures are already covered by 'B': adds 0 of 100"


def test_no_more_are_taken_than_allowed() -> None:
    lacking = {"a": range(40), "b": range(40, 70), "c": range(70, 90)}
    order, verdicts = cover(lacking, max_capabilities=2)
    assert order == ["a", "b"]
    assert verdicts["c"] == (
        False,
        0.2,
        "2 capabilities are already taken, the most allowed: it would add 20 of 100 failures",
    )
    assert cover(lacking, max_capabilities=3)[0] == ["a", "b", "c"]


def test_a_gap_that_goes_with_another_is_none() -> None:
    """Outside of what `a` explains, failures lack `b` no more often than successes do."""
    lacking = {"a": range(50), "b": [*range(48), *range(50, 60), *range(100, 120)]}
    order, verdicts = cover(lacking, min_gap=0.1, first_message={"a": 1, "b": 5})
    assert order == ["a"]
    assert verdicts["b"][0] is False and verdicts["b"][1] == pytest.approx(0.1)
    gap = 10 / 50 - 20 / 100
    assert verdicts["b"][2] == (
        f"explained by 'A': on the trajectories that do not lack it the gap is {gap:.2f}, below 0.10"
    )


def test_where_a_side_is_empty_coverage_alone_counts() -> None:
    """All successes that need `b` lack `a`: set aside, there is no gap to compute, and that is no reason."""
    lacking = {"a": [*range(60), *range(100, 110)], "b": range(60, 80)}
    order, _ = cover(lacking, {"a": range(200), "b": [*range(60, 80), *range(100, 110)]})
    assert order == ["a", "b"]


def test_evidence_in_most_shared_failures_decides_who_was_first() -> None:
    both = {"a": range(40), "b": range(40)}
    assert cover(both, first_message={"a": 2, "b": 5})[0] == ["a"]
    assert cover(both, first_message={"a": 5, "b": 2})[0] == ["b"]
    assert cover(both, first_message={"a": 5, "b": 5})[0] == ["a"], "a tie goes by the name"
    assert cover(both, first_message={"b": 5})[0] == ["b"], "an absence is later than any message"


def test_a_figure_without_an_interval_says_so_in_the_praise() -> None:
    labels, triage = study({"a": range(40)})
    (one,) = contrast(labels, triage, ContrastSection(resamples=100, permutations=100), "t")
    bare = one.model_copy(update={"gap_low": None, "alpha": 0.3})
    matrix = LabelMatrix.build(labels, triage, "t")
    taken = Cover([bare], matrix, {}, {}, Selection(override_agreement=True)).take()
    assert taken.verdicts["a"] == (
        True,
        0.4,
        "gap 0.40 [no interval: one task], lacking in 40 of 100 failures that no earlier one explains; "
        "labels agree to alpha 0.30 only, 0.60 is asked for: overridden by selection.override_agreement",
    )


def test_rejected_ones_come_by_coverage_then_by_name() -> None:
    lacking = {"a": range(9), "b": range(8), "c": range(30, 39), "d": [*range(40, 80)]}
    result = decide(*study(lacking))
    assert list(result) == ["d", "a", "c", "b"]
    assert [one.kept for one in result.values()] == [True, False, False, False]
    assert [one.marginal_coverage for one in result.values()] == [0.4, None, None, None]
    assert {one.name for one in result.values()} == {"A", "B", "C", "D"}


def test_names_and_families_are_optional_and_targets_apart() -> None:
    labels, triage = study({"a": range(40), "b": range(40, 80)})
    rows = contrast(labels, triage, ContrastSection(resamples=100, permutations=100), "t")
    matrix = LabelMatrix.build(labels, triage, "t")
    assert [one.name for one in select_matrix(rows, matrix, Selection())] == ["a", "b"]
    priced = Selection(prices={"family": 9.0})
    families = {"a": "family", "b": None}
    capabilities = [
        Capability(capability_id=name, target="t", name=name, description="", analyst="x", detector=family)
        for name, family in families.items()
    ]
    decided = select(rows, capabilities, labels, triage, priced)
    assert {one.capability_id: one.expected_cost for one in decided} == {"a": 9.0, "b": 1.0}
    assert [one.capability_id for one in decided] == ["b", "a"]
    other_rows = [
        one.model_copy(update={"target": "u", "capability_id": f"{one.capability_id}2"}) for one in rows
    ]
    other_labels = [
        one.model_copy(
            update={"capability_id": f"{one.capability_id}2", "trajectory_id": f"u{one.trajectory_id}"}
        )
        for one in labels
    ]
    other_triage = [
        one.model_copy(update={"target": "u", "trajectory_id": f"u{one.trajectory_id}"}) for one in triage
    ]
    both = select([*other_rows, *rows], [], [*labels, *other_labels], [*triage, *other_triage], Selection())
    assert [(one.target, one.rank, one.capability_id) for one in both] == [
        ("t", 1, "a"),
        ("t", 2, "b"),
        ("u", 1, "a2"),
        ("u", 2, "b2"),
    ]


def test_a_study_without_relevant_successes_is_undefined_and_last() -> None:
    result = decide(
        *study({"a": range(50), "b": range(60, 90)}, {"a": range(50), "b": [*range(60, 90), *PASSED]})
    )
    assert list(result) == ["b", "a"] and "gap undefined" in result["a"].reason
