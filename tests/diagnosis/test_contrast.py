from __future__ import annotations

import random
import time
from math import comb, hypot
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quick import examples
from tests.simulations.repeat import random_matrix
from trace_assets.diagnosis.contrast import (
    considered_tests,
    contrast,
    count_by_task,
    estimation_share,
    rates,
)
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.thresholds import shortcoming
from trace_assets.records import Capability, Label, LabelValue, Triage
from trace_assets.records.trajectory import Fault
from trace_assets.settings import ContrastSection, Selection
from trace_assets.stats.intervals import resample_each, wilson

QUICK = ContrastSection(resamples=200, permutations=200)


def row(
    number: int, outcome: str, *, fault: Fault | None = None, task: str = "", target: str = "t"
) -> Triage:
    return Triage.model_validate(
        {
            "trajectory_id": f"{target}-{number:05}",
            "target": target,
            "task_id": task or f"{target}/{number:05}",
            "outcome": outcome,
            "fault": fault if fault is not None else (None if outcome == "passed" else "agent"),
            "rule": "test",
        }
    )


def label(number: int, value: LabelValue, *, name: str = "c", turn: int = 0, target: str = "t") -> Label:
    return Label(
        trajectory_id=f"{target}-{number:05}",
        capability_id=name,
        labelling_pass=turn,
        labeller="x",
        label=value,
    )


def worked_example() -> tuple[list[Label], list[Triage]]:
    triage = [row(i, "passed" if i < 50 else "failed") for i in range(100)]
    labels = [label(i, "LACKING" if i < 8 or 50 <= i < 85 else "PRESENT") for i in range(100)]
    return labels, triage


def test_worked_example_of_the_method() -> None:
    (result,) = contrast(*worked_example(), ContrastSection(), "t")
    assert result.er_passed == pytest.approx(0.16)
    assert result.er_failed == pytest.approx(0.70)
    assert result.gap == pytest.approx(0.54)
    assert result.coverage == pytest.approx(0.70)
    assert (result.n_failed, result.n_passed, result.n_failed_relevant, result.n_passed_relevant) == (50,) * 4
    assert (result.n_failed_lacking, result.n_passed_lacking, result.n_tasks) == (35, 8, 100)
    # One trial a task: Fisher's exact test.
    exact = sum(comb(43, k) * comb(57, 50 - k) for k in range(35, 44)) / comb(100, 50)
    assert result.p_value == pytest.approx(exact, rel=1e-9) == result.q_value
    assert (result.n_pairs, result.matched_gap, result.n_considered) == (0, None, 1)
    assert result.alpha is None
    assert result.gap_low is not None and result.gap_high is not None
    # One trial a task: must come out near Newcombe's interval for independent proportions (1998, method 10).
    (low_1, high_1), (low_2, high_2) = wilson(35, 50), wilson(8, 50)
    assert result.gap_low == pytest.approx(0.54 - hypot(0.70 - low_1, high_2 - 0.16), abs=0.03)
    assert result.gap_high == pytest.approx(0.54 + hypot(high_1 - 0.70, 0.16 - low_2), abs=0.03)


def test_who_played_is_named_where_that_is_known() -> None:
    labels, triage = worked_example()
    (unknown,) = contrast(labels, triage, QUICK, "t")
    (known,) = contrast(labels, [one.model_copy(update={"policy": "m-1"}) for one in triage], QUICK, "t")
    assert (unknown.policies, known.policies) == ((), ("m-1",))


def test_same_result_for_any_order_of_rows() -> None:
    labels, triage = worked_example()
    labels += [label(i, "NA" if i % 3 else "LACKING", name="d") for i in range(100)]
    expected = contrast(labels, triage, QUICK, "t")
    random.Random(0).shuffle(labels)
    random.Random(1).shuffle(triage)
    assert contrast(labels, triage, QUICK, "t") == expected
    assert [one.capability_id for one in expected] == ["c", "d"]


def test_another_candidate_changes_only_the_q_value() -> None:
    labels, triage = worked_example()
    (alone,) = contrast(labels, triage, QUICK, "t")
    labels += [label(i, "LACKING" if i % 2 else "PRESENT", name="d") for i in range(100)]
    together = contrast(labels, triage, QUICK, "t")[0]
    assert together.model_copy(update={"q_value": alone.q_value, "n_considered": 1}) == alone
    assert together.q_value == pytest.approx(2 * (alone.p_value or 0))


def test_q_is_corrected_for_all_that_were_considered() -> None:
    labels, triage = worked_example()
    (alone,) = contrast(labels, triage, QUICK, "t")
    (picked,) = contrast(labels, triage, QUICK, "t", considered=40)
    assert picked.q_value == pytest.approx(40 * (alone.p_value or 0)) and picked.n_considered == 40


@pytest.mark.parametrize(("failed", "passed", "tested"), [(8, 8, True), (7, 40, False), (40, 7, False)])
def test_what_is_relevant_too_seldom_is_not_tested(failed: int, passed: int, tested: bool) -> None:
    triage = [row(i, "failed" if i < failed else "passed") for i in range(failed + passed)]
    labels = [label(i, "LACKING" if i < failed else "PRESENT") for i in range(failed + passed)]
    (result,) = contrast(labels, triage, QUICK, "t")
    assert result.p_value is not None and (result.q_value is not None) is tested
    assert result.n_considered == int(tested), "what is not tested makes no other q larger"


def two_policies() -> tuple[list[Label], list[Triage]]:
    """Return a weak policy that lacks it more often and a strong one; outcomes, then labels of each."""
    counts = [
        ("strong", "failed", {"LACKING": 8, "PRESENT": 2, "NA": 3}),
        ("strong", "passed", {"LACKING": 16, "PRESENT": 24, "NA": 5}),
        ("weak", "failed", {"LACKING": 20, "PRESENT": 20, "NA": 9}),
        ("weak", "passed", {"LACKING": 5, "PRESENT": 15, "NA": 1}),
    ]
    runs = [
        (who, outcome, value) for who, outcome, many in counts for value, n in many.items() for _ in range(n)
    ]
    triage = [row(i, run[1]).model_copy(update={"policy": run[0]}) for i, run in enumerate(runs)]
    return [label(i, cast(LabelValue, value)) for i, (_, _, value) in enumerate(runs)], triage


def test_each_policys_runs_are_compared_among_themselves() -> None:
    (result,) = contrast(*two_policies(), QUICK.model_copy(update={"permutations": 5000}), "t")
    assert result.policies == ("strong", "weak")
    assert result.gap == pytest.approx(28 / 50 - 21 / 60)
    # Mantel and Haenszel: gaps of 0.4 and 0.25, weighted by f p / (f + p) relevant runs.
    strong, weak = 10 * 40 / 50, 40 * 20 / 60
    gap = (0.4 * strong + 0.25 * weak) / (strong + weak)
    assert result.policy_gap == pytest.approx(gap)
    # Fisher's exact test with the outcomes of each policy shuffled by themselves.
    exact = sum(
        comb(24, one) * comb(26, 10 - one) / comb(50, 10) * comb(25, two) * comb(35, 40 - two) / comb(60, 40)
        for one in range(11)
        for two in range(5, 26)
        if one + two >= 28
    )
    assert result.p_value == pytest.approx(exact, abs=0.002)


def test_what_every_run_lacks_is_tested_and_shows_nothing() -> None:
    labels, triage = two_policies()
    (result,) = contrast([one.model_copy(update={"label": "LACKING"}) for one in labels], triage, QUICK, "t")
    assert (result.policy_gap, result.p_value) == (0, 1)


def test_what_was_proposed_from_half_of_the_tasks_is_tested_on_the_others() -> None:
    triage = [row(i, "failed", task=f"retail/{i}") for i in range(12)]
    blind = Capability(
        capability_id="a", target="t", name="a", description="", analyst="detectors", n_considered=30
    )
    fewer = blind.model_copy(update={"n_considered": 20})
    model = blind.model_copy(update={"n_considered": None})
    half = model.model_copy(update={"discovered_on": "half"})
    # Which half a task is in never changes.
    assert estimation_share(triage, [blind, half]) == [*triage[:4], *triage[8:]]
    assert estimation_share(triage, [blind, model]) == triage
    # All blind proposals are tests, and each of a model's; on other tasks only what was picked.
    assert considered_tests([blind, fewer, model]) == 31
    assert considered_tests([blind, half]) == 0


def test_counts_may_be_of_some_runs_alone() -> None:
    labels, triage = worked_example()
    matrix = LabelMatrix.build(labels, triage, "t")
    counts = count_by_task(matrix, among=np.arange(100) >= 80)
    assert counts.sum(axis=0).tolist() == [[5, 20, 0, 0, 20, 0]] and counts.dtype == np.int64


def test_the_gap_within_policies_has_the_interval_that_was_asked_for() -> None:
    def bounds(**changes: float) -> tuple[float, float]:
        (result,) = contrast(*two_policies(), QUICK.model_copy(update=changes), "t")
        assert result.policy_gap is not None
        assert result.policy_gap_low is not None and result.policy_gap_high is not None
        assert result.policy_gap_low < result.policy_gap < result.policy_gap_high
        return result.policy_gap_low, result.policy_gap_high

    (low, high), (inner_low, inner_high) = bounds(), bounds(confidence=0.5)
    assert low < inner_low < inner_high < high
    assert bounds() == (low, high) != bounds(seed=1), "tasks are drawn anew by the section's seed"
    assert bounds(resamples=100) != (low, high)


def test_difficulty_makes_a_gap_that_runs_of_the_same_task_do_not_have() -> None:
    rng = np.random.default_rng(5)
    hard = rng.random(300) < 0.5
    lacking = rng.random((300, 4)) < np.where(hard, 0.8, 0.2)[:, None]
    failed = rng.random((300, 4)) < np.where(hard, 0.8, 0.2)[:, None]
    (result,) = contrast(*as_rows(np.ones_like(failed), lacking, failed), QUICK, "t")
    assert result.gap is not None and result.gap > 0.25
    assert result.varying_gap_low is not None and result.varying_gap_high is not None
    assert result.varying_gap_low < 0 < result.varying_gap_high < 0.2
    assert "hard tasks are behind the gap" in shortcoming(result, Selection())
    # The same labels, but each lack costs the run: now it is no longer the task.
    cause = rng.random((300, 4)) < np.where(lacking, 0.9, 0.2)
    (real,) = contrast(*as_rows(np.ones_like(failed), lacking, cause), QUICK, "t")
    assert real.matched_gap_low is not None and real.matched_gap_low > 0.3
    assert real.n_pairs > real.n_pair_tasks > real.n_varying_tasks > 10
    assert shortcoming(real, Selection()) == ""
    # Tasks are drawn anew by the section's seed, also for the gap within tasks.
    drawn = [
        contrast(*as_rows(np.ones_like(failed), lacking, cause), QUICK.model_copy(update={"seed": seed}), "t")
        for seed in (1, 1, 2)
    ]
    (fewer,) = contrast(
        *as_rows(np.ones_like(failed), lacking, cause), QUICK.model_copy(update={"resamples": 100}), "t"
    )
    assert fewer.matched_gap == real.matched_gap and fewer.matched_gap_low != real.matched_gap_low
    bounds = [(one.matched_gap_low, one.varying_gap_low) for (one,) in drawn]
    assert bounds[0] == bounds[1] and all(a != b for a, b in zip(bounds[1], bounds[2], strict=True))


@pytest.mark.parametrize("fault", ["user_simulator", "environment", "infrastructure"])
def test_only_the_agents_failures_count(fault: Fault) -> None:
    labels, triage = worked_example()
    expected = contrast(labels, triage, QUICK, "t")
    more = [row(i, "failed", fault=fault) for i in range(100, 120)]
    more += [row(i, "unjudged", fault="infrastructure") for i in range(120, 130)]
    labels += [label(i, "LACKING") for i in range(100, 130)]
    assert contrast(labels, triage + more, QUICK, "t") == expected


def test_other_targets_are_not_mixed_in() -> None:
    labels, triage = worked_example()
    expected = contrast(labels, triage, QUICK, "t")
    triage += [row(i, "passed", target="u") for i in range(50)]
    labels += [label(i, "LACKING", target="u") for i in range(50)]
    assert contrast(labels, triage, QUICK, "t") == expected
    assert contrast(labels, triage, QUICK, "nowhere") == []


def test_undefined_stays_undefined() -> None:
    triage = [row(i, "passed" if i < 20 else "failed") for i in range(40)]
    labels = [label(i, "NA" if i < 20 else "LACKING") for i in range(40)]
    (result,) = contrast(labels, triage, QUICK, "t")
    assert result.er_failed == 1.0 and result.coverage == 1.0
    undefined = (
        result.er_passed,
        result.er_passed_low,
        result.gap,
        result.gap_low,
        result.p_value,
        result.q_value,
    )
    assert undefined == (None,) * 6
    (nothing,) = contrast([label(1, "NA")], [row(1, "failed", fault="environment")], QUICK, "t")
    assert (nothing.coverage, nothing.er_failed, nothing.n_failed, nothing.n_tasks) == (None, None, 0, 0)


def test_no_interval_from_one_task() -> None:
    triage = [row(i, "passed" if i % 2 else "failed", task="t/only") for i in range(40)]
    labels = [label(i, "PRESENT" if i % 2 else "LACKING") for i in range(40)]
    (result,) = contrast(labels, triage, QUICK, "t")
    assert result.gap == 1.0
    assert (result.gap_low, result.gap_high, result.coverage_low, result.n_tasks) == (None, None, None, 1)


def test_zero_error_in_successes_still_has_an_upper_bound() -> None:
    triage = [row(i, "passed" if i < 30 else "failed") for i in range(60)]
    labels = [label(i, "PRESENT" if i < 30 or i % 2 else "LACKING") for i in range(60)]
    (result,) = contrast(labels, triage, QUICK, "t")
    assert result.er_passed == 0 == result.er_passed_low
    assert result.er_passed_high is not None and 0.08 < result.er_passed_high < 0.16


def test_missing_labels_are_not_na() -> None:
    labels, triage = worked_example()
    (result,) = contrast(labels[:60], triage, QUICK, "t")
    assert (result.n_failed, result.coverage) == (10, 1.0)


def test_passes_are_reconciled_and_their_agreement_is_told() -> None:
    labels, triage = worked_example()
    flipped: dict[LabelValue, LabelValue] = {"LACKING": "PRESENT", "PRESENT": "LACKING"}
    second = [
        one.model_copy(
            update={"labelling_pass": 1, "label": flipped[one.label] if place % 10 == 0 else one.label}
        )
        for place, one in enumerate(labels)
    ]
    (result,) = contrast(labels + second, triage, QUICK, "t")
    assert result.alpha is not None and 0.7 < result.alpha < 0.9
    assert result.alpha_low is not None and result.alpha_high is not None
    assert result.alpha_low < result.alpha < result.alpha_high < 1
    (half,) = contrast(labels + second, triage, QUICK.model_copy(update={"confidence": 0.5}), "t")
    assert half.alpha_low is not None and half.alpha_low > result.alpha_low
    fewer = QUICK.model_copy(update={"resamples": QUICK.resamples // 2})
    (rougher,) = contrast(labels + second, triage, fewer, "t")
    assert rougher.alpha == result.alpha
    assert (rougher.alpha_low, rougher.alpha_high) != (result.alpha_low, result.alpha_high)
    assert result.n_failed_relevant == 45  # what the passes do not settle is no evidence either way
    assert result.n_failed == 45
    third = [one.model_copy(update={"labelling_pass": 2}) for one in labels]
    (settled,) = contrast(labels + second + third, triage, QUICK, "t")
    assert settled.n_failed_relevant == 50 and settled.er_failed == pytest.approx(0.70)


def test_trials_of_one_task_are_not_independent_evidence() -> None:
    def study(trials: int) -> tuple[list[Label], list[Triage]]:
        triage, labels = [], []
        for task in range(24):
            for trial in range(trials):
                number = task * 100 + trial
                triage.append(row(number, "failed" if task < 12 else "passed", task=f"t/{task}"))
                labels.append(label(number, "LACKING" if task < 8 or task in (12, 13, 14) else "PRESENT"))
        return labels, triage

    (one,), (ten,) = contrast(*study(1), QUICK, "t"), contrast(*study(10), QUICK, "t")
    assert one.gap == ten.gap
    assert ten.p_value == pytest.approx(one.p_value or 0, abs=0.03)
    assert one.gap_low is not None and one.gap_high is not None
    assert ten.gap_low is not None and ten.gap_high is not None
    assert ten.gap_high - ten.gap_low == pytest.approx(one.gap_high - one.gap_low, rel=0.1)


labellings = st.lists(
    st.tuples(st.integers(0, 5), st.booleans(), st.sampled_from(["NA", "PRESENT", "LACKING"])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=examples(50), deadline=None)
@given(labellings)
def test_figures_hold_together(rows: list[tuple[int, bool, LabelValue]]) -> None:
    triage = [
        row(i, "failed" if failed else "passed", task=f"t/{task}") for i, (task, failed, _) in enumerate(rows)
    ]
    labels = [label(i, value) for i, (_, _, value) in enumerate(rows)]
    (result,) = contrast(labels, triage, ContrastSection(resamples=100, permutations=100), "t")
    assert result.n_failed + result.n_passed == len(rows)
    assert (result.gap is None) == (0 in (result.n_failed_relevant, result.n_passed_relevant))
    for name in ("er_failed", "er_passed", "gap", "coverage"):
        value, low, high = (getattr(result, name + end) for end in ("", "_low", "_high"))
        if low is not None:
            assert -1 <= low <= value <= high <= 1
    if result.gap is not None:
        assert 0 < (result.p_value or 0) <= 1
        assert result.gap == pytest.approx((result.er_failed or 0) - (result.er_passed or 0))


def simulate(
    rng: np.random.Generator, tasks: int, trials: int, *, relevant: float, lack: float, hurt: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Plant a deficit: needed in some tasks, lacking more in some of them, each lack costing `hurt`."""
    needs = rng.random(tasks) < relevant
    proneness = rng.beta(2 * lack, 2 * (1 - lack), tasks)
    lacking = (rng.random((tasks, trials)) < proneness[:, None]) & needs[:, None]
    hardness = np.clip(rng.normal(0.4, 0.1, tasks), 0, 1)[:, None]
    failed = rng.random((tasks, trials)) < np.minimum(1.0, hardness + hurt * lacking)
    return np.broadcast_to(needs[:, None], lacking.shape), lacking, failed


def as_rows(needs: np.ndarray, lacking: np.ndarray, failed: np.ndarray) -> tuple[list[Label], list[Triage]]:
    labels, triage = [], []
    for task, trial in np.ndindex(*failed.shape):
        number = task * 10 + trial
        triage.append(row(number, "failed" if failed[task, trial] else "passed", task=f"t/{task:04}"))
        value: LabelValue = (
            "NA" if not needs[task, trial] else "LACKING" if lacking[task, trial] else "PRESENT"
        )
        labels.append(label(number, value))
    return labels, triage


@pytest.mark.ci
@pytest.mark.parametrize(
    ("tasks", "trials", "relevant", "lack", "hurt"),
    [
        (100, 2, 0.5, 0.4, 0.45),
        pytest.param(150, 2, 0.25, 0.5, 0.5, marks=pytest.mark.slow),
        pytest.param(110, 4, 0.4, 0.1, 0.55, marks=pytest.mark.slow),
    ],
)
def test_intervals_cover_what_they_should(
    tasks: int, trials: int, relevant: float, lack: float, hurt: float
) -> None:
    rng = np.random.default_rng(7)
    needs, lacking, failed = simulate(rng, 300_000, trials, relevant=relevant, lack=lack, hurt=hurt)
    er_failed = lacking[failed].sum() / needs[failed].sum()
    er_passed = lacking[~failed].sum() / needs[~failed].sum()
    truth = {
        "er_failed": er_failed,
        "er_passed": er_passed,
        "gap": er_failed - er_passed,
        "coverage": lacking[failed].sum() / failed.sum(),
    }
    studies, covered = 400, dict.fromkeys(truth, 0)
    section = ContrastSection(resamples=300, permutations=100)
    for _ in range(studies):
        drawn = simulate(rng, tasks, trials, relevant=relevant, lack=lack, hurt=hurt)
        (result,) = contrast(*as_rows(*drawn), section, "t")
        for name, value in truth.items():
            covered[name] += getattr(result, name + "_low") <= value <= getattr(result, name + "_high")
    shares = {name: count / studies for name, count in covered.items()}
    # 400 studies of a true 95 % show 92.9 to 97.1 % in 95 of 100 runs; near 0 it is on the safe side.
    assert all(share >= 0.92 for share in shares.values()), shares
    assert 0.92 <= shares["gap"] <= 0.985 and 0.92 <= shares["coverage"] <= 0.98, shares


def test_p_values_are_uniform_or_larger_without_an_effect() -> None:
    rng = np.random.default_rng(3)
    section = ContrastSection(resamples=100, permutations=200)
    p_values = []
    for _ in range(120):
        drawn = simulate(rng, 40, 2, relevant=0.7, lack=0.4, hurt=0.0)
        p_values.append(contrast(*as_rows(*drawn), section, "t")[0].p_value)
    small = sum(p is not None and p <= 0.1 for p in p_values) / len(p_values)
    assert 0.02 <= small <= 0.19


@pytest.mark.parametrize(("tasks", "trials", "rows"), [(12_500, 10, 8), (250_000, 4, 1), (1_000_000, 1, 1)])
def test_a_thousand_resamples_of_a_million_labels_take_seconds(tasks: int, trials: int, rows: int) -> None:
    matrix = random_matrix(tasks, trials, rows)
    start = time.process_time()
    counts = count_by_task(matrix)
    sums = resample_each(counts, 1000, 0)
    for row in range(rows):
        rates(counts[:, row], sums[:, row], 0.95)
    assert time.process_time() - start <= 20  # 0.2 to 1.5 on an idle core; one by one they take many minutes
