"""One measured figure beside its target."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Figure:
    """One row of the benchmark.

    Attributes:
        name: What was measured.
        unit: Of all values of the row.
        n: Measurements behind it.
        p50: Their median.
        p95: Their 95th percentile; of a single measurement, itself.
        target: What it should come to; None for what is only compared with.
        judged: Which of the two the target is held against.
        at_most: Whether less is better.
    """

    name: str
    unit: str
    n: int
    p50: float
    p95: float
    target: float | None = None
    judged: Literal["p50", "p95"] = "p50"
    at_most: bool = True

    @property
    def hit(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        value = getattr(self, self.judged)
        return bool(value <= self.target if self.at_most else value >= self.target)

    def cells(self) -> list[str]:
        """The row in words: name, unit, n, p50, p95, target, outcome."""
        target, outcome = "", ""
        if self.target is not None:
            target = f"{'<=' if self.at_most else '>='} {self.target:g} ({self.judged})"
            outcome = "hit" if self.hit else "miss"
        return [self.name, self.unit, str(self.n), _short(self.p50), _short(self.p95), target, outcome]


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie: the nearest one that was measured.

    >>> quantile([3.0, 1.0, 2.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figure(
    name: str,
    unit: str,
    values: Sequence[float],
    target: float | None = None,
    judged: Literal["p50", "p95"] = "p50",
    *,
    at_most: bool = True,
) -> Figure:
    """Make a row of measured values, all in `unit`."""
    return Figure(
        name, unit, len(values), quantile(values, 0.5), quantile(values, 0.95), target, judged, at_most
    )


def seconds(repeat: int, action: Callable[[], object]) -> list[float]:
    """Wall seconds of each of `repeat` calls."""
    taken = []
    for _ in range(repeat):
        began = time.perf_counter()
        action()
        taken.append(time.perf_counter() - began)
    return taken


def scaled(values: Sequence[float], factor: float) -> list[float]:
    """Every value times `factor`, to change its unit."""
    return [value * factor for value in values]
