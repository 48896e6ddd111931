"""What a pilot says: whether the environment's reward buys anything on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trace_assets.statistics.transfer import Gain

Outcome = Literal["transfers", "undecided", "stopped"]

MIN_TASKS = 8
"""Target tasks below which nothing is decided."""


@dataclass(frozen=True)
class Decision:
    """What a pilot came to.

    Attributes:
        outcome: `stopped` keeps the full run from being made.
        reason: One sentence with the figures.
    """

    outcome: Outcome
    reason: str


def decide(synthetic: Gain, target: Gain | None, min_transfer: float, *, needed: bool = True) -> Decision:
    """Decide whether the full run is made.

    Both gains are last checkpoint minus base model, on the same seeds and tasks. In this order:

    1. fewer than `MIN_TASKS` target tasks: undecided;
    2. the lower end of the reward's gain is not above 0: undecided, so short a training moved nothing;
    3. the upper end of the target's gain is below 0: stopped;
    4. the lower end of the target's gain is above 0: transfers;
    5. the upper end of the target's gain is below `min_transfer` of the reward's gain: stopped. The reward
       rises and the target does not follow;
    6. else undecided: too few rollouts or tasks to tell.

    At a true gain of `min_transfer` of the reward's or more, rule 5 stops wrongly in at most one of 40 pilots
    (the interval's upper tail). What is not decided goes on: a pilot is small, and a wrong stop costs more
    than a run that the adapter's own validation will judge.

    Args:
        synthetic: Of the reward in the environment, by seed.
        target: Of the pass rate on the target, by task; None where no task was found.
        min_transfer: Share of the reward's gain that the target must be able to show, in [0, 1].
        needed: Whether the tasks are known to need the capability. Where they are all kinds of tasks a gain
            on the few that need it drowns in the others: rule 5 is left out.

    >>> up, flat = Gain(0.4, 0.3, 0.5, 0.001, 64), Gain(0.0, -0.05, 0.05, 1.0, 64)
    >>> decide(up, up, 0.25).outcome, decide(up, flat, 0.25).outcome, decide(flat, flat, 0.25).outcome
    ('transfers', 'stopped', 'undecided')
    """
    if target is None or target.n < MIN_TASKS:
        n = 0 if target is None else target.n
        return Decision("undecided", f"only {n} of the target's tasks need it, which is too few to tell")
    figures = f"reward {_words(synthetic, 'seeds')}, target {_words(target, 'tasks')}"
    if synthetic.low <= 0:
        return Decision("undecided", f"the reward is not shown to have risen: {figures}")
    if target.high < 0:
        return Decision("stopped", f"the reward rises and the target's pass rate falls: {figures}")
    if target.low > 0:
        return Decision("transfers", f"both rise: {figures}")
    if needed and target.high < min_transfer * synthetic.value:
        return Decision(
            "stopped",
            f"the reward rises and the target's pass rate does not follow, not even by {min_transfer:.0%} of "
            f"it: {figures}",
        )
    return Decision("undecided", f"the reward rises; whether the target follows cannot be told: {figures}")


def _words(found: Gain, noun: str) -> str:
    return (
        f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}] (n = {found.n} {noun}, p = {found.p:.2g})"
    )
