from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.simulations.world import Planted, World, draw
from trace_assets.diagnosis.candidates import Pool, twins
from trace_assets.diagnosis.chance import shuffled
from trace_assets.diagnosis.label_matrix import LACKING, NA, NO_EVIDENCE, PRESENT
from trace_assets.diagnosis.stability import Candidates, Sections, columns_of, stability
from trace_assets.records import Capability
from trace_assets.settings import Discovery

WORLD = World(
    "w",
    tasks=80,
    trials=3,
    planted=(
        Planted("deficit", lack=0.5, cost=0.8),
        Planted("idle"),
        Planted("other_name", twin_of="deficit"),
    ),
)


def capability(name: str, detector: str | None = "made_up") -> Capability:
    return Capability(
        capability_id=name, target="t", name=name.upper(), description="", analyst="x", detector=detector
    )


def study(seed: int = 0) -> Candidates:
    matrix = draw(WORLD, np.random.default_rng(seed)).matrix
    return Candidates("t", [capability(name, None) for name in matrix.capabilities], matrix)


def test_a_deficit_is_kept_again_and_what_means_nothing_is_not() -> None:
    rows = {row.capability_id: row for row in stability(study(), Sections(), resamples=20, shuffles=20)}
    assert rows["deficit"].kept + rows["other_name"].kept >= 0.9  # either name of the one deficit
    assert rows["idle"].kept <= 0.2
    for row in rows.values():
        assert row.kept_low <= row.kept <= row.kept_high and row.n_resamples == 20
        assert row.null_any_low <= row.null_any <= row.null_any_high
        assert not row.rediscovers and row.discovered == 1
    assert rows["deficit"].null_any <= 0.2 and rows["deficit"].null_mean <= 0.2
    assert rows["deficit"].gap_mean is not None and rows["deficit"].gap_mean > 0.3
    assert rows["deficit"].gap_sd is not None and 0 < rows["deficit"].gap_sd < 0.2


def test_the_same_seed_gives_the_same_rows() -> None:
    first = stability(study(), Sections(), resamples=10, shuffles=10, seed=3)
    assert stability(study(), Sections(), resamples=10, shuffles=10, seed=3) == first
    assert stability(study(), Sections(), resamples=10, shuffles=10, seed=4) != first


class Family:
    """A detector family, as far as a pool needs one."""

    def __init__(self, name: str, norm: float = 0.5) -> None:
        self.name, self.norm, self.mistake = name, norm, "missing_call"


def pool_of(codes: np.ndarray) -> Pool:
    from trace_assets.diagnosis.detectors import FAMILIES, Proposal

    family = Family(FAMILIES[0].name)
    proposals = tuple(Proposal({}, f"p{row}", "", (f"p{row}",)) for row in range(len(codes)))
    return Pool((family,) * len(codes), proposals, codes, np.full(codes.shape, NO_EVIDENCE, dtype=np.int32))  # type: ignore[arg-type]


def test_discovery_is_repeated_where_detectors_propose() -> None:
    matrix = draw(WORLD, np.random.default_rng(1)).matrix
    pool = pool_of(matrix.codes)
    own = matrix.take([0, 1])
    rows = stability(
        Candidates("t", [capability("deficit"), capability("idle")], own, pool),
        Sections(discovery=Discovery(max_candidates=1)),
        resamples=20,
        shuffles=10,
    )
    by_name = {row.capability_id: row for row in rows}
    assert all(row.rediscovers for row in rows)
    assert by_name["deficit"].discovered >= 0.8  # as itself or under its other name
    assert by_name["idle"].discovered <= 0.2 and by_name["idle"].kept == 0


def test_a_pool_picks_what_successes_show_and_one_of_twins() -> None:
    failed = np.arange(40) < 20
    lacks_in_failures = np.where(failed, LACKING, PRESENT).astype(np.int8)
    twin = lacks_in_failures.copy()
    twin[0] = NA
    no_norm = np.where(failed, PRESENT, LACKING).astype(np.int8)
    rare = np.where(np.arange(40) < 3, LACKING, PRESENT).astype(np.int8)
    pool = pool_of(np.stack([twin, lacks_in_failures, no_norm, rare]))
    assert pool.supported(8).tolist() == [0, 1, 2]
    assert pool.findings(8).tolist() == [1, 2]  # of the twins the one with more support
    assert pool.considered(~failed, failed, Discovery(min_support=8)) == 2
    assert pool.pick(~failed, failed, Discovery(min_support=8)) == [1]
    assert twins(pool.codes)[0].tolist() == [True, True, False, False]


def test_what_a_good_part_of_the_failures_lack_is_picked_where_no_success_was_tried_on_it() -> None:
    failed = np.arange(40) < 20
    often = np.where(np.arange(40) < 9, LACKING, NA).astype(np.int8)
    often[9] = PRESENT
    seldom = np.where(np.arange(40) < 1, LACKING, NA).astype(np.int8)
    seldom[10:12] = PRESENT
    harmless = often.copy()
    harmless[39] = LACKING  # one success lacks it too
    assert pool_of(np.stack([often, seldom])).pick(~failed, failed, Discovery(min_support=1)) == [0]
    assert pool_of(harmless[None]).pick(~failed, failed, Discovery(min_support=1)) == []


def test_what_cannot_be_tested_is_not_considered() -> None:
    failed = np.arange(40) < 20
    codes = np.where(failed, LACKING, NA).astype(np.int8)
    codes[20:27] = PRESENT  # relevant to seven successes
    assert pool_of(codes[None]).considered(~failed, failed, Discovery(min_support=8)) == 0
    codes[27] = PRESENT
    assert pool_of(codes[None]).considered(~failed, failed, Discovery(min_support=8)) == 1


def test_shuffled_outcomes_keep_how_alike_the_runs_of_a_task_ended() -> None:
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(30), 4)
    failed = np.repeat(np.arange(30) < 15, 4)  # all runs of a task end alike
    after = shuffled(tasks, failed, rng)
    assert after.sum() == failed.sum() and (after != failed).any()
    assert set(after.reshape(30, 4).sum(axis=1).tolist()) == {0, 4}
    mixed = np.tile([True, False, False, False], 30)
    assert shuffled(tasks, mixed, rng).reshape(30, 4).sum(axis=1).tolist() == [1] * 30


def test_columns_of_a_resample_are_those_of_the_matrix() -> None:
    matrix = draw(WORLD, np.random.default_rng(2)).matrix
    matrix = replace(matrix, trajectories=tuple(str(place) for place in range(len(matrix.failed))))
    drawn = np.random.default_rng(3).integers(0, WORLD.tasks, WORLD.tasks)
    columns = columns_of(matrix.tasks, drawn)
    assert matrix.draw(drawn).trajectories == tuple(matrix.trajectories[place] for place in columns)


@pytest.mark.slow
def test_chance_keeps_little() -> None:
    rows = stability(study(5), Sections(), resamples=10, shuffles=200)
    # Three candidates that know nothing of the outcomes: with q at most 0.05, gap and coverage asked for too,
    # at most 5 % of shuffles keep anything; 200 of them show at most 9.5 % in 998 of 1,000 cases.
    assert rows[0].null_any <= 0.095
