"""How pass rates differ between seeds: a beta-binomial fitted to counts, and what it says of groups.

Rollouts of one seed share its difficulty. With a seed's pass rate p drawn from Beta(a, b), k of its n
rollouts pass with the beta-binomial probability (Skellam 1948, "A probability distribution derived from the
binomial distribution by regarding the probability of success as variable between the sets of trials", JRSS B
10:257). The two parameters are given here as the mean a / (a + b) and the intraclass correlation
1 / (a + b + 1), which is 0 where all seeds are equally hard and 1 where each always passes or always fails.

The likelihood is maximised on a grid and then by zooming in: a grid of log-probabilities serves the estimate
and all resamples by one matrix product, and there is no iteration that could fail to converge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Method = Literal["maximum likelihood", "one side only", "single rollouts"]

LOW_ICC, HIGH_ICC = 1e-4, 0.999
"""Bounds of the intraclass correlation: at the lower one the fit is as good as a binomial."""
_LOGIT_MEAN = np.linspace(-7.0, 7.0, 141)
_LOGIT_ICC = np.linspace(np.log(LOW_ICC / (1 - LOW_ICC)), np.log(HIGH_ICC / (1 - HIGH_ICC)), 66)
_ZOOMS = 12


@dataclass(frozen=True)
class BetaFit:
    """A Beta distribution of pass rates over seeds.

    Attributes:
        mean: Pass rate of a seed drawn at random, in (0, 1).
        icc: Intraclass correlation, in [`LOW_ICC`, `HIGH_ICC`].
        n_seeds: Seeds with at least one rollout.
        n_rollouts: Their rollouts.
        method: `maximum likelihood`; `one side only` where no rollout (or every one) passed, so that nothing
            is known of differences: the mean is then (passed + 1/2) / (rollouts + 1) and the correlation the
            least; `single rollouts` where no seed has two, so that it cannot be told from luck: the mean is
            the pass rate and the correlation the least.
    """

    mean: float
    icc: float
    n_seeds: int
    n_rollouts: int
    method: Method = "maximum likelihood"

    @property
    def alpha(self) -> float:
        """First parameter of the Beta distribution."""
        return self.mean * (1 / self.icc - 1)

    @property
    def beta(self) -> float:
        """Second parameter of the Beta distribution."""
        return (1 - self.mean) * (1 / self.icc - 1)


def fit(passed: Ints, tried: Ints) -> BetaFit:
    """Fit a beta-binomial to counts by maximum likelihood.

    Args:
        passed: Rollouts that passed, shape `(seeds,)`.
        tried: Rollouts that were judged, shape `(seeds,)`; seeds with none take no part.

    Returns:
        The fit; `BetaFit.method` says where the data leave the likelihood without a maximum, and what is
        given there instead.

    Raises:
        ValueError: No seed has a rollout, or a count does not fit its number of rollouts.

    >>> found = fit(np.array([0, 8, 4, 4]), np.full(4, 8))
    >>> 0.4 < found.mean < 0.6, found.icc > 0.2
    (True, True)
    >>> fit(np.array([0, 0]), np.array([8, 8])).method
    'one side only'
    """
    passed, tried = np.asarray(passed, dtype=np.int64), np.asarray(tried, dtype=np.int64)
    if passed.shape != tried.shape or (passed < 0).any() or (passed > tried).any():
        raise ValueError("each seed needs between 0 and its number of rollouts passed")
    passed, tried = passed[tried > 0], tried[tried > 0]
    if not len(tried):
        raise ValueError("there is no seed with a rollout to fit")
    n_seeds, rollouts, total = len(tried), int(tried.sum()), int(passed.sum())
    if total in (0, rollouts):
        return BetaFit((total + 0.5) / (rollouts + 1), LOW_ICC, n_seeds, rollouts, "one side only")
    if tried.max() == 1:
        return BetaFit(total / rollouts, LOW_ICC, n_seeds, rollouts, "single rollouts")
    # Seeds with equal counts have equal likelihoods: a hundred seeds come to a dozen cells.
    cells, times = np.unique(np.stack([passed, tried]), axis=1, return_counts=True)
    likelihood = _grid_table(_key(cells)) @ times
    best = int(likelihood.argmax())
    middle = np.array([_LOGIT_MEAN[best // len(_LOGIT_ICC)], _LOGIT_ICC[best % len(_LOGIT_ICC)]])
    reach = np.array([_LOGIT_MEAN[1] - _LOGIT_MEAN[0], _LOGIT_ICC[1] - _LOGIT_ICC[0]])
    # In logits both bounds are far away and the likelihood is smooth, so halving around the best point is
    # safe.
    for _ in range(_ZOOMS):
        means = middle[0] + reach[0] * np.linspace(-1, 1, 7)
        iccs = np.clip(middle[1] + reach[1] * np.linspace(-1, 1, 7), _LOGIT_ICC[0], _LOGIT_ICC[-1])
        found = int((_table(means, iccs, cells) @ times).argmax())
        middle, reach = np.array([means[found // 7], iccs[found % 7]]), reach / 2
    mean, icc = (float(value) for value in _unlogit(middle))
    return BetaFit(mean, min(HIGH_ICC, max(LOW_ICC, icc)), n_seeds, rollouts)


def all_pass(found: BetaFit, k: int) -> float:
    """Return the probability that k rollouts of a seed all pass: E[p^k] = prod (a + i) / (a + b + i), i < k.

    >>> round(all_pass(BetaFit(0.5, LOW_ICC, 1, 8), 3), 3)  # equally hard seeds: 0.5 ** 3
    0.125
    >>> round(all_pass(BetaFit(0.5, HIGH_ICC, 1, 8), 3), 2)  # seeds that always or never pass
    0.5
    """
    i = np.arange(k)
    return float(np.prod((found.alpha + i) / (found.alpha + found.beta + i)))


def dead_share(found: BetaFit, k: int) -> float:
    """Return the share of groups of k rollouts of a seed with one outcome: E[p^k] + E[(1 - p)^k].

    >>> round(1 - dead_share(BetaFit(0.05, LOW_ICC, 1, 8), 16), 2)  # as 1 - p^k - (1 - p)^k says
    0.56
    """
    failing = BetaFit(1 - found.mean, found.icc, found.n_seeds, found.n_rollouts, found.method)
    return all_pass(found, k) + all_pass(failing, k)


def group_size_for(found: BetaFit, signal: float, most: int = 128) -> int | None:
    """Return the smallest group in which a wanted share of groups holds both outcomes.

    Args:
        found: The fit.
        signal: Wanted share of groups with both outcomes, in (0, 1).
        most: Largest group to consider.

    Returns:
        The number of rollouts a group; None when no group up to `most` reaches it, as where too many seeds
        never pass.

    >>> group_size_for(BetaFit(0.05, LOW_ICC, 1, 8), 0.5)
    14
    >>> group_size_for(BetaFit(0.05, 0.9, 1, 8), 0.5) is None
    True
    """
    return next((k for k in range(2, most + 1) if 1 - dead_share(found, k) >= signal), None)


def resampled_all_pass(passed: Ints, tried: Ints, weights: Floats, k: int) -> Floats:
    """Return `all_pass` of the fit to each resample of seeds, to the grid's precision.

    Args:
        passed: Rollouts that passed, shape `(rows,)`: one row a seed, or a kind of seed.
        tried: Rollouts, all at least 1, same shape.
        weights: How often each row was drawn, shape `(resamples, rows)`.
        k: Rollouts a group.

    Returns:
        Shape `(resamples,)`.
    """
    best, total, rollouts = _resampled(passed, tried, weights)
    found = _grid_all_pass(k)[best]
    for one in np.flatnonzero((total == 0) | (total == rollouts)):
        found[one] = all_pass(BetaFit(float((total[one] + 0.5) / (rollouts[one] + 1)), LOW_ICC, 1, 1), k)
    return found


def resampled_icc(passed: Ints, tried: Ints, weights: Floats) -> Floats:
    """Return the intraclass correlation of the fit to each resample; see `resampled_all_pass`."""
    best, total, rollouts = _resampled(passed, tried, weights)
    found = _unlogit(_LOGIT_ICC)[best % len(_LOGIT_ICC)]
    found[(total == 0) | (total == rollouts)] = LOW_ICC
    return found


def _resampled(passed: Ints, tried: Ints, weights: Floats) -> tuple[Ints, Floats, Floats]:
    """Return the likeliest grid point of each resample, and its rollouts that passed and all."""
    cells, cell = np.unique(np.stack([passed, tried]), axis=1, return_inverse=True)
    times = np.zeros((len(weights), cells.shape[1]))
    for row, place in enumerate(np.ravel(cell)):
        times[:, place] += weights[:, row]
    # Few seeds make few kinds of resamples.
    kinds, kind = np.unique(times, axis=0, return_inverse=True)
    table, best = _grid_table(_key(cells)), np.empty(len(kinds), dtype=np.int64)
    for start in range(0, len(kinds), 256):
        part = slice(start, start + 256)
        best[part] = (table @ kinds[part].T).argmax(axis=0)
    return best[np.ravel(kind)], times @ cells[0], times @ cells[1]


def _key(cells: Ints) -> tuple[tuple[int, int], ...]:
    return tuple((int(k), int(n)) for k, n in cells.T)


@lru_cache(maxsize=32)
def _grid_table(cells: tuple[tuple[int, int], ...]) -> Floats:
    return _table(_LOGIT_MEAN, _LOGIT_ICC, np.array(cells, dtype=np.int64).T)


@lru_cache(maxsize=32)
def _grid_all_pass(k: int) -> Floats:
    alpha, beta = _parameters(_LOGIT_MEAN, _LOGIT_ICC)
    return np.asarray(np.exp(_rising(alpha, k)[:, k] - _rising(alpha + beta, k)[:, k]))


def _table(means: Floats, iccs: Floats, cells: Ints) -> Floats:
    """Return log-probabilities up to a constant of each cell, shape `(means x iccs, cells)`."""
    alpha, beta = _parameters(means, iccs)
    most = int(cells[1].max())
    up, down, both = _rising(alpha, most), _rising(beta, most), _rising(alpha + beta, most)
    return np.asarray(up[:, cells[0]] + down[:, cells[1] - cells[0]] - both[:, cells[1]])


def _parameters(means: Floats, iccs: Floats) -> tuple[Floats, Floats]:
    mean, icc = (grid.ravel() for grid in np.meshgrid(_unlogit(means), _unlogit(iccs), indexing="ij"))
    size = 1 / icc - 1
    return mean * size, (1 - mean) * size


def _rising(x: Floats, most: int) -> Floats:
    """Return log x (x + 1) ... (x + j - 1) for j = 0..most, shape `(len(x), most + 1)`."""
    steps = np.log(x[:, None] + np.arange(most))
    return np.concatenate([np.zeros((len(x), 1)), np.cumsum(steps, axis=1)], axis=1)


def _unlogit(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))
