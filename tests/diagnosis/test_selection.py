from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from trace_assets.diagnosis.chance import Findings, Null, chance_null
from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.cover import Cover
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.leak import empty_contrast
from trace_assets.diagnosis.selection import expected_cost, luck, select, select_matrix
from trace_assets.diagnosis.thresholds import is_promising, more_tasks, shortcoming
from trace_assets.records import (
    Capability,
    Contrast,
    DecisiveShare,
    Label,
    LackCause,
    SelectedCapability,
    Triage,
)
from trace_assets.settings import ContrastSection, Selection

FAILED, PASSED = range(0, 100), range(100, 200)
"""Numbers of the failed and of the passed trajectories in every study here."""


def study(
    lacking: Mapping[str, Sequence[int]],
    relevant: Mapping[str, Sequence[int]] | None = None,
    first_message: Mapping[str, int] | None = None,
) -> tuple[list[Label], list[Triage]]:
    triage = [
        Triage(
            trajectory_id=f"r{i:03}",
            target="t",
            task_id=f"t/{i:03}",
            outcome="failed" if i in FAILED else "passed",
            fault="agent" if i in FAILED else None,
            rule="test",
        )
        for i in range(200)
    ]
    labels = [
        Label(
            trajectory_id=f"r{i:03}",
            capability_id=name,
            labeller="x",
            label="LACKING"
            if i in numbers
            else "PRESENT"
            if i in (relevant or {}).get(name, range(200))
            else "NA",
            evidence=((first_message or {})[name],) if i in numbers and name in (first_message or {}) else (),
        )
        for name, numbers in lacking.items()
        for i in range(200)
    ]
    return labels, triage


def decide(
    labels: list[Label], triage: list[Triage], section: Selection | None = None, **known: Any
) -> dict[str, SelectedCapability]:
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    capabilities = [
        Capability(
            capability_id=row.capability_id,
            target="t",
            name=row.capability_id.upper(),
            description="",
            analyst="x",
            detector=f"finds_{row.capability_id}",
        )
        for row in rows
    ]
    decided = select(rows, capabilities, labels, triage, section or Selection(), **known)
    assert sorted(row.rank for row in decided) == list(range(1, len(rows) + 1))
    return {row.capability_id: row for row in decided}


def test_independent_deficits_are_all_kept_by_coverage() -> None:
    result = decide(*study({"a": [*range(40), 100], "b": range(40, 70), "c": range(70, 95)}))
    assert [(row.rank, row.kept) for row in result.values()] == [(1, True), (2, True), (3, True)]
    assert result["b"].marginal_coverage == pytest.approx(0.30)
    assert "30 of 100 failures" in result["b"].reason


def test_a_second_name_for_one_deficit_is_not_bought() -> None:
    result = decide(*study({"a": range(50), "b": range(48), "c": range(60, 90)}))
    assert [name for name, row in result.items() if row.kept] == ["a", "c"]
    assert result["b"].reason == "its failures are already covered by 'A': adds 0 of 100"
    assert result["b"].rank == 3


def test_the_earlier_of_two_that_go_together_is_the_cause() -> None:
    lacking = {"consequence": range(52), "cause": range(50)}
    late = decide(*study(lacking, first_message={"consequence": 9, "cause": 3}))
    assert (late["cause"].kept, late["consequence"].kept) == (True, False)
    assert "already covered by 'CAUSE': adds 2 of 100" in late["consequence"].reason
    assert late["consequence"].marginal_coverage == pytest.approx(0.02)
    early = decide(*study(lacking, first_message={"consequence": 3, "cause": 9}))
    assert (early["cause"].kept, early["consequence"].kept) == (False, True)


@pytest.mark.parametrize(("earlier", "kept"), [(20, "consequence"), (25, "consequence"), (27, "cause")])
def test_the_earlier_is_earlier_in_more_than_half_of_what_both_lack(earlier: int, kept: str) -> None:
    lacking = {"consequence": range(52), "cause": range(50)}
    labels, triage = study(lacking, first_message={"consequence": 5, "cause": 9})
    first = {f"r{number:03}" for number in range(earlier)}
    labels = [
        one.model_copy(update={"evidence": (3,)})
        if one.capability_id == "cause" and one.trajectory_id in first
        else one
        for one in labels
    ]
    assert [name for name, row in decide(labels, triage).items() if row.kept] == [kept]


def test_what_one_policys_runs_show_is_promising_over_all_of_them() -> None:
    own = [*range(20), *range(100, 120)]
    labels, triage = study({"x": [*range(60), *range(120, 180)]})
    triage = [one.model_copy(update={"policy": "a" if n in own else "b"}) for n, one in enumerate(triage)]
    found = decide(labels, triage)["x"]
    assert (found.kept, found.verdict) == (False, "promising")
    assert found.reason.startswith("promising: ") and "; over all policies gap " in found.reason
    assert (
        decide(labels, [one.model_copy(update={"policy": "a"}) for one in triage])["x"].verdict == "rejected"
    )


def test_what_all_policies_show_is_kept_and_not_called_promising() -> None:
    labels, triage = study({"x": range(60)})
    triage = [one.model_copy(update={"policy": "ab"[n % 2]}) for n, one in enumerate(triage)]
    found = decide(labels, triage)["x"]
    assert found.verdict == "kept" and found.reason.startswith("gap 0.60")


def test_a_symptom_of_everything_does_not_hide_the_causes() -> None:
    # The symptom shows in all failures of both causes and, without meaning, in a fifth of the others.
    lacking = {"symptom": [*range(76), *range(100, 120)], "a": range(35), "b": range(35, 70)}
    result = decide(*study(lacking, first_message={"symptom": 8, "a": 2, "b": 2}))
    assert [name for name, row in result.items() if row.kept] == ["a", "b"]
    assert "explained by 'A'" in result["symptom"].reason and "gap is 0." in result["symptom"].reason
    # When it comes first it is the cause, and nothing remains for the others.
    first = decide(*study(lacking, first_message={"symptom": 1, "a": 2, "b": 2}))
    assert [name for name, row in first.items() if row.kept] == ["symptom"]


def test_two_that_reach_beyond_a_third_replace_it() -> None:
    result = decide(*study({"a": range(20, 60), "b": range(0, 40), "c": range(40, 80)}))
    assert [name for name, row in result.items() if row.kept] == ["b", "c"]
    assert result["a"].marginal_coverage == 0


@pytest.mark.parametrize(
    ("lacking", "relevant", "words"),
    [
        ([*range(30), *range(100, 120)], range(200), "gap 0.10 ["),
        (range(8), [*range(20), *PASSED], "coverage 0.08 ["),
        (range(50), [*range(50), *range(100, 105)], "only 5 relevant successes, 10 are needed"),
        (range(50), range(50), "gap undefined: relevant to 50 of 100 failures and 0 of 100 successes"),
        ([*range(10), 100, 101, 102, 103], [*range(15), *range(100, 110)], "q value"),
    ],
)
def test_what_fails_alone_says_why(lacking: Sequence[int], relevant: Sequence[int], words: str) -> None:
    result = decide(*study({"a": lacking}, {"a": relevant}))["a"]
    assert not result.kept and result.marginal_coverage is None
    assert words in result.reason


def test_all_shortcomings_are_named_at_once() -> None:
    row = contrast(*study({"a": [*range(4), 100]}, {"a": range(8)}), ContrastSection(resamples=100), "t")[0]
    assert shortcoming(row, Selection()).count(";") >= 2


def test_labelling_passes_that_disagree_block() -> None:
    labels, triage = study({"a": range(60)})
    rng = random.Random(0)
    third = [
        one.model_copy(update={"labelling_pass": turn, "label": rng.choice(("LACKING", "PRESENT"))})
        for turn in (1, 2)
        for one in labels
    ]
    lax = {"min_gap": -1.0, "min_gap_low": -1.0, "min_coverage": 0.0, "min_coverage_low": 0.0, "max_q": 1.0}
    result = decide(labels + third, triage, Selection(**lax))["a"]
    assert not result.kept and result.reason.startswith("labels agree to alpha")
    overridden = decide(labels + third, triage, Selection(**lax, override_agreement=True))["a"]
    assert overridden.kept and "overridden by selection.override_agreement" in overridden.reason


def test_lower_bounds_can_be_asked_for() -> None:
    labels, triage = study({"a": [*range(40), *range(100, 112)]})
    assert decide(labels, triage)["a"].kept
    gap = decide(labels, triage, Selection(min_gap_low=0.2))["a"]
    assert not gap.kept and "the lower bound of the gap 0.28 [" in gap.reason
    coverage = decide(labels, triage, Selection(min_coverage_low=0.35))["a"]
    assert not coverage.kept and "the lower bound of the coverage 0.40 [" in coverage.reason


def test_dear_capabilities_wait_for_cheap_ones() -> None:
    labels, triage = study({"a": range(40), "b": range(40, 70)})
    assert list(decide(labels, triage)) == ["a", "b"]  # by rank
    priced = decide(labels, triage, Selection(prices={"a": 2.0}))
    assert list(priced) == ["b", "a"]
    assert priced["a"].expected_cost == 2.0 and "at an expected cost of 2" in priced["a"].reason
    assert list(decide(labels, triage, Selection(prices={"finds_a": 2.0}))) == ["b", "a"]


def test_what_has_no_price_costs_one_training() -> None:
    labels, triage = study({"a": range(40), "b": range(40, 70)})
    rows = contrast(labels, triage, ContrastSection(resamples=100, permutations=100), "t")
    matrix = LabelMatrix.build(labels, triage, "t")
    taken = Cover(rows, matrix, {}, {"a": 1.5}, Selection()).take()
    assert taken.order == ["b", "a"] and "cost" not in taken.verdicts["b"][2]


def test_what_is_never_exercised_costs_more_rollouts() -> None:
    # Relevant to 40 failures and 10 successes: "never" is exercised in 10 of 50, "seldom" in 2 of 52.
    labels, triage = study(
        {"often": range(40), "seldom": [*range(40), *range(100, 110)]},
        {"often": [*range(40), *range(100, 110)], "seldom": [*range(40), *range(100, 112)]},
    )
    often, seldom = contrast(labels, triage, ContrastSection(resamples=100, permutations=100), "t")
    section = Selection(cost="signal", cost_group_size=4)
    assert expected_cost(often, section) == pytest.approx(1 / (1 - 0.2**4 - 0.8**4))
    assert expected_cost(seldom, section) == pytest.approx(1 / (1 - (2 / 52) ** 4 - (50 / 52) ** 4))
    assert expected_cost(seldom, Selection(prices={"family": 3.0}), "family") == 3.0
    with pytest.raises(ValueError, match="the price of 'family' must be above 0"):
        Selection(prices={"family": 0.0})


def test_no_more_than_allowed() -> None:
    lacking = {name: range(20 * place, 20 * place + 20) for place, name in enumerate("abcd")}
    result = decide(*study(lacking), Selection(max_capabilities=2, min_gap=0.1))
    assert [name for name, row in result.items() if row.kept] == ["a", "b"]
    assert (
        result["d"].reason
        == "2 capabilities are already taken, the most allowed: it would add 20 of 100 failures"
    )


def test_order_of_rows_does_not_matter() -> None:
    labels, triage = study({"a": range(50), "b": range(48), "c": range(60, 90)})
    expected = decide(labels, triage)
    random.Random(0).shuffle(labels)
    random.Random(1).shuffle(triage)
    assert decide(labels, triage) == expected


def test_nothing_to_decide() -> None:
    assert select([], [], [], [], Selection()) == []


@pytest.mark.parametrize(
    ("failed", "passed"),
    [((42, 0), (0, 7)), ((12, 0), (0, 29)), ((12, 29), (0, 10)), ((10, 0), (0, 1))],
)
def test_labels_that_follow_the_outcome_are_flagged(failed: tuple[int, int], passed: tuple[int, int]) -> None:
    # LACKING and PRESENT on failures, then on successes. In the published label runs of the reference
    # LACKING is never given to a success: 42 / 0 on failures, 0 / 7 on successes, and so on.
    rows = contrast(*counted(failed, passed), ContrastSection(resamples=100), "t")
    assert rows[0].er_passed == 0 and empty_contrast(rows) == rows


@pytest.mark.parametrize(
    ("failed", "passed"), [((42, 0), (1, 7)), ((12, 29), (0, 7)), ((4, 0), (0, 5)), ((42, 1), (0, 7))]
)
def test_labels_that_may_be_honest_are_not_flagged(failed: tuple[int, int], passed: tuple[int, int]) -> None:
    assert empty_contrast(contrast(*counted(failed, passed), ContrastSection(resamples=100), "t")) == []


def test_no_contrast_is_not_an_empty_contrast() -> None:
    (row,) = contrast(*counted((42, 0), (0, 12)), ContrastSection(resamples=100), "t")
    assert empty_contrast([Contrast.model_validate({**row.model_dump(), "er_passed": None})]) == []


def counted(failed: tuple[int, int], passed: tuple[int, int]) -> tuple[list[Label], list[Triage]]:
    """Return a study with so many LACKING and PRESENT on failures, and on successes."""
    start = 100 + passed[0]
    lacking = [*range(failed[0]), *range(100, start)]
    return study({"a": lacking}, {"a": [*range(sum(failed)), *range(100, start + passed[1])]})


def row(**changes: Any) -> Contrast:
    values: dict[str, Any] = {name: None for name in Contrast.model_fields}
    values |= {"capability_id": "c", "target": "t", "gap": 0.4, "gap_low": 0.2, "coverage": 0.3}
    values |= {"coverage_low": 0.2, "q_value": 0.01, "p_value": 0.005, "n_tasks": 40, "n_varying_tasks": 0}
    values |= {"n_failed": 40, "n_passed": 40, "n_failed_relevant": 20, "n_passed_relevant": 20}
    values |= {"n_failed_lacking": 12, "n_passed_lacking": 4, "policies": ()}
    return Contrast.model_construct(**values | changes)


def test_what_shows_gap_and_coverage_is_promising_until_data_decide() -> None:
    assert is_promising(row(n_passed_relevant=5), Selection())
    assert more_tasks(row(n_passed_relevant=5), Selection()) == 40, "twice the tasks, twice the successes"
    assert more_tasks(row(gap_low=-0.4), Selection()) == 120, "half the width takes four times the tasks"
    assert more_tasks(row(q_value=0.2, p_value=0.1), Selection()) == 35
    assert more_tasks(row(gap_low=None), Selection()) is None
    assert more_tasks(row(), Selection()) is None, "nothing is missing"


@pytest.mark.parametrize(
    "changes",
    [
        {"gap": 0.1},
        {"coverage": 0.05},
        {"gap": None},
        {"alpha": 0.2},
        {"n_varying_tasks": 12, "varying_gap": 0.0, "varying_gap_high": 0.1},
    ],
)
def test_what_more_data_would_not_mend_is_not_promising(changes: dict[str, Any]) -> None:
    assert not is_promising(row(**changes), Selection())


def together(n: int = 200, rare: int = 6) -> dict[str, list[int]]:
    """Return what is lacking where each of 100 failures needs three skills and lacks two of them mostly.

    `c` alone is behind `rare` failures; else it goes with `a` or `b`, as often as where they are in order.
    """
    a, b = list(range(60)), [*range(45), *range(60, 100 - rare)]
    return {"a": a, "b": b, "c": [*range(0, 100 - rare, 2), *range(100 - rare, 100)]}


@pytest.mark.parametrize(("alone", "kept"), [(6, True), (5, True), (4, False)])
def test_a_cause_that_others_go_with_is_taken_though_it_adds_few_failures(alone: int, kept: bool) -> None:
    strict = Selection(min_marginal_coverage=0.08)
    result = decide(*study(together(rare=alone)), strict)
    assert [name for name, row in result.items() if row.kept] == ["b", "a", "c"][: 2 + kept]
    assert result["c"].marginal_coverage == pytest.approx(alone / 100)
    words = f"lacking in {alone} of 100" if kept else f"adds {alone} of 100"
    assert words in result["c"].reason


@pytest.mark.parametrize(("alone", "needed"), [(6, range(10)), (8, range(6))])
def test_what_goes_with_others_and_is_rarer_without_them_is_no_cause_of_its_own(
    alone: int, needed: Sequence[int]
) -> None:
    # Lacking in six of ten failures that lack another, whether or not the four needed it; without another it
    # is lacking in half of those that needed it, or in two thirds.
    rare = together(rare=12)
    rare["c"] = [i for i in range(88) if i % 10 < 6] + [*range(88, 88 + alone)]
    relevant = {"a": range(200), "b": range(200), "c": [i for i in range(200) if i > 87 or i % 10 in needed]}
    result = decide(*study(rare, relevant), Selection(min_marginal_coverage=0.1))
    assert [name for name, row in result.items() if row.kept] == ["b", "a"]
    assert f"already covered by 'B': adds {alone} of 100" in result["c"].reason


def test_few_failures_beyond_the_others_must_be_more_than_chance() -> None:
    lacking = together(rare=5)
    everyone = {name: range(200) for name in "ab"}
    few = [*range(100), 100, 101]  # of the successes two needed it: what five failures show may be luck
    result = decide(
        *study(lacking, everyone | {"c": few}), Selection(min_marginal_coverage=0.08, min_relevant=2)
    )
    assert not result["c"].kept


@pytest.mark.parametrize(("relevant", "kept"), [(4, False), (5, True)])
def test_few_successes_that_needed_it_are_enough_where_chance_shows_nothing_as_clear(
    relevant: int, kept: bool
) -> None:
    labels, triage = study({"a": range(60)}, {"a": [*range(70), *range(100, 100 + relevant)]})
    matrix = LabelMatrix.build(labels, triage, "t")
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    null = chance_null(matrix, Findings.of_candidates(matrix), ContrastSection(), Selection(), shuffles=199)
    (row,) = select_matrix(rows, matrix, Selection(), null=lambda _: null)
    assert row.kept is kept and (kept or f"only {relevant} relevant successes" in row.reason)
    (lucky,) = select_matrix(rows, matrix, Selection(), null=lambda _: Null(np.zeros(99)))
    assert not lucky.kept and "relevant successes, 10 are needed" in lucky.reason


def repaired(share: float, placebo: float, n: int = 60) -> DecisiveShare:
    low, high = max(0.0, share - 0.06), min(1.0, share + 0.06)
    return DecisiveShare(
        capability_id="a", target="t", share=share, share_low=low, share_high=high, n_replayed=n,
        n_decisive=round(share * n), n_tasks=n, placebo=placebo, placebo_low=0.0, placebo_high=placebo + 0.05,
        n_placebo=n, n_lacking=60, n_not_repairable=0, n_not_replayable=0, lower_bound=False, not_measured="",
    )  # fmt: skip


@pytest.mark.parametrize("relevant", [0, 1, 4])
def test_what_repairs_have_shown_to_decide_needs_no_success_that_needed_it(relevant: int) -> None:
    labels, triage = study({"a": range(60)}, {"a": [*range(70), *range(100, 100 + relevant)]})
    matrix = LabelMatrix.build(labels, triage, "t")
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")

    def kept(share: DecisiveShare | None) -> SelectedCapability:
        shares = {} if share is None else {"a": share}
        (row,) = select_matrix(rows, matrix, Selection(), decisive=shares, null=lambda _: Null(np.zeros(99)))
        return row

    shown = kept(repaired(0.2, 0.0))
    assert shown.kept and f"kept with {relevant} relevant successes" in shown.reason
    assert shown.reason.startswith("gap ") is bool(relevant) and "lacking in 60 of 100" in shown.reason
    assert "0.20 [0.14, 0.26] of 60, placebo 0.00" in shown.reason
    # Not without the experiment, nor where placebos do as much, or too few runs were repaired.
    for weak in (None, repaired(0.2, 0.15), repaired(0.2, 0.0, n=9)):
        assert not kept(weak).kept


def test_a_gap_that_was_measured_counts_also_against_what_repairs_show() -> None:
    lacking = [*range(60), *range(100, 160)]
    labels, triage = study({"a": lacking}, {"a": range(200)})
    matrix = LabelMatrix.build(labels, triage, "t")
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    (row,) = select_matrix(rows, matrix, Selection(), decisive={"a": repaired(0.3, 0.0)})
    assert not row.kept and "gap 0.00" in row.reason


@pytest.mark.parametrize(
    ("relevant", "verdict", "besides"),
    [(100, "kept", ""), (5, "promising", "only 5 relevant successes, 10 are needed; ")],
)
def test_what_repairs_show_to_be_no_cause_is_not_kept_nor_promising(
    relevant: int, verdict: str, besides: str
) -> None:
    labels, triage = study({"a": range(60)}, {"a": [*range(70), *range(100, 100 + relevant)]})
    assert decide(labels, triage)["a"].verdict == verdict
    shown = decide(labels, triage, decisive=[repaired(0.05, 0.0)])["a"]
    before, _, _ = shown.reason.partition("repairing it does not let failed runs pass: ")
    assert (shown.verdict, before.startswith(besides), bool(before)) == ("rejected", True, bool(besides))


@pytest.mark.parametrize(
    ("a", "indifferent", "reason"),
    [
        (50, {"b": range(52, 90)}, "it decided 2 of 100 failures, 5 are needed: in 38 that lack it, exer"),
        (
            50,
            {"a": range(2, 50), "b": range(52, 90)},
            "it decided 2 of 100 failures, 5 are needed: in 38 that lack it, exer",
        ),
        (60, {"b": range(60, 90)}, "its failures are already covered by 'A': adds 0 of 100"),
    ],
)
def test_lacks_that_did_not_decide_the_end_explain_no_failure(
    a: int, indifferent: Mapping[str, Sequence[int]], reason: str
) -> None:
    causes = [
        LackCause(trajectory_id=f"r{i:03}", capability_id=name, target="t", decisive="no", judge="x")
        for name, numbers in indifferent.items()
        for i in numbers
    ]
    result = decide(*study({"a": range(a), "b": range(50, 90)}), causes=causes)
    assert result["a"].kept is ("a" not in indifferent)
    assert not result["b"].kept and result["b"].reason.startswith(reason)


def test_three_that_share_most_failures_with_it_are_named() -> None:
    both = range(100, 105)  # successes that lack it are not shared failures
    shared = {"b": 6, "c": 10, "d": 4, "e": 8, "f": 0}
    others = {name: [*range(60 - n, 90 - n), *both] for name, n in shared.items()}
    result = decide(*study({"a": [*range(60), *both], **others}))
    words = "lacking in 60 of 100 failures that no earlier one explains; "
    assert result["a"].reason.endswith(words + "shares 10 with 'C', 8 with 'E', 6 with 'B'")
    assert "shares" not in decide(*study({"a": range(40), "b": range(40, 80)}))["a"].reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"n_passed_relevant": 5},
            "about 40 more tasks like these, or about 2 more trials of each of these tasks, would decide",
        ),
        ({"gap_low": None}, "more tasks like these would decide"),
        ({"n_failed_relevant": 4}, "more tasks like these would decide"),
        (
            {"n_passed_relevant": 4},
            "only 4 of 40 successes need it, so more tasks like these hardly decide: successes in tasks that "
            "need it would, or failed runs that pass once it is repaired",
        ),
    ],
)
def test_what_is_promising_says_how_much_more_would_decide(changes: dict[str, Any], words: str) -> None:
    matrix = LabelMatrix.build(*study({"c": range(30)}), "t")
    (found,) = select_matrix([row(**changes)], matrix, Selection())
    assert found.verdict == "promising"
    assert found.reason.startswith(f"promising: {words}; so far ")
    assert (found.more_tasks is None) is (changes != {"n_passed_relevant": 5})


@pytest.mark.parametrize(
    ("failures", "a_task", "verdict", "words"),
    [
        (1, 1, "seen once", "seen once: one failure lacks it; so far "),
        (3, 3, "seen once", "seen once: 3 failures lack it, all of one task; so far "),
        (2, 1, "promising", "promising: "),
    ],
)
def test_what_the_failures_of_one_task_lack_is_no_promise(
    failures: int, a_task: int, verdict: str, words: str
) -> None:
    labels, triage = study({"c": range(failures)})
    triage = [
        one.model_copy(update={"task_id": f"x/{n // a_task if n < failures else n}"})
        for n, one in enumerate(triage)
    ]
    (found,) = select_matrix([row(n_passed_relevant=5)], LabelMatrix.build(labels, triage, "t"), Selection())
    assert (found.verdict, found.kept) == (verdict, False) and found.reason.startswith(words)
    assert (found.more_tasks is None) is (verdict == "seen once")


def test_a_promising_lack_says_of_how_few_failures_it_may_be_the_cause() -> None:
    causes = [
        LackCause(trajectory_id=f"r{i:03}", capability_id="c", target="t", decisive="no", judge="x")
        for i in range(4)
    ]
    matrix = LabelMatrix.build(*study({"c": range(6)}), "t", causes)
    (found,) = select_matrix([row(n_passed_relevant=5)], matrix, Selection())
    assert "would decide; it may have decided 2 of the 6 failures that lack it; so far " in found.reason


def test_a_broad_one_whose_cases_are_kept_leads_to_them() -> None:
    labels, triage = study({"a": range(30), "b": range(30, 60), "wide": range(60)})
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    parents = {"a": "wide", "b": "wide", "wide": None}
    matrix = LabelMatrix.build(labels, triage, "t")
    found = {one.capability_id: one for one in select_matrix(rows, matrix, Selection(), parents=parents)}
    assert (found["wide"].verdict, found["wide"].kept) == ("cases kept", False)
    assert found["wide"].reason.startswith(
        "its cases 'a', 'b' are kept; its failures are already covered by "
    )
    # Where it fails by itself its cases are named as well.
    passed = {"wide": range(100, 150)}
    labels, triage = study({"a": range(30), "wide": [*range(30), *range(100, 130)]}, passed)
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    matrix = LabelMatrix.build(labels, triage, "t")
    found = {one.capability_id: one for one in select_matrix(rows, matrix, Selection(), parents=parents)}
    assert found["wide"].reason.startswith("its case 'a' is kept; ")


def test_an_umbrella_that_is_kept_names_what_says_more_exactly_what_is_lacking() -> None:
    lacking = {"umbrella": range(80), "part": range(50), "beyond": range(70, 90)}
    few = {"part": [*range(50), *range(100, 104)], "beyond": [*range(70, 90), *range(100, 104)]}
    found = decide(*study(lacking, few))
    assert found["umbrella"].kept and found["part"].verdict == found["beyond"].verdict == "promising"
    words = "; too few successes need what says more exactly what some of these lack: 'PART'"
    assert words in found["umbrella"].reason
    assert "BEYOND" not in found["umbrella"].reason, "half of its failures are others"


def test_what_a_person_has_kept_comes_first_among_what_was_not_found() -> None:
    labels, triage = study(
        {"a": range(60), "b": range(9), "c": range(8)}, {name: range(105) for name in "abc"}
    )
    result = decide(labels, triage, Selection(overrides={"C": "they complain of it", "d": "not a candidate"}))
    assert [(name, row.verdict, row.kept, row.overridden_by) for name, row in result.items()] == [
        ("c", "override", True, "they complain of it"),
        ("a", "promising", False, ""),
        ("b", "rejected", False, ""),
    ]
    (wide,) = decide(
        *study({"a": range(60)}, {"a": range(105)}), Selection(overrides={"a": "we know"})
    ).values()
    assert wide.reason.startswith("kept by override, not found (we know): only 5 relevant successes")
    assert (wide.more_tasks, wide.more_trials) == (None, None), "what is kept waits for nothing"


@pytest.mark.parametrize(
    ("chances", "words"), [([], ""), ([0.01, 0.5], ""), ([0.011, 0.5], "in 1.1 % of studies, 1 % at most")]
)
def test_the_clearest_must_be_clearer_than_chance(chances: list[float], words: str) -> None:
    passing = {str(place): chance for place, chance in enumerate(chances)}
    said = luck([row(capability_id=name) for name in passing], passing, Selection())
    assert words in said and bool(words) is bool(said)


def test_nothing_is_kept_where_shuffled_outcomes_show_as_much() -> None:
    labels, triage = study({"a": [*range(60), *range(100, 130)], "b": [*range(60, 90), *range(130, 135)]})
    matrix = LabelMatrix.build(labels, triage, "t")
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    asked: list[float] = []

    def null(upto: float) -> Null:
        asked.append(upto)
        return Null(np.zeros(99))

    decided = select_matrix(rows, matrix, Selection(), null=null)
    assert asked == [max(one.p_value or 0 for one in rows)], "shuffles count up to the least clear one"
    for one in decided:
        assert not one.kept and one.chance == 1.0
        assert "with outcomes shuffled something at least as clear is found in 100.0 %" in one.reason


def test_of_equal_coverage_what_fewer_successes_lack_goes_first_whatever_the_gap() -> None:
    # Of few failures that needed `a` all lack it: a larger gap, though successes lack it too.
    lacking = {"a": [*range(30), *range(100, 105)], "b": range(30, 60)}
    assert list(decide(*study(lacking, {"a": [*range(30), *PASSED], "b": range(200)}))) == ["b", "a"]


def test_what_no_failure_lacks_comes_last() -> None:
    assert list(decide(*study({"a": [100], "b": range(9)}))) == ["b", "a"]


def test_what_falls_for_the_successes_that_another_explains_is_told_so() -> None:
    """It shares no failure with the other, and covers enough: what is missing is the gap."""
    lacking = {"a": [*range(50), *range(125, 165)], "b": [*range(60, 80), *range(100, 125)]}
    relevant = {"a": [*range(50), *PASSED], "b": [*range(60, 100), *PASSED]}
    found = decide(*study(lacking, relevant))
    assert found["a"].kept and not found["b"].kept
    assert found["b"].reason.startswith(
        "explained by 'A': on the trajectories that do not lack it the gap is "
    )


def test_what_is_very_clear_and_yet_called_chance_says_how_much_more_would_decide() -> None:
    """A p value of which one less it is 1 has no quantile on that side."""
    clear = row(p_value=1e-30, q_value=None)
    assert more_tasks(clear, Selection(), 1.0) is not None
    assert more_tasks(row(p_value=0.0), Selection(), 1.0) is None, "no data make it clearer"


def habits(parents: dict[str, str | None], *data: Any) -> dict[str, SelectedCapability]:
    """Decide on what a model proposed: capability to the broader one that it is a case of."""
    labels, triage = data
    rows = contrast(labels, triage, ContrastSection(resamples=200, permutations=500), "t")
    capabilities = [
        Capability(
            capability_id=one, target="t", name=one.upper(), description="", analyst="model:m", parent=parent
        )
        for one, parent in parents.items()
    ]
    return {row.capability_id: row for row in select(rows, capabilities, labels, triage, Selection())}


def test_a_habit_that_restates_the_outcome_hides_no_cause() -> None:
    data = study({"succeed": range(100), "a": range(50), "b": range(50, 90)})
    decided = habits({"succeed": None, "a": None, "b": None}, *data)
    assert [name for name, row in decided.items() if row.kept] == ["a", "b"]
    assert decided["succeed"].verdict == "rejected" and "how runs ended, not why" in decided["succeed"].reason
    alone = habits({"succeed": None}, *study({"succeed": range(100)}))["succeed"]
    assert alone.kept and "read some of them" in alone.reason, "an agent may have one lack alone"
    assert decide(*data)["succeed"].kept, "a detector finds what is there, whatever became of the run"
    some = study({"succeed": [*range(100), 100], "a": range(50), "b": range(50, 90)})
    assert habits({"succeed": None, "a": None, "b": None}, *some)["succeed"].kept, "a success lacks it, too"


def test_narrower_ones_are_taken_before_the_broader_one_that_they_are_cases_of() -> None:
    data = study({"broad": [*range(70), 100], "a": [*range(40), 100], "b": range(40, 70)})
    decided = habits({"broad": None, "a": "broad", "b": "broad"}, *data)
    assert [name for name, row in decided.items() if row.kept] == ["a", "b"]
    assert "already covered" in decided["broad"].reason
    wide = study({"broad": [*range(70), 100], "a": [*range(40), 100], "b": range(40, 42)})
    decided = habits({"broad": None, "a": "broad", "b": "broad"}, *wide)
    assert [name for name, row in decided.items() if row.kept] == ["a", "broad"], "it adds what no case has"
