"""What SciPy computes is what was computed by hand before it, within rounding."""

from __future__ import annotations

import subprocess
import sys
from math import exp, lgamma
from statistics import NormalDist

import numpy as np
import pytest

from trace_assets.stats.intervals import student_t
from trace_assets.stats.power import _beta_binomial
from trace_assets.stats.tests import hypergeometric_pmf


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize(("degrees", "within"), [(3, 0.035), (10, 5e-4), (49, 1e-6), (199, 5e-9)])
def test_student_t_is_the_expansion_that_stood_here(degrees: int, within: float, confidence: float) -> None:
    """The expansion (Abramowitz and Stegun 26.7.5) was 0.7 % too short at three degrees for 95 %."""
    z, v = NormalDist().inv_cdf(0.5 + confidence / 2), float(degrees)
    expansion = (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )
    assert student_t(confidence, degrees) == pytest.approx(expansion, rel=within)


@pytest.mark.parametrize(("good", "bad", "draws"), [(2, 3, 2), (30, 70, 20), (500, 900, 300), (0, 4, 2)])
def test_the_hypergeometric_is_that_of_summed_logarithms(good: int, bad: int, draws: int) -> None:
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, good + bad + 1)))])

    def ways(n: int, k: int) -> float:
        return float(logs[n] - logs[k] - logs[n - k]) if 0 <= k <= n else -np.inf

    counts = range(min(good, draws) + 1)
    before = [exp(ways(good, k) + ways(bad, draws - k) - ways(good + bad, draws)) for k in counts]
    assert hypergeometric_pmf(good, bad, draws) == pytest.approx(before, rel=1e-9)


@pytest.mark.parametrize("icc", [0.05, 0.3, 0.9])
@pytest.mark.parametrize(("n", "mean"), [(2, 0.1), (4, 0.5), (16, 0.83)])
def test_the_beta_binomial_is_that_of_gamma_functions(n: int, mean: float, icc: float) -> None:
    size = 1 / icc - 1
    before = [
        exp(
            lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1)
            + lgamma(i + mean * size) + lgamma(n - i + (1 - mean) * size) - lgamma(n + size)
            + lgamma(size) - lgamma(mean * size) - lgamma((1 - mean) * size)
        )
        for i in range(n + 1)
    ]  # fmt: skip
    assert _beta_binomial(n, mean, icc) == pytest.approx(before, rel=1e-11)


def test_commands_start_without_scipy() -> None:
    code = "import sys, trace_assets.cli.main; print([one for one in sys.modules if one.startswith('scipy')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
