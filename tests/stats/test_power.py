from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.quick import examples
from trace_assets.stats.paired import mcnemar
from trace_assets.stats.power import GainDesign, GapDesign, gain_power, gain_tasks, gap_power, gap_tasks


@settings(max_examples=examples(60), deadline=None)
@given(
    st.floats(0.25, 0.7),
    st.floats(0.05, 0.25),
    st.floats(0.12, 0.3),
    st.floats(0.2, 0.8),
    st.integers(1, 6),
    st.floats(0, 1),
)
def test_power_rises_with_tasks_and_with_the_gap(
    gap: float, er_passed: float, coverage: float, pass_rate: float, trials: int, icc: float
) -> None:
    design = GapDesign(gap, er_passed, coverage, pass_rate, trials, icc)
    powers = [gap_power(design, tasks) for tasks in (20, 80, 320, 1280)]
    assert all(0 <= power <= 1 for power in powers)
    assert powers == sorted(powers)
    assume(gap <= 0.6)
    assert gap_power(replace(design, gap=gap + 0.1, coverage=coverage), 1280) >= powers[-1] - 0.05


def test_the_fewest_tasks_are_the_fewest() -> None:
    design = GapDesign(gap=0.35, coverage=0.2, trials=2)
    tasks = gap_tasks(design, 0.8)
    assert tasks is not None
    assert gap_power(design, tasks) >= 0.8 > gap_power(design, tasks - 1)


def test_a_gap_at_the_threshold_is_found_in_half_of_the_studies_at_most() -> None:
    design = GapDesign(gap=0.2)
    assert gap_power(design, 100_000) == pytest.approx(0.5, abs=0.01)
    assert gap_tasks(design, 0.8) is None


def test_trials_that_repeat_each_other_say_less() -> None:
    design = GapDesign(gap=0.35, coverage=0.2, trials=4, icc=0.0)
    assert gap_power(design, 60) > gap_power(replace(design, icc=0.6), 60)


@pytest.mark.parametrize("wrong", [{"gap": 0.95}, {"coverage": 0.9}, {"pass_rate": 1.0}, {"trials": 0}])
def test_designs_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        GapDesign(**{"gap": 0.3, **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"gain": 0.0}, {"gain": 0.7}, {"discordance": 0.01}, {"alpha": 0.0}])
def test_gains_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        GainDesign(**{"gain": 0.1, "base_rate": 0.4, **wrong})  # type: ignore[arg-type]


def test_the_published_difference_needs_hundreds_of_pairs() -> None:
    # 77 against 65 of 164 tasks at one trial: +7.3 points, unpaired 95 % interval -3.4 to +18.0.
    one, other = 77 / 164, 65 / 164
    se = sqrt((one * (1 - one) + other * (1 - other)) / 164)
    assert 100 * (one - other) == pytest.approx(7.3, abs=0.05)
    assert 100 * (one - other - 1.96 * se) == pytest.approx(-3.4, abs=0.05)
    assert 100 * (one - other + 1.96 * se) == pytest.approx(18.0, abs=0.05)
    # A fair comparison needs about 280 to 570 paired task-trials, at 20 to 40 % discordant pairs.
    few = gain_tasks(GainDesign(one - other, other, discordance=0.19, trials=1))
    many = gain_tasks(GainDesign(one - other, other, discordance=0.39, trials=1))
    assert few == pytest.approx(280, abs=10) and many == pytest.approx(570, abs=10)


def test_planned_gain_is_reached() -> None:
    design = GainDesign(gain=0.08, base_rate=0.4, discordance=0.3, trials=1)
    tasks = gain_tasks(design, 0.8)
    assert tasks is not None
    rng = np.random.default_rng(0)
    up, down = (0.3 + 0.08) / 2, (0.3 - 0.08) / 2
    counts = rng.multinomial(tasks, [up, down, 1 - up - down], size=800)
    found = np.mean([mcnemar(int(b), int(c)) <= 0.05 for c, b, _ in counts])
    assert found == pytest.approx(0.8, abs=0.06)  # 4 standard errors; the exact test is a little shy
    assert gain_power(design, tasks) >= 0.8
