"""The diagnosis on planted data: intervals, false discoveries, power; all figures are in docs/studies.md."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.simulations.page import Results, page_text, pooled, write_page
from tests.simulations.power import Picked, Reached, pick
from tests.simulations.repeat import FIGURES, Outcome, Share, Timing, repeat, true_figures
from tests.simulations.world import WORLDS, Planted, World, draw
from trace_assets.diagnosis.leak import empty_contrast
from trace_assets.settings import ContrastSection
from trace_assets.stats.power import GapDesign, gap_power

SMALL = World("small", tasks=60, trials=2, planted=(Planted("deficit", lack=0.5, cost=0.7), Planted("idle")))


def test_a_world_has_what_is_planted() -> None:
    truth, flawless = true_figures(SMALL)
    assert truth == flawless
    assert truth["deficit", "gap"] > 0.4 and abs(truth["idle", "gap"]) < 0.01
    er_failed, er_passed = truth["deficit", "er_failed"], truth["deficit", "er_passed"]
    assert truth["deficit", "gap"] == pytest.approx(er_failed - er_passed)


def test_hard_tasks_make_a_gap_that_runs_of_the_same_task_do_not_have() -> None:
    world = replace(SMALL, planted=(Planted("hard", needed=0.8, lack_slope=0.25),))
    truth, _ = true_figures(world)
    assert truth["hard", "gap"] > 0.05 and abs(truth["hard", "matched_gap"]) < 0.01


def test_passes_that_err_leave_the_rates_nearly_as_they_are() -> None:
    noisy, flawless = true_figures(replace(SMALL, passes=2, error=0.05))
    for figure in FIGURES:
        assert noisy["deficit", figure] == pytest.approx(flawless["deficit", figure], abs=0.02)
    single, _ = true_figures(replace(SMALL, passes=1, error=0.05))
    assert single["deficit", "gap"] < flawless["deficit", "gap"] - 0.03


def test_the_same_seed_draws_the_same_studies() -> None:
    assert repeat(SMALL, 5, seed=1) == repeat(SMALL, 5, seed=1)


def test_few_studies_come_near_the_truth() -> None:
    outcome = repeat(SMALL, 60, section=ContrastSection(resamples=200))
    share = pooled(outcome, "gap")
    # 120 intervals of a true 95 %: 88 % or less is seen in one of 1,000 runs.
    assert share.n == 120 and share.hits / share.n >= 0.88
    assert outcome.kept["deficit"].hits > 50 and outcome.kept["idle"].hits <= 3


def test_the_page_says_what_was_found(tmp_path: Path) -> None:
    outcome = repeat(replace(SMALL, passes=2, error=0.05), 20, section=ContrastSection(resamples=100))
    results = Results(
        command="python -m tests.simulations --studies 20",
        outcomes=[outcome],
        picked=Picked(Share(3, 20), Share(0, 20), Share(1, 20)),
        reached=[Reached(0.3, 0.2, tasks, 0.5, Share(9, 20)) for tasks in (50, 100)],
        timings=[Timing(1000, 10, 100, 0.5, 2.0)],
    )
    page = write_page(results, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text == page_text(results)
    assert "| small | gap |" in text and "15.0 % [5.2, 36.0] of 20 studies" in text
    for picture in ("studies-coverage.svg", "studies-power.svg"):
        assert f"({picture})" in text and (tmp_path / picture).read_text().startswith("<svg")


def test_a_labeller_who_sees_the_reward_is_flagged() -> None:
    # As in the published runs of the reference: LACKING is never given to a success.
    drawn = draw(replace(SMALL, tasks=100), np.random.default_rng(0))
    peeked = np.where(~drawn.matrix.failed & (drawn.true == 2), 1, drawn.true).astype(np.int8)
    from trace_assets.diagnosis.contrast import contrast_matrix

    rows = contrast_matrix(replace(drawn.matrix, codes=peeked), ContrastSection(resamples=100), "t")
    assert [row.capability_id for row in empty_contrast(rows)] == ["deficit", "idle"]
    honest = contrast_matrix(drawn.matrix, ContrastSection(resamples=100), "t")
    assert empty_contrast(honest) == []


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_intervals_hold_and_false_discoveries_are_few(world: World) -> None:
    studies = 150
    outcome: Outcome = repeat(world, studies, seed=11)
    for figure in FIGURES:
        share = pooled(outcome, figure)
        if not share.n:
            assert world.trials == 1 and figure == "matched_gap"
            continue
        # Over nine capabilities of 150 studies. Capabilities of one study go together, so the error of the
        # pooled share is taken to be that of 150 x 3 independent intervals: 1.03 points; three of them
        # around 93 to 97 %.
        assert 0.899 <= share.hits / share.n <= 1.0, (figure, share)
    gap = pooled(outcome, "gap")
    assert gap.hits / gap.n <= 0.97 + 3 * 0.0103
    assert outcome.false_by_q <= 0.05 and outcome.false_kept <= 0.05
    assert outcome.twice.hits <= 0.1 * studies


@pytest.mark.slow
def test_picking_by_outcome_is_paid_for() -> None:
    picked = pick(100, seed=5)
    # True rates below 5 %: 100 studies show more than 12 in one of 1,000 runs.
    assert picked.considered.hits <= 12 and picked.halved.hits <= 12
    assert picked.uncorrected.hits > picked.considered.hits


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "lack", "cost"), [(50, 0.35, 0.45), (100, 0.30, 0.35), (100, 0.35, 0.45)])
def test_planned_power_is_reached(tasks: int, lack: float, cost: float) -> None:
    planted = (Planted("deficit", lack=lack, cost=cost), *(Planted(f"idle_{place}") for place in range(3)))
    world = World("power", tasks=tasks, trials=4, planted=planted)
    truth, _ = true_figures(world)
    failed = draw(world, np.random.default_rng(0), 50_000).matrix.failed
    design = GapDesign(
        gap=truth["deficit", "gap"],
        er_passed=truth["deficit", "er_passed"],
        coverage=truth["deficit", "coverage"],
        pass_rate=1 - float(failed.mean()),
        trials=4,
        considered=4,
    )
    kept = repeat(world, 200, seed=7, section=ContrastSection(resamples=200)).kept["deficit"]
    # Binomial error of 200 studies is at most 3.5 points, and the planner's own error is put at 5.
    assert gap_power(design, tasks) == pytest.approx(kept.hits / kept.n, abs=0.05 + 2.5 * 0.035)
