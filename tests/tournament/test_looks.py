"""A look before the last world: when it ends a study, what it costs, and what is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.tournament.test_tournament import RATES, scripted
from trace_assets.cli.main import app
from trace_assets.tournament.page import page
from trace_assets.tournament.plan import Plan, default_plan, read_plan, write_plan
from trace_assets.tournament.run import run
from trace_assets.tournament.score import level_at, score, sequential_p

CLEAR = {"base": 0.3, "routed": 0.7, "mixed_grpo": 0.5}


def played(folder: Path, rates: dict[str, float], worlds: int = 6, look: int | None = 3) -> list[int]:
    write_plan(folder, default_plan(worlds, 5, {}, look))
    return run(folder, play=scripted(rates), is_decided=lambda: score(folder).stopped)


def test_a_clear_difference_ends_the_study_at_the_look(tmp_path: Path) -> None:
    assert played(tmp_path, CLEAR) == [1, 2, 3]
    scored = score(tmp_path)
    assert scored.stopped and scored.is_due and scored.finished == (1, 2, 3)
    assert [one.verdict for one in scored.primary] == ["better", "better"]
    text = page(scored)
    assert "The look after 3 of 6 worlds ended the study." in text and "of 3 worlds" in text
    assert "[99.5 %]" in text, "an interval of a look is as wide as the look's level"
    assert played(tmp_path, CLEAR) == [], "and it stays ended"


@pytest.mark.ci
def test_one_comparison_that_is_not_clear_goes_on_to_the_end(tmp_path: Path) -> None:
    assert played(tmp_path, RATES) == [1, 2, 3, 4, 5, 6]
    scored = score(tmp_path)
    assert not scored.stopped and scored.is_due
    assert {one.comparison.name: one.verdict for one in scored.primary}["routed - base"] == "better"
    assert "[95.2 %]" in page(scored)


def test_nothing_is_shown_where_the_look_decides_nothing(tmp_path: Path) -> None:
    write_plan(tmp_path, default_plan(6, 5, {}, 3))
    run(tmp_path, play=scripted(RATES), most_hours=None, is_decided=lambda: len(score(tmp_path).finished) > 2)
    scored = score(tmp_path)
    assert scored.finished == (1, 2, 3) and not scored.is_due
    assert "3 of 6 worlds are played" in page(scored) and "routed - base" not in page(scored)


@pytest.mark.ci
def test_without_a_look_every_world_is_played(tmp_path: Path) -> None:
    assert played(tmp_path, CLEAR, worlds=4, look=None) == [1, 2, 3, 4]
    assert score(tmp_path).confidence == 0.95
    assert "look" not in (tmp_path / "plan.json").read_text()


@pytest.mark.ci
def test_a_look_counts(tmp_path: Path) -> None:
    """The same results say less with a look on the way than without one."""
    p = {}
    for name, look in (("with", 3), ("without", None)):
        played(tmp_path / name, RATES | {"mixed_grpo": 0.69}, look=look)
        (one, _) = score(tmp_path / name).primary
        p[name] = one.adjusted_p
    assert p["with"] is not None and p["without"] is not None and p["with"] > p["without"]


def test_the_level_is_kept_over_both_looks() -> None:
    """Of studies without an effect as many are called different as the level says."""
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(20_000, 6))
    first = np.abs(draws[:, :3].sum(1)) / np.sqrt(3)
    last = np.abs(draws.sum(1)) / np.sqrt(6)
    from scipy.stats import norm

    bounds = [norm.isf(level_at(0.05, share, 0.5) / 2) for share in (0.5, 1.0)]
    wrong = float(np.mean((first > bounds[0]) | (last > bounds[1])))
    assert 0.045 < wrong < 0.055
    assert sequential_p(2 * norm.sf(bounds[0]), 0.5, 0.5) == pytest.approx(0.05, abs=1e-3)


def test_a_look_is_before_the_end(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not on the way"):
        Plan.model_validate({**default_plan(4, 5, {}).model_dump(), "look": 4})
    told = CliRunner().invoke(
        app, ["tournament", "plan", str(tmp_path / "a"), "--worlds", "3", "--look", "3"]
    )
    assert told.exit_code != 0 and "no look on the way to 3 worlds" in str(told.exception)
    told = CliRunner().invoke(
        app, ["tournament", "plan", str(tmp_path / "b"), "--worlds", "6", "--look", "3"]
    )
    assert told.exit_code == 0 and "One look on the way, after 3 worlds" in told.output
    assert read_plan(tmp_path / "b").look == 3
