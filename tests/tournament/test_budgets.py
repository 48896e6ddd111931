"""Studies of the same worlds at several budgets, beside one another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.tournament.test_tournament import scripted
from trace_assets.cli.main import app
from trace_assets.errors import InputError
from trace_assets.records import LedgerEntry
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.tournament.budgets import curves
from trace_assets.tournament.plan import Plan, World, default_plan, write_plan
from trace_assets.tournament.run import run


def study(
    folder: Path,
    rollouts: float,
    rates: dict[str, float],
    *,
    seed: int = 5,
    worlds: int = 3,
    play: bool = True,
    **more: Any,
) -> Path:
    """A study whose adapters were trained on so many rollouts."""
    write_plan(folder, default_plan(worlds, seed, {"training.iterations": int(rollouts), **more}))
    script = scripted(rates)

    def one(plan: Plan, world: World, home: Path) -> None:
        script(plan, world, home)
        store = Study(Home.open(home / "home")).store
        booked = [
            row.model_copy(update={"quantity": rollouts}) if row.asset == "adapter" else row
            for row in store.read(LedgerEntry)
        ]
        store.write(booked, LedgerEntry, "now")

    if play:
        run(folder, play=one)
    return folder


def rates(ours: float, rival: float) -> dict[str, float]:
    return {"base": 0.3, "routed": ours, "mixed_grpo": rival}


def test_a_curve_is_over_the_worlds_that_all_studies_share(tmp_path: Path) -> None:
    large = study(tmp_path / "large", 9000, rates(0.9, 0.8), worlds=4)
    small = study(tmp_path / "small", 1000, rates(0.5, 0.6), worlds=3)
    direct, base = curves([large, small])
    assert direct.comparison.name == "routed - mixed_grpo" and direct.worlds == 3
    assert [point.rollouts for point in direct.budgets] == [1000, 9000]
    first, last = (point.difference.mean for point in direct.budgets)
    assert first is not None and last is not None and first < -0.05 < 0.05 < last
    assert direct.gain.mean == pytest.approx(last - first)
    assert direct.area.mean == pytest.approx((first + last) / 2)
    assert base.comparison.name == "routed - base"


def test_the_page_and_the_json_show_it(tmp_path: Path) -> None:
    large = study(tmp_path / "large", 9000, rates(0.9, 0.8))
    small = study(tmp_path / "small", 1000, rates(0.5, 0.6))
    told = CliRunner().invoke(app, ["tournament", "report", str(large), "--budget", str(small)])
    assert told.exit_code == 0 and "\n| 1,000 | " in told.output and "\n| 9,000 | " in told.output
    assert "more than `mixed_grpo`. Secondary: no verdict." in told.output
    told = CliRunner().invoke(app, ["tournament", "report", str(large), "--budget", str(small), "--json"])
    (one, _) = json.loads(told.stdout)["budgets"]
    assert one["rollouts"] == [1000, 9000] and one["gain"]["n"] == 3


def test_what_gives_no_curve_is_said(tmp_path: Path) -> None:
    large = study(tmp_path / "large", 9000, rates(0.9, 0.8))
    for other, words in (
        (study(tmp_path / "same", 9000, rates(0.9, 0.8)), "9,000, 9,000 rollouts: no curve"),
        (study(tmp_path / "others", 1000, rates(0.9, 0.8), seed=900), "share no world"),
        (study(tmp_path / "open", 1000, rates(0.9, 0.8), play=False), "is not finished \\(0 of 3"),
        (study(tmp_path / "d", 1000, rates(0.9, 0.8), **{"targets.test_tasks": 9}), "differ in more than"),
        (study(tmp_path / "alone", 1000, {"base": 0.3}), "share no primary comparison"),
    ):
        with pytest.raises(InputError, match=words):
            curves([large, other])
