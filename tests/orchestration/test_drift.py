"""Drift is seen where it is, not where it is not, and every figure carries its n and interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulations import simulation_file

from trace_assets.assets.capability_dictionary import discover
from trace_assets.assets.contrast import newest_batches, write_drift
from trace_assets.assets.labels import label_batch, write_batch_capabilities
from trace_assets.assets.trajectories import write_batch, write_tasks
from trace_assets.assets.triage import triage_batch
from trace_assets.diagnosis.stability import change, drift, simultaneous_confidence
from trace_assets.records import Drift, Label, Triage
from trace_assets.settings import ContrastSection
from trace_assets.stats.intervals import Estimate, wilson
from trace_assets.study import Study
from trace_assets.workflows.watch import look, pending

SECTION = ContrastSection(resamples=200, permutations=100)


# Rates and gaps of up to a million trials: of closer ones the squares are nothing.
shares = st.integers(-(10**6), 10**6).map(lambda millionths: millionths / 1e6)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, value, high = sorted(draw(st.lists(shares, min_size=3, max_size=3)))
    return Estimate(value, low, high)


@given(estimates(), estimates())
def test_a_change_back_is_the_change_turned_over(one: Estimate, other: Estimate) -> None:
    there, back = change(one, other), change(other, one)
    assert there.value is not None and there.low is not None and there.high is not None
    assert back.value is not None and back.low is not None and back.high is not None
    assert there.low <= there.value <= there.high
    assert np.isclose(there.low, -back.high) and np.isclose(there.value, -back.value)


@given(estimates(), estimates())
def test_overlapping_by_more_than_the_points_is_no_change(one: Estimate, other: Estimate) -> None:
    moved = change(one, other)
    assert None not in (one.low, one.high, other.low, other.high, one.value, other.value, moved.low)
    if one.low <= other.value <= one.high:  # type: ignore[operator]
        assert moved.low <= 1e-12 and moved.high >= -1e-12  # type: ignore[operator]
    if one.high < other.low or other.high < one.low:  # type: ignore[operator]
        assert moved.low > 0 or moved.high < 0  # type: ignore[operator]


@given(st.floats(0.5, 0.999), st.integers(1, 500))
def test_confidence_of_one_and_of_all(confidence: float, comparisons: int) -> None:
    one = simultaneous_confidence(confidence, comparisons)
    assert confidence <= one < 1
    assert np.isclose(comparisons * (1 - one), 1 - confidence)


def test_the_interval_of_a_change_covers() -> None:
    """Two rates of 0.9 and 0.7 on 60 and 40 trials: near 95 % of studies, not fewer than 93."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(2000):
        a, b = int(rng.binomial(60, 0.9)), int(rng.binomial(40, 0.7))
        moved = change(Estimate(a / 60, *wilson(a, 60)), Estimate(b / 40, *wilson(b, 40)))
        assert moved.low is not None and moved.high is not None
        covered += moved.low <= -0.2 <= moved.high
    assert 0.93 <= covered / 2000 <= 0.98


def study_of(
    seed: int, n: int, lack_failed: float, lack_passed: float, prefix: str
) -> tuple[list[Label], list[Triage]]:
    """Half of `n` tasks fail; the capabilities a and b are lacking at the given rates, `b` always at 0.5."""
    rng = np.random.default_rng(seed)
    labels, triage = list[Label](), list[Triage]()
    for number in range(n):
        failed = number % 2 == 0
        name = f"{prefix}{number}"
        triage.append(
            Triage(
                trajectory_id=name,
                target="t",
                task_id=name,
                outcome="failed" if failed else "passed",
                fault="agent" if failed else None,
                rule="r",
            )
        )
        for capability, rate in (("a", lack_failed if failed else lack_passed), ("b", 0.5)):
            label = "LACKING" if rng.random() < rate else "PRESENT"
            labels.append(
                Label(trajectory_id=name, capability_id=capability, labeller="detectors", label=label)  # type: ignore[arg-type]
            )
    return labels, triage


def compare(seed: int, *, now: float) -> list[Drift]:
    old_labels, old_triage = study_of(seed, 160, 0.9, 0.1, "old")
    new_labels, new_triage = study_of(seed + 10_000, 80, now, 0.1, "new")
    new = {row.trajectory_id for row in new_triage}
    return drift([*old_labels, *new_labels], [*old_triage, *new_triage], SECTION, "t", "batch", new)


def test_what_moved_is_named_with_its_figures() -> None:
    rows = {(row.capability_id, row.measure): row for row in compare(1, now=0.2)}
    assert set(rows) == {("a", "gap"), ("a", "coverage"), ("b", "gap"), ("b", "coverage")}
    gap = rows["a", "gap"]
    assert gap.drifted and gap.change is not None and gap.change < -0.4
    assert (gap.n_before, gap.n_now) == (160, 80) and rows["a", "coverage"].n_now == 40
    assert gap.confidence == pytest.approx(1 - 0.05 / 4)
    assert gap.now_low is not None and gap.now is not None and gap.now_low < gap.now
    assert not rows["b", "gap"].drifted and not rows["b", "coverage"].drifted


def test_nothing_moved_is_rarely_called_drift() -> None:
    alarms = sum(any(row.drifted for row in compare(seed, now=0.9)) for seed in range(100, 160))
    assert alarms <= 6  # 5 % of 60 are expected at most; 7 or more have a chance below 4 %


def test_too_little_data_is_no_drift_and_no_figure() -> None:
    old_labels, old_triage = study_of(1, 40, 0.9, 0.1, "old")
    new_labels, new_triage = study_of(2, 1, 0.1, 0.1, "new")
    rows = drift([*old_labels, *new_labels], [*old_triage, *new_triage], SECTION, "t", "batch", {"new0"})
    assert rows and not any(row.drifted for row in rows)
    assert all(row.change_low is None for row in rows)
    assert drift(old_labels, old_triage, SECTION, "t", "batch", {"elsewhere"}) == []


def test_the_stage_compares_what_arrived_last_and_warns(tmp_path: Path) -> None:
    study = Study.open(tmp_path, None, ["watch.settle_seconds=0", "contrast.resamples=200"])
    folder = tmp_path / "watch" / "trajectories"
    folder.mkdir(parents=True)
    assert newest_batches(study) == {}
    result = write_drift(study)
    assert result.rows == 0 and result.checks[0].passed and "Nothing to compare" in result.checks[0].detail
    arrived = []
    for name, lacking in (("one", 30), ("two", 30), ("three", 0)):
        simulation_file(folder / f"{name}.json", name, n=60, lacking=lacking, failing=30)
        look(study, "trajectories")
        (one,) = pending(study)
        arrived.append(one.batch)
        write_tasks(study, one.batch)
        write_batch(study, one.batch)
        triage_batch(study, one.batch)
        discover(study)
        for batch in arrived:
            write_batch_capabilities(study, batch)
            label_batch(study, batch)
        result = write_drift(study)
        assert newest_batches(study) == {"tau2:desk": one.batch}
        (check,) = result.checks
        assert check.passed is (name != "three"), check.detail
    assert check.severity == "warning" and "n = 120" in check.detail and arrived[-1] in check.detail
    moved = [row for row in study.store.read(Drift) if row.drifted]
    assert {row.measure for row in moved} == {"gap", "coverage"}
