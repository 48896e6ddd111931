"""What a pilot decides: an environment whose reward buys nothing is stopped, and seldom another one."""

from __future__ import annotations

import numpy as np
import pytest

from trace_assets.environments.learnability import MIN_TASKS, decide
from trace_assets.stats.paired import Gain, gain


def around(value: float, half: float, n: int = 64) -> Gain:
    return Gain(value, value - half, value + half, 0.01, n)


UP = around(0.40, 0.10)


@pytest.mark.parametrize(
    ("synthetic", "target", "outcome", "words"),
    [
        (UP, around(0.3, 0.1), "transfers", "both rise"),
        (UP, around(-0.2, 0.1), "stopped", "falls"),
        (UP, around(0.0, 0.08), "stopped", "does not follow"),
        (UP, around(0.0, 0.12), "undecided", "cannot be told"),
        (UP, around(0.08, 0.12), "undecided", "cannot be told"),
        (around(0.05, 0.10), around(-0.3, 0.1), "undecided", "not shown to have risen"),
        (around(0.05, 0.10), around(0.3, 0.1), "undecided", "not shown to have risen"),
        (UP, around(-0.5, 0.1, n=MIN_TASKS - 1), "undecided", "too few"),
        (UP, None, "undecided", "only 0"),
    ],
)
def test_each_rule(synthetic: Gain, target: Gain | None, outcome: str, words: str) -> None:
    decision = decide(synthetic, target, 0.25)
    assert decision.outcome == outcome
    assert words in decision.reason


def test_all_kinds_of_tasks_stop_only_what_harms() -> None:
    assert decide(UP, around(0.0, 0.08), 0.25, needed=False).outcome == "undecided"
    assert decide(UP, around(-0.2, 0.1), 0.25, needed=False).outcome == "stopped"


def share_of(outcome: str, target_gain: float, studies: int = 200) -> float:
    """Simulate pilots with 64 seeds and 48 tasks whose reward gains 0.4."""
    found = 0
    for seed in range(studies):
        rng = np.random.default_rng(seed)
        reward = (rng.random(64) < 0.7).astype(float) - (rng.random(64) < 0.3)
        target = (rng.random(48) < 0.3 + target_gain).astype(float) - (rng.random(48) < 0.3)
        found += decide(gain(reward, resamples=300), gain(target, resamples=300), 0.25).outcome == outcome
    return found / studies


def test_how_often_it_errs() -> None:
    """The figures that docs/learnability.md gives."""
    assert share_of("stopped", 0.10) <= 0.05, "at a transfer of a quarter, the rule's bound"
    assert share_of("stopped", 0.40) == 0.0
    assert share_of("transfers", 0.40) >= 0.95
    assert share_of("transfers", 0.0) <= 0.05
    assert share_of("stopped", -0.25) >= 0.85
