"""What a stage shows of its result, and the rates that it shows by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trace_assets.report import figures
from trace_assets.report.drawing import svg_markdown
from trace_assets.report.plots import Dot, interval_dots
from trace_assets.statistics.bootstrap import Estimate
from trace_assets.statistics.paired import pass_rate

Row = dict[str, int | float | str | bool | None]

MOST_GROUPS = 16
"""Groups a plot: more are not read."""
RESAMPLES = 500
"""Bootstrap draws for figures that nothing is decided on."""


@dataclass(frozen=True)
class Exhibit:
    """Plots and long text as Markdown by title; small tables by title, all rows with the same columns."""

    pages: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """A share of trials with its interval over tasks, and what it rests on."""

    name: str
    estimate: Estimate
    n_tasks: int
    n_trials: int

    @property
    def words(self) -> str:
        """The share in words, such as `47.3 % [43.1, 51.6]`."""
        return figures.percent(self.estimate.value, self.estimate.low, self.estimate.high)


def shares(trials: Mapping[str, Iterable[tuple[str, bool]]]) -> list[Share]:
    """Return the share of trials that hold, for each group, every task weighing the same.

    Args:
        trials: Group to its trials: task id, and whether it holds.

    >>> [(one.name, one.estimate.value, one.n_tasks) for one in shares({"a": [("x", True), ("y", False)]})]
    [('a', 0.5, 2)]
    """
    found = []
    for name, group in trials.items():
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for task, holds in group:
            counts[task][0] += bool(holds)
            counts[task][1] += 1
        held = np.array([one[0] for one in counts.values()], dtype=np.int64)
        of = np.array([one[1] for one in counts.values()], dtype=np.int64)
        found.append(Share(name, pass_rate(held, of, resamples=RESAMPLES), len(counts), int(of.sum())))
    return found


def share_plot(groups: Sequence[Share], title: str, reference: float | None = None) -> str:
    """Return shares as a Markdown image, n beside each; groups without a figure are left out."""
    shown = [one for one in groups if one.estimate.value is not None][:MOST_GROUPS]
    dots = [
        Dot(
            label=one.name,
            value=one.estimate.value or 0.0,
            low=one.estimate.low if one.estimate.low is not None else one.estimate.value or 0.0,
            high=one.estimate.high if one.estimate.high is not None else one.estimate.value or 0.0,
            text=f"{one.words}, n = {one.n_trials:,}",
            note=f"{figures.count(one.n_tasks, 'task')}, {figures.count(one.n_trials, 'trial')}",
        )
        for one in shown
    ]
    left = len(groups) - len(shown)
    note = f" {left} more groups are in the table." if left else ""
    plot = svg_markdown(interval_dots(dots, title=title, reference=reference), title)
    return f"{plot}\n\n95 % intervals from a bootstrap over tasks; n counts trials.{note}"
