"""One look before the last world: by which level a difference counts there, and what that costs at the end.

O'Brien and Fleming's boundaries (Biometrics 35, 1979): with z_k the statistic when a share t_k of the worlds
is played, a look shows a difference where |z_k| sqrt(t_k) >= c, with one c for both looks such that either is
so by chance as often as the level says. An early look has to be far clearer than the last one.
"""

from __future__ import annotations

from math import sqrt


def sequential_p(p: float | None, share: float, look: float) -> float | None:
    """Return a p-value that counts both looks: the chance that either would be as clear as this one.

    Args:
        p: Two-sided, of what is played so far; by the t distribution, taken as that of a normal statistic.
        share: Of the worlds that are played: `look`, or 1 at the end.
        look: At which share the look before the last is taken, in (0, 1).

    >>> round(sequential_p(0.0052, 0.5, 0.5), 3), round(sequential_p(0.048, 1.0, 0.5), 3)
    (0.05, 0.05)
    >>> sequential_p(None, 1.0, 0.5) is None
    True
    """
    from scipy.special import ndtri
    from scipy.stats import multivariate_normal

    if p is None:
        return None
    if p <= 0:
        return 0.0
    bound = -float(ndtri(p / 2)) * sqrt(share)
    first, last, together = bound / sqrt(look), bound, sqrt(look)
    box = multivariate_normal([0.0, 0.0], [[1.0, together], [together, 1.0]])
    inside = box.cdf([first, last], lower_limit=[-first, -last])
    return min(1.0, max(p, 1.0 - float(inside)))


def level_at(alpha: float, share: float, look: float) -> float:
    """Return at which level of its own a look is taken, so that both together have the level `alpha`.

    Args:
        alpha: Of both, in (0, 1).
        share: Of the worlds that are played.
        look: At which share the look before the last is taken.

    >>> round(level_at(0.05, 0.5, 0.5), 4), round(level_at(0.05, 1.0, 0.5), 4)
    (0.0052, 0.048)
    """
    from scipy.optimize import brentq

    return float(brentq(lambda p: (sequential_p(p, share, look) or 0.0) - alpha, 1e-200, alpha))
