"""Homes of later rounds: what they begin with, what they are told, and when they count."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.audit_fixtures.runner import checks_failing
from trace_assets.assets.adapter import _budget, mixed_is_due
from trace_assets.assets.environment_audit import accepted_check
from trace_assets.assets.evaluation import write_evaluation
from trace_assets.assets.rounds import rounds_now, write_round_agent, write_rounds
from trace_assets.errors import InputError
from trace_assets.orchestration.forecast import Scope
from trace_assets.orchestration.planner import Item
from trace_assets.records import (
    BaseCheckpoint,
    EnvironmentVerdict,
    LedgerEntry,
    Round,
    RoundAgent,
    SelectedCapability,
)
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import ROUND_FILE, Study
from trace_assets.workflows.rounds import SEALED, begin_round, later_round, played_rounds, round_home

THREE = ["rounds.most=3"]


def study_in(folder: Path, overrides: list[str]) -> Study:
    return Study.of(Home.open(folder), load_settings(None, overrides))


def come_to(study: Study, agent: str, delta: float = 0.2, rollouts: int = 256) -> None:
    """Note down the agent of a round; empty for none."""
    path = f"models/agents/agent-{agent}" if agent else ""
    if agent:
        (study.home.path / path).mkdir(parents=True, exist_ok=True)
        (study.home.path / path / "config.json").write_text(json.dumps({"agent": agent}))
    row = RoundAgent(
        base_id=f"base of {study.round}",
        agent_id=agent,
        members=(),
        adapter_ids=(),
        path=path,
        n_tasks=100 if agent else 0,
        pass_rate=0.6 if agent else None,
        pass_rate_low=None,
        pass_rate_high=None,
        base_rate=0.4 if agent else None,
        delta=delta if agent else None,
        delta_low=None,
        delta_high=None,
        n_candidates=1,
        harmful=(),
        training_rollouts=rollouts,
        detail="said",
    )
    study.store.write([row], RoundAgent)
    base = BaseCheckpoint(
        base_id=row.base_id, path="models/b", parameters=1, steps=1, pass_rate=0.5, pass_rate_low=0.4,
        pass_rate_high=0.6, n=10,
    )  # fmt: skip
    study.store.write([base], BaseCheckpoint)


def test_a_round_begins_with_the_agent_of_the_one_before(tmp_path: Path) -> None:
    study = study_in(tmp_path, THREE)
    come_to(study, "one")
    second = begin_round(study, 2, study)
    assert (second.round, second.home.path) == (2, round_home(study, 2))
    assert second.settings.base_model.path == "models/agents/one"
    assert json.loads((second.home.path / "models/agents/one/config.json").read_text()) == {"agent": "one"}
    assert not second.settings.training.mixed_arm and second.settings.rounds.most == 1
    assert Study.of(second.home, study.settings) == second, "any command on that home opens the same"


def test_an_edit_of_one_round_is_seen_by_that_round_alone(tmp_path: Path) -> None:
    edit = [*THREE, "rounds.settings.2.selection.min_gap=0.1"]
    before, after = study_in(tmp_path, THREE), study_in(tmp_path, edit)
    come_to(before, "one")
    begin_round(before, 2, before)
    for section in ("selection", "rounds", "training", "base_model"):
        assert before.settings.section(section).fingerprint() == after.settings.section(section).fingerprint()
    rounds = [later_round(one, 2) for one in (before, after)]
    gaps = [one.settings.selection.min_gap for one in rounds if one is not None]
    assert gaps == [before.settings.selection.min_gap, 0.1]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rounds.settings.1.selection.min_gap=0.1", "'1' is no later round"),
        ("rounds.settings.two.selection.min_gap=0.1", "'two' is no later round"),
        ("rounds.settings.2.targets.seed=1", r"round 2 cannot have its own \[targets\]"),
        ("rounds.settings.2.selection.min_gpa=0.1", "min_gpa"),
        ("rounds.most=0", "rounds.most"),
    ],
)
def test_settings_that_no_round_can_have_are_refused(override: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_settings(None, [override])


def test_rounds_count_as_long_as_each_began_with_the_agent_there_is(tmp_path: Path) -> None:
    study = study_in(tmp_path, THREE)
    assert list(played_rounds(study)) == []
    come_to(study, "one")
    second = begin_round(study, 2, study)
    assert [now.round for now, _, _ in played_rounds(study)] == [1]
    come_to(second, "two", delta=0.001)
    assert [(now.round, why[:6]) for now, _, why in played_rounds(study)] == [(1, ""), (2, "a gain")]
    come_to(study, "another")
    assert [now.round for now, _, _ in played_rounds(study)] == [1], (
        "round 2 began with an agent that is gone"
    )
    assert begin_round(study, 2, study).settings.base_model.path == "models/agents/another"


def test_a_round_that_kept_nothing_is_the_last(tmp_path: Path) -> None:
    study = study_in(tmp_path, THREE)
    come_to(study, "")
    assert [why for _, _, why in played_rounds(study)] == ["nothing was kept"]
    with pytest.raises(InputError, match="round 1 has come to no agent"):
        begin_round(study, 2, study)


def test_a_later_round_begins_none_itself(tmp_path: Path) -> None:
    study = study_in(tmp_path, THREE)
    come_to(study, "one")
    second = begin_round(study, 2, study)
    come_to(second, "two")
    with pytest.raises(InputError, match="is round 2 of a study: rounds begin from the study's own home"):
        begin_round(second, 3, second)


def test_a_torn_round_file_is_told(tmp_path: Path) -> None:
    (tmp_path / ROUND_FILE).write_text('{"round": ')
    with pytest.raises(InputError, match="does not say which round this is"):
        study_in(tmp_path, THREE)


def test_the_test_split_stays_sealed_until_the_last_round(tmp_path: Path) -> None:
    study = study_in(tmp_path, THREE)
    come_to(study, "one")
    with pytest.raises(InputError, match="stay sealed until the last round"):
        write_evaluation(study)
    second = begin_round(study, 2, study)
    with pytest.raises(InputError, match="this is round 2 of a study"):
        write_evaluation(second)
    write_rounds(study)
    with pytest.raises(InputError, match="1 of them are noted down"):
        write_evaluation(study)


def test_what_belongs_to_no_round_or_to_the_whole_is_left_out(tmp_path: Path) -> None:
    alone, study = study_in(tmp_path, []), study_in(tmp_path, THREE)
    assert {Scope(alone)(Item(name)) for name in ("round_agent", "rounds")} == {"left out"}
    assert {Scope(study)(Item(name)) for name in ("round_agent", "rounds", "evaluation")} == {"planned"}
    come_to(study, "one")
    second = Scope(begin_round(study, 2, study))
    assert {second(Item(name)) for name in ("evaluation", "mixed_adapter", "rounds")} == {"left out"}
    # What is released of the whole is chosen with a router, and a later round has none.
    assert {second(Item(name)) for name in ("routing", "composition_choice")} == {"left out"}
    assert second(Item("round_agent")) == second(Item("adapter_validation")) == "planned"


def test_the_rival_spends_what_all_rounds_spend_in_whole_iterations(tmp_path: Path) -> None:
    study = study_in(tmp_path, THREE)
    batch = study.settings.training.tasks_per_iteration * study.settings.training.group_size
    come_to(study, "one", rollouts=batch)
    come_to(begin_round(study, 2, study), "two", delta=0.0, rollouts=3 * batch + 1)
    assert _budget(study) == 0, "nothing is taught, and no later round noted down yet"
    write_rounds(study)
    assert [row.training_rollouts for row in study.store.read(Round)] == [batch, 3 * batch + 1]
    assert _budget(study) == 4 * batch
    assert _budget(study_in(tmp_path, [])) == 0, "rounds that are not asked for any more cost nothing"


def test_rounds_are_noted_down_with_what_was_taken(tmp_path: Path) -> None:
    study = study_in(tmp_path, THREE)
    come_to(study, "one")
    come_to(begin_round(study, 2, study), "two", delta=0.001)
    result = write_rounds(study)
    rows = study.store.read(Round)
    assert rows == rounds_now(study)
    assert [(row.round, row.place, row.last) for row in rows] == [(1, "", False), (2, "rounds/2", True)]
    assert "below rounds.min_gain" in rows[1].detail and "another follows" in rows[0].detail
    assert [check.passed for check in result.checks] == [True]


def test_what_is_made_of_all_rounds_is_no_cost_of_the_first(tmp_path: Path) -> None:
    """Else each sync would find other rounds than were noted down, and make them again."""
    study = study_in(tmp_path, THREE)
    come_to(study, "one")
    come_to(begin_round(study, 2, study), "two", delta=0.001)

    def book(asset: str, rollouts: float) -> None:
        at, spent = datetime.now(UTC), (("cpu", 7.0, "s"), ("rollouts", rollouts, "episodes"))
        rows = [
            LedgerEntry(recorded_at=at, stage=asset, asset=asset, kind=kind, quantity=much, unit=unit)
            for kind, much, unit in spent
        ]
        study.store.write(rows, LedgerEntry, asset)

    book("trajectories", 480)
    write_rounds(study)
    noted = study.store.read(Round)
    assert [(row.rollouts, row.cpu_seconds) for row in noted] == [(480, 7.0), (0, 0.0)]
    for asset in sorted(SEALED):
        book(asset, 1024)
    assert rounds_now(study) == noted
    book("pilot", 32)
    assert rounds_now(study)[0].rollouts == 512


def test_a_round_that_taught_nothing_says_what_it_left_and_why(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    study = study_in(tmp_path, THREE)
    come_to(study, "")
    kept = SelectedCapability(
        capability_id="c", target="t", name="go on", kept=True, rank=1, reason="most", verdict="kept",
        marginal_coverage=0.5, expected_cost=1.0,
    )  # fmt: skip
    study.store.write([kept], SelectedCapability)
    verdict = EnvironmentVerdict(
        capability_id="c", environment_id="e", accepted=False, reasons=("trace.pass_band: .93",)
    )
    study.store.write([verdict], EnvironmentVerdict, "c")
    write_round_agent(study)
    (row,) = study.store.read(RoundAgent)
    assert row.members == () and row.detail.endswith("; go on is not taught: trace.pass_band: .93")
    taught = verdict.model_copy(update={"accepted": True, "reasons": ()})
    study.store.write([taught], EnvironmentVerdict, "c")
    write_round_agent(study)
    assert study.store.read(RoundAgent)[0].detail == "no adapter may be chosen"


@pytest.mark.parametrize(
    ("failed", "number", "severity"),
    [
        (("trace.pass_band",), 2, "warning"),
        (("trace.pass_band", "trace.dead_groups"), 2, "warning"),
        (("trace.pass_band",), 1, "error"),
        (("trace.pass_band", "semantic.verifier_determinism"), 2, "error"),
    ],
)
def test_an_environment_with_nothing_left_to_teach_is_an_error_in_the_first_round_alone(
    tmp_path: Path, failed: tuple[str, ...], number: int, severity: str
) -> None:
    study = Study(Home.open(tmp_path), load_settings(None, []), round=number)
    found = accepted_check(study, checks_failing(*failed))
    assert (found.passed, found.severity) == (False, severity)
    assert accepted_check(study, checks_failing()).passed


@pytest.mark.parametrize(
    ("taught", "asked", "steps"),
    [
        *[(8, 0, 8 * 22), (9, 0, 8 * 22), (200, 0, 8 * 22), (9, 128 * 22 * 9, 9 * 22), (3, 10**9, 3 * 22)],
        *[(200, 129, 1), (200, 1, 1), (0, 500, 0)],
    ],
)
def test_the_rival_is_capped_beyond_eight_capabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taught: int, asked: int, steps: int
) -> None:
    monkeypatch.setattr("trace_assets.assets.adapter.taught", lambda _: [f"c{one}" for one in range(taught)])
    settings = load_settings(overrides=[f"training.mixed_rollouts={asked}"], environment={})
    assert _budget(Study.of(Home.open(tmp_path / "home"), settings)) == steps * 128


@pytest.mark.parametrize(("rounds", "runs"), [(1, 2), (2, 3)])
def test_the_rival_spends_what_the_one_adapter_for_all_takes_where_that_may_stand_for_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, runs: int
) -> None:
    monkeypatch.setattr("trace_assets.assets.adapter.taught", lambda _: ["a", "b"])
    asked = [f"rounds.most={rounds}", 'training.single_arms=["together", "joining"]']
    study = Study.of(Home.open(tmp_path / "home"), load_settings(overrides=asked, environment={}))
    assert _budget(study) == runs * 2 * 22 * 128


@pytest.mark.parametrize(("taught", "always", "due"), [(0, False, False), (0, True, True), (1, False, True)])
def test_the_rival_is_trained_without_a_capability_only_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taught: int, always: bool, due: bool
) -> None:
    monkeypatch.setattr("trace_assets.assets.adapter.taught", lambda _: ["c"] * taught)
    settings = load_settings(overrides=[f"training.mixed_always={str(always).lower()}"], environment={})
    study = Study.of(Home.open(tmp_path / "home"), settings)
    assert mixed_is_due(study) is due
    assert _budget(study) == due * 22 * 128, "the rollouts of one capability"
