"""Policy gradients compared: what is orthogonal, what is opposed, what is too uncertain to say."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from trace_assets.training.interference import (
    Measured,
    Part,
    by_condition,
    condition_of,
    measure,
    opposed_pairs,
    pairs_of,
    parts_of,
    unbranched,
)


def around(direction: list[float], *, noise: float = 0.05, groups: int = 8, seed: int = 0) -> Measured:
    rng = np.random.default_rng(seed)
    centre = np.array(direction)
    return Measured(centre + noise * rng.normal(size=(groups, len(direction))), groups * 4, groups * 8)


def verdicts(measured: dict[Part, Measured]) -> dict[tuple[str, str], str]:
    return {(row.capability_id, row.other_id): row.verdict for row in pairs_of(measured) if not row.condition}


def test_orthogonal_aligned_and_opposed_capabilities_are_told_apart() -> None:
    measured = {
        Part("a", "x"): around([1, 0, 0], seed=1),
        Part("b", "x"): around([0, 1, 0], seed=2),
        Part("c", "x"): around([-1, 0, 0], seed=3),
        Part("d", "x"): around([0, 1, 0], seed=4),
    }
    found = verdicts(measured)
    assert found["a", "b"] == "orthogonal" and found["a", "c"] == "opposed" and found["b", "d"] == "aligned"
    why = opposed_pairs(pairs_of(measured))
    assert set(why) == {frozenset("ac")} and "refused" in why[frozenset("ac")]


def test_opposed_conditions_refuse_what_whole_gradients_hide() -> None:
    # Each capability's own conditions cancel the other's in the mean.
    measured = {
        Part("a", "open"): around([1, 0, 0.0], seed=1),
        Part("a", "closed"): around([0, 0, 1.0], seed=2),
        Part("b", "open"): around([-1, 0, 0.0], seed=3),
        Part("b", "closed"): around([0.0, 0, 1.0], seed=4),
    }
    whole = next(row for row in pairs_of(measured) if not row.condition)
    assert abs(whole.cosine or 0.0) < 0.5 and whole.verdict == "opposed"
    assert "'open' of one and 'open' of the other" in whole.reason


def test_noise_decides_nothing() -> None:
    noise = {
        Part("a", "x"): around([0.0] * 40, noise=1.0, seed=1),
        Part("b", "x"): around([0.0] * 40, noise=1.0, seed=2),
    }
    assert verdicts(noise) == {("a", "b"): "unclear"} and not opposed_pairs(pairs_of(noise))
    dead = {Part("a", "x"): Measured(np.zeros((8, 3)), 64, 64), Part("b", "x"): around([1, 0, 0])}
    row = pairs_of(dead)[-1]
    assert row.verdict == "unclear" and "no gradient" in row.reason
    assert [part.live_groups for part in parts_of(dead)] == [0, 8]


def test_a_base_that_does_not_branch_is_named() -> None:
    measured = {Part("a", "open"): around([1, 0], seed=1), Part("a", "closed"): around([-1, 0], seed=2)}
    rows = pairs_of(measured)
    assert [(row.condition, row.other_condition) for row in unbranched(rows)] == [("closed", "open")]
    assert not opposed_pairs(rows)  # within one capability nothing is added up


def test_conditions_are_what_solutions_call() -> None:
    from trace_assets.settings import Targets
    from trace_assets.targets.embedded.target import EmbeddedTarget

    target = EmbeddedTarget(Targets(options={"desk": "c"}, discovery_tasks=60))
    tasks = [task for task in target.tasks("discovery") if task.tags == ("return",)]
    parts = by_condition(target, tasks, 12)
    assert set(parts) == {"get_order > refund_item", "get_order > transfer"}
    assert all(len(own) == 6 for own in parts.values())
    assert condition_of(target, tasks[0]) in parts


@pytest.mark.ci
def test_the_gradients_of_one_target_agree_with_themselves(words: ModuleType, base: Path) -> None:
    pytest.importorskip("peft")
    section = words.SECTION.model_copy(update={"group_size": 16})
    found = measure({"a": words.WordTarget()}, base, section, count=5)
    ((part, one),) = found.items()
    assert part == Part("a", "all") and one.gradients.shape[0] == 5 and one.judged == 80
    again = measure({"a": words.WordTarget()}, base, section, count=5)[part]
    assert np.allclose(one.gradients, again.gradients, atol=1e-6)
    assert one.live == sum(bool(np.abs(row).sum()) for row in one.gradients)
