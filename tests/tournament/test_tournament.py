"""Tournaments with worlds played by a script: plans, resumption, bounds, verdicts whichever way they go."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from trace_assets.cli.main import app
from trace_assets.errors import InputError, Unavailable
from trace_assets.records import Evaluation, LedgerEntry
from trace_assets.settings.settings import Settings, load_settings
from trace_assets.store import Home
from trace_assets.study import Study
from trace_assets.tournament.page import page, sentence, standings
from trace_assets.tournament.plan import (
    PLAN,
    Comparison,
    Plan,
    Prediction,
    World,
    default_plan,
    read_plan,
    write_plan,
)
from trace_assets.tournament.results import RELEASED, RESULTS, result_file
from trace_assets.tournament.run import is_finished, overrides_of, play_demo, run, world_home
from trace_assets.tournament.score import by_world, score
from trace_assets.tournament.worlds import across, holm, power, tie_p_value, verdict

RATES = {"base": 0.3, "routed": 0.7, "mixed_grpo": 0.7}


def planned(folder: Path, worlds: int = 4) -> Plan:
    plan = default_plan(worlds, 5, {})
    write_plan(folder, plan)
    return plan


def scripted(rates: dict[str, float], spread: float = 0.01, tasks: int = 200) -> Callable[..., None]:
    """Write what a loop would have written, with pass rates as given, moved as a whole in each world."""

    def play(plan: Plan, world: World, home: Path) -> None:
        rng = random.Random(world.base_seed)
        store = Study(Home.open(home / "home")).store
        rows = []
        for arm, rate in rates.items():
            passes = round(tasks * min(1.0, max(0.0, rate + rng.gauss(0, spread))))
            rows += [
                Evaluation(
                    task_id=f"t{n}",
                    trial=0,
                    arm=arm,
                    adapter=None,
                    success=n < passes,
                    reward=float(n < passes),
                )
                for n in range(tasks)
            ]
        rows.append(rows[0].model_copy(update={"arm": "broken", "success": None, "fault": "environment"}))
        rows.append(rows[0].model_copy(update={"task_id": "v", "split": "validation", "success": False}))
        store.write([row for row in rows if row.split == "test"], Evaluation, "test")
        store.write([row for row in rows if row.split == "validation"], Evaluation, "validation")
        store.write(
            [
                LedgerEntry(
                    recorded_at=datetime.now(UTC),
                    stage=asset,
                    asset=asset,
                    kind="rollouts",
                    quantity=quantity,
                    unit="episodes",
                )
                for asset, quantity in (("adapter", 1000.0), ("mixed_adapter", 1000.0 + world.number))
            ],
            LedgerEntry,
            "now",
        )

    return play


def test_a_whole_tournament_says_what_it_shows(tmp_path: Path) -> None:
    planned(tmp_path)
    assert run(tmp_path, play=scripted(RATES)) == [1, 2, 3, 4]
    scored = score(tmp_path)
    assert scored.is_due
    # Nothing was compared on validation tasks: routing to one adapter is what is released.
    assert {one.arm for one in scored.arms} == {*RATES, RELEASED}
    verdicts = {one.comparison.name: one.verdict for one in scored.primary}
    assert verdicts["routed - base"] == "better"
    assert verdicts["routed - mixed_grpo"] in ("tied", "undecided")
    assert [scored.held(one) for one in scored.plan.predictions] == [True]
    assert scored.unequal == []
    text = page(scored)
    assert text.index("was better than `base`") < text.index("| arm |")
    assert "of 4 worlds" in text and "Registered" in text and "`mixed_adapter` | rollouts" in text


def test_a_loss_is_said_as_plainly_as_a_win(tmp_path: Path) -> None:
    planned(tmp_path)
    run(tmp_path, play=scripted({"base": 0.7, "routed": 0.4, "mixed_grpo": 0.9}))
    scored = score(tmp_path)
    assert [one.verdict for one in scored.primary] == ["worse", "worse"]
    assert [scored.held(one) for one in scored.plan.predictions] == [False]
    assert sentence(scored.primary[0], scored.plan).startswith("`routed` was worse than `mixed_grpo` by 5")
    assert scored.arms[0].arm == "mixed_grpo"


def claims(folder: Path, rates: dict[str, float], **plan: object) -> dict[str, str]:
    write_plan(folder, Plan.model_validate({**default_plan(4, 5, {}).model_dump(), **plan}))
    run(folder, play=scripted(rates))
    scored = score(folder)
    rows = {one.claim.says: one.standing for one in standings(scored)}
    text = page(scored)  # once: it draws its intervals each time
    assert all(f"| {says} | {standing} | " in text for says, standing in rows.items())
    return rows


def test_a_claim_stands_as_its_primary_comparison_does(tmp_path: Path) -> None:
    direct = "better than GRPO on the target's own tasks"
    won = claims(tmp_path / "won", {"base": 0.3, "routed": 0.9, "mixed_grpo": 0.5})
    assert won["better than the base model"] == won[direct] == "supported"
    lost = claims(tmp_path / "lost", {"base": 0.3, "routed": 0.5, "mixed_grpo": 0.9})
    assert (lost["better than the base model"], lost[direct]) == ("supported", "contradicted")
    same = claims(tmp_path / "same", {"base": 0.3, "routed": 1.0, "mixed_grpo": 1.0}, margin=0.2)
    assert same[direct] == "contradicted", "a tie within the margin is not better"
    assert claims(tmp_path / "gone", {"base": 0.3, "routed": 0.9})[direct] == "not tested"


def test_a_claim_without_a_primary_comparison_is_not_tested(tmp_path: Path) -> None:
    secondary = (Comparison(arm="routed", rival="joint").model_dump(),)
    rates = {"base": 0.3, "routed": 0.9, "mixed_grpo": 0.5, "joint": 0.2}
    found = claims(tmp_path, rates, secondary=secondary)
    assert {says for says, standing in found.items() if standing != "not tested"} == {
        "better than the base model",
        "better than GRPO on the target's own tasks",
    }
    assert "a secondary comparison, without a verdict" in page(score(tmp_path))


def test_of_several_merges_the_one_that_speaks_against_it_counts(tmp_path: Path) -> None:
    rates = {"base": 0.3, "routed": 0.6, "merged:ties": 0.1, "merged:linear": 0.9}
    merges = tuple({"arm": "routed", "rival": name} for name in ("merged:ties", "merged:linear"))
    found = claims(tmp_path, rates, primary=merges, predictions=(), secondary=())
    assert found["better than merged adapters"] == "contradicted"


def test_no_test_figure_is_shown_before_all_worlds_are_played(tmp_path: Path) -> None:
    plan = planned(tmp_path)

    def three(plan: Plan, world: World, home: Path) -> None:
        if world.number == 4:
            raise Unavailable("the power went")
        scripted(RATES)(plan, world, home)

    with pytest.raises(Unavailable, match="the power went"):
        run(tmp_path, play=three)
    assert [is_finished(tmp_path, world.number) for world in plan.worlds] == [True, True, True, False]
    text = page(score(tmp_path))
    assert "3 of 4 worlds are played. No figure" in text and "70." not in text and "| arm |" not in text
    assert [one.verdict for one in score(tmp_path).primary] == [None, None]
    played: list[int] = []

    def last(plan: Plan, world: World, home: Path) -> None:
        played.append(world.number)
        scripted(RATES)(plan, world, home)

    assert run(tmp_path, play=last) == played == [4]
    assert run(tmp_path, play=last) == []


def test_a_bound_stops_between_worlds(tmp_path: Path) -> None:
    planned(tmp_path)
    told: list[str] = []
    assert run(tmp_path, play=scripted(RATES), most_hours=0.0, tell=told.append) == []
    assert "stopped before world 1" in told[-1]


def test_a_world_without_its_test_tasks_is_not_finished(tmp_path: Path) -> None:
    planned(tmp_path)
    with pytest.raises(InputError, match="no trial of a test task"):
        run(tmp_path, play=lambda plan, world, home: Home.open(home / "home") and None)
    assert not is_finished(tmp_path, 1)


@pytest.mark.parametrize(
    ("code", "due", "played"), [(0, None, True), (1, [], True), (1, ["adapter[a]"], False), (2, [], False)]
)
def test_a_world_with_a_rejected_environment_is_a_result_and_one_that_broke_off_is_none(
    code: int, due: list[str] | None, played: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if "demo" in command:
            return subprocess.CompletedProcess(command, code)
        return subprocess.CompletedProcess(command, 0, json.dumps({"due": due}).encode())

    monkeypatch.setattr(subprocess, "run", ended)
    plan = planned(tmp_path)
    with contextlib.nullcontext() if played else pytest.raises(Unavailable, match=f"exit code {code}"):
        play_demo(plan, plan.worlds[0], tmp_path)


def test_another_plan_needs_a_reason_and_leaves_its_mark(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    run(tmp_path, play=scripted(RATES))
    fewer = plan.model_copy(update={"worlds": plan.worlds[:3]})
    with pytest.raises(InputError, match="--amend"):
        write_plan(tmp_path, fewer)
    write_plan(tmp_path, fewer, why="time ran out", worlds_seen=4)
    scored = score(tmp_path)
    assert scored.finished == (1, 2, 3) and scored.other_plans == [1, 2, 3]
    text = page(scored)
    assert "4 worlds seen: time ran out" in text and "played under an earlier plan" in text
    with pytest.raises(InputError, match="was begun under another plan"):
        result_file(tmp_path, RESULTS, 2).unlink()
        run(tmp_path, play=scripted(RATES))


def test_an_amendment_may_leave_out_a_world_that_was_not_finished(tmp_path: Path) -> None:
    """Worlds that are played side by side do not end in their order; those that did keep their numbers."""
    plan = planned(tmp_path)
    run(tmp_path, play=scripted(RATES))
    result_file(tmp_path, RESULTS, 2).unlink()
    assert not score(tmp_path).is_due
    others = tuple(one for one in plan.worlds if one.number != 2)
    write_plan(tmp_path, plan.model_copy(update={"worlds": others}), why="time ran out", worlds_seen=3)
    scored = score(tmp_path)
    assert scored.is_due and scored.finished == (1, 3, 4) and list(scored.primary[0].by_world) == [1, 3, 4]
    with pytest.raises(ValueError, match="none of them may be left out"):
        Plan.model_validate({**plan.model_dump(), "worlds": (*plan.worlds[:2], plan.worlds[3]), "look": 2})


def test_a_plan_that_was_edited_by_hand_is_refused(tmp_path: Path) -> None:
    planned(tmp_path)
    said = json.loads((tmp_path / PLAN).read_text())
    (tmp_path / PLAN).write_text(json.dumps({**said, "margin": 0.5}))
    with pytest.raises(InputError, match="not the plan that was registered"):
        run(tmp_path, play=scripted(RATES))
    (tmp_path / PLAN).write_text("{}")
    with pytest.raises(InputError, match="is not a plan"):
        score(tmp_path)
    with pytest.raises(InputError, match="holds no tournament"):
        score(tmp_path / "elsewhere")


def test_damaged_results_are_refused(tmp_path: Path) -> None:
    planned(tmp_path)
    run(tmp_path, play=scripted(RATES))
    file = result_file(tmp_path, RESULTS, 2)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InputError, match=r"world-002\.parquet cannot be read"):
        score(tmp_path)
    pl.DataFrame({"world": [2]}).write_parquet(file)
    with pytest.raises(InputError, match="other columns"):
        score(tmp_path)
    file.unlink()
    assert run(tmp_path, play=lambda *_: None) == [2]  # its home holds all that there was


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"worlds": ()}, "at least 1"),
        ({"primary": tuple(Comparison(arm="a", rival=str(n)) for n in range(4))}, "at most 3"),
        (
            {"worlds": tuple(World(number=n, base_seed=n, target_seed=1, training_seed=1) for n in (2, 1))},
            "numbered in their order",
        ),
        (
            {"worlds": tuple(World(number=2, base_seed=n, target_seed=1, training_seed=1) for n in (1, 2))},
            "each number once",
        ),
        (
            {"worlds": tuple(World(number=n, base_seed=1, target_seed=1, training_seed=1) for n in (1, 2))},
            "same seeds",
        ),
        ({"predictions": (Prediction(comparison="x - y", says="tied", because=""),)}, "not compared"),
    ],
)
def test_plans_that_could_show_nothing_are_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Plan.model_validate({**default_plan(2, 0, {}).model_dump(), **change})


def test_tasks_that_an_arm_was_not_judged_on_are_left_out_of_both() -> None:
    rows = pl.DataFrame(
        [
            {"world": 1, "arm": arm, "task_id": task, "passed": passed, "judged": judged}
            for arm, task, passed, judged in (
                ("a", "t1", 2, 2),
                ("a", "t2", 1, 2),
                ("a", "t3", 0, 0),
                ("b", "t1", 0, 2),
                ("b", "t2", 1, 2),
                ("b", "t3", 2, 2),
            )
        ]
    )
    assert by_world(rows, Comparison(arm="a", rival="b")) == {1: 0.5}
    assert by_world(rows, Comparison(arm="a", rival="nobody")) == {}


def test_unequal_budgets_are_said(tmp_path: Path) -> None:
    planned(tmp_path, 2)
    run(tmp_path, play=scripted(RATES))
    file = result_file(tmp_path, "costs", 1)
    frame = pl.read_parquet(file)
    more = pl.when(pl.col("asset") == "adapter").then(2000.0).otherwise(pl.col("quantity"))
    frame.with_columns(quantity=more).write_parquet(file)
    (words,) = score(tmp_path).unequal
    assert words == "world 1: adapters 2,000 rollouts, direct GRPO 1,001"


@given(st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=12))
def test_a_tie_and_a_difference_beyond_the_margin_are_never_shown_of_one_study(values: list[float]) -> None:
    found, tie = across(values), tie_p_value(values, 0.02)
    assert found.mean is not None and tie is not None
    if verdict(found, found.p, tie, 0.02, 0.05) == "tied":
        assert found.low is not None and found.high is not None
        assert -0.02 < found.low <= found.mean <= found.high < 0.02
    assert holm({"a": found.p})["a"] == found.p


def test_power_is_what_simulated_studies_show() -> None:
    rng = random.Random(3)
    shown = sum((across([rng.gauss(0.05, 0.03) for _ in range(5)]).p or 1) < 0.05 for _ in range(4000))
    assert abs(shown / 4000 - power(5, 0.05, 0.03)) < 0.03


def test_the_command_line_plans_and_reports(tmp_path: Path) -> None:
    runner, folder = CliRunner(), str(tmp_path / "study")
    made = runner.invoke(app, ["tournament", "plan", folder, "--worlds", "3", "--quick"])
    assert made.exit_code == 0 and "registered as" in made.output and "Power of 3 worlds" in made.output
    plan = json.loads((tmp_path / "study" / PLAN).read_text())
    assert plan["settings"]["training.iterations"] == 10
    states = json.loads(runner.invoke(app, ["tournament", "status", folder, "--json"]).stdout)
    assert [row["state"] for row in states] == ["waiting"] * 3
    run(tmp_path / "study", play=scripted(RATES))
    page_file = tmp_path / "page.md"
    told = runner.invoke(app, ["tournament", "report", folder, "--json", "--page", str(page_file)])
    assert json.loads(told.stdout)["verdicts"][1]["verdict"] == "better"
    assert json.loads(told.stdout)["claims"][0]["stands"] == "supported"
    assert page_file.read_text().startswith("# Tournament")
    assert world_home(tmp_path / "study", 1).is_dir()


def test_settings_of_the_command_line_stand_in_the_plan_and_unknown_ones_register_nothing(
    tmp_path: Path,
) -> None:
    few = ["--set", "targets.discovery_tasks=48", "--set", "rollouts.trials=8"]
    made = CliRunner().invoke(app, ["tournament", "plan", str(tmp_path / "few"), *few, "--json"])
    came = {"training.warm_start": Settings().training.warm_start}
    assert json.loads(made.stdout)["plan"]["settings"] == came | {
        "targets.discovery_tasks": 48,
        "rollouts.trials": 8,
    }
    file = str(tmp_path / "few" / PLAN)
    more = ["--file", file, "--set", "rollouts.trials=4"]
    made = CliRunner().invoke(app, ["tournament", "plan", str(tmp_path / "more"), *more, "--json"])
    assert json.loads(made.stdout)["plan"]["settings"] == came | {
        "targets.discovery_tasks": 48,
        "rollouts.trials": 4,
    }
    for wrong in ("rollouts.trails=8", "rollouts.trials=0", "rollouts"):
        refused = CliRunner().invoke(app, ["tournament", "plan", str(tmp_path / "no"), "--set", wrong])
        assert isinstance(refused.exception, InputError)
    assert not (tmp_path / "no").exists()


def test_a_plan_means_what_it_meant_when_it_was_registered(tmp_path: Path) -> None:
    """Demonstrations came `never` where a plan does not name them; what is planned today names them."""

    def played(settings: dict[str, Any]) -> str:
        plan = default_plan(2, 100, settings)
        return load_settings(None, overrides_of(plan, plan.worlds[0]), environment={}).training.warm_start

    assert played({}) == "never"
    assert played({"training.warm_start": "when_dead"}) == "when_dead"
    CliRunner().invoke(app, ["tournament", "plan", str(tmp_path / "a"), "--set", "training.warm_start=never"])
    assert read_plan(tmp_path / "a").settings == {"training.warm_start": "never"}


def test_where_tasks_need_several_skills_a_pilot_of_one_stops_nothing(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["tournament", "plan", str(tmp_path / "b"), "--desk", "b", "--json"])
    assert json.loads(made.stdout)["plan"]["settings"]["training.pilot"] == "warn"
    made = CliRunner().invoke(app, ["tournament", "plan", str(tmp_path / "a"), "--json"])
    assert "training.pilot" not in json.loads(made.stdout)["plan"]["settings"], "the product's own default"


def _without(rates: dict[str, float], world_number: int, kept: tuple[str, ...]) -> Callable[..., None]:
    """Write what a loop writes that taught nothing in one world, and two skills in the others."""

    def play(plan: Plan, world: World, home: Path) -> None:
        poor = world.number == world_number
        own = {arm: rate for arm, rate in rates.items() if not poor or arm in kept}
        scripted(own | ({"routed": own["base"]} if poor else {}), spread=0.0)(plan, world, home)
        store = Study(Home.open(home / "home")).store
        if poor:  # what is spent is direct GRPO alone
            ledger = [row for row in store.read(LedgerEntry) if row.asset != "adapter"]
            store.write(ledger, LedgerEntry, "now")

    return play


def test_a_world_in_which_nothing_was_taught_counts_with_the_base_model_in_place_of_the_method(
    tmp_path: Path,
) -> None:
    plan = default_plan(3, 5, {"targets.options.desk": "b"})
    write_plan(tmp_path, plan)
    skills = {"adapter:a": 0.5, "adapter:b": 0.5}
    rates = RATES | skills | {"composed": 0.8, "joint": 0.6, "sum": 0.75}
    run(tmp_path, play=_without(rates, 2, ("base", "routed", "mixed_grpo")))
    scored = score(tmp_path)
    ours = {one.comparison.name: one.by_world for one in (*scored.primary, *scored.secondary)}
    found = ours["composed - mixed_grpo"]
    assert found == {1: pytest.approx(0.1), 2: pytest.approx(-0.4), 3: pytest.approx(0.1)}
    arms = {one.arm: one for one in scored.arms}
    assert arms["composed"].worlds == arms["sum"].worlds == arms["joint"].worlds == 3
    assert arms["composed"].rate.mean == pytest.approx((0.8 + 0.3 + 0.8) / 3)
    assert arms["adapter:a"].worlds == 2  # a skill that nobody taught has no rate
    assert "`composed` is `routed` in world 2" in scored.defined
    (words,) = scored.unequal
    assert words.startswith("world 2: adapters 0 rollouts, direct GRPO 1,002 (nothing was taught")
    assert "By definition" in page(scored) and "not equal** in world 2" in page(scored)
