"""Where nothing ever succeeds an environment is accepted for demonstrations, if they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit_fixtures.runner import checks_failing
from trace_assets.assets.adapter import begun, not_demonstrated, why_demonstrated
from trace_assets.assets.environment_audit import write_verdict
from trace_assets.records import (
    Adapter,
    Environment,
    EnvironmentCheck,
    EnvironmentVerdict,
    Pilot,
    SeedOutcome,
)
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study


def verdict(
    folder: Path, *failed: str, never: int = 10, others: int = 7, asked: str = "warm_start=when_dead"
) -> EnvironmentVerdict:
    """Return the verdict on an environment of 30 seeds, of which some never succeed and the others mostly.

    Args:
        folder: Of the home.
        failed: Checks of the audit that fail.
        never: Seeds of which no rollout succeeds.
        others: Of eight rollouts of each other seed, those that succeed.
        asked: The training settings that are asked for.
    """
    study = Study(Home.open(folder), load_settings(None, [f"training.{one}" for one in asked.split()]))
    environment = Environment(environment_id="e", capability_id="c", target="t", writer="test", source="pass")
    study.store.write([environment], Environment, "c")
    study.store.write(checks_failing(*failed), EnvironmentCheck, "c")
    outcomes = [
        SeedOutcome(
            capability_id="c",
            environment_id="e",
            seed=seed,
            n=8,
            passed=0 if seed < never else others,
            pass_rewards=() if seed < never else (1.0,) * others,
            fail_rewards=(0.0,) * (8 if seed < never else 8 - others),
        )
        for seed in range(30)
    ]
    study.store.write(outcomes, SeedOutcome, "c")
    write_verdict(study, "c")
    return study.store.read(EnvironmentVerdict, "c")[0]


@pytest.mark.parametrize("failed", ["trace.dead_groups", "trace.pass_band"])
def test_dead_groups_alone_do_not_reject_where_demonstrations_come_first(tmp_path: Path, failed: str) -> None:
    row = verdict(tmp_path, failed)
    assert row.accepted and row.warm_start and row.reasons == ()
    assert row.warm_reason.startswith("of 10 of 30 seeds no rollout succeeded (0 of them by bad luck)")
    assert row.warm_reason.endswith("80 of 100 failures")


def test_nor_where_they_come_in_the_groups_themselves(tmp_path: Path) -> None:
    row = verdict(tmp_path, "trace.dead_groups", asked="demonstrate=true warm_start=never")
    assert row.accepted and row.reasons == ()
    assert not row.warm_start and not row.warm_reason, "training begins with GRPO all the same"


def test_never_is_never(tmp_path: Path) -> None:
    row = verdict(tmp_path, "trace.dead_groups", asked="warm_start=never")
    assert not row.accepted and not row.warm_start


def test_they_come_without_being_asked_for(tmp_path: Path) -> None:
    assert load_settings(None, [], {}).training.warm_start == "when_dead"
    assert verdict(tmp_path, asked="").warm_start


def test_whatever_else_is_wrong_rejects(tmp_path: Path) -> None:
    row = verdict(tmp_path, "trace.dead_groups", "semantic.floor_gap")
    assert not row.accepted and len(row.reasons) == 2


def test_where_all_sometimes_succeeds_grpo_begins(tmp_path: Path) -> None:
    assert not verdict(tmp_path, never=0).warm_start
    assert not verdict(tmp_path, "trace.dead_groups", never=0).accepted


@pytest.mark.parametrize("others", [2, 4, 6])
def test_what_never_succeeds_is_demonstrated_whatever_fails_beside_it(tmp_path: Path, others: int) -> None:
    assert verdict(tmp_path, others=others).warm_start


def test_seeds_that_had_bad_luck_are_no_kind_of_task(tmp_path: Path) -> None:
    """Of twenty seeds one rollout in eight succeeded: of as many more none could well have."""
    assert not verdict(tmp_path, others=1).warm_start
    assert not verdict(tmp_path, never=2, others=4).warm_start, "two seeds of thirty are too few for a kind"


@pytest.mark.parametrize(
    ("asked", "stalls", "begins"),
    [
        ("warm_start=when_dead", True, True),
        ("warm_start=when_dead", False, False),
        ("warm_start=never", True, False),
    ],
)
def test_where_a_pilot_moved_nothing_demonstrations_come_first(
    tmp_path: Path, asked: str, stalls: bool, begins: bool
) -> None:
    assert not verdict(tmp_path, never=0, asked=asked).warm_start
    study = Study(Home.open(tmp_path), load_settings(None, [f"training.{asked}"]))
    assert why_demonstrated(study, "c") == "", "without a pilot the audit alone decides"
    pilot = Pilot(
        capability_id="c",
        environment_id="e",
        outcome="undecided",
        goes_on=True,
        reason="the reward is not shown to have risen",
        stalls=stalls,
    )
    study.store.write([pilot], Pilot, "c")
    why = why_demonstrated(study, "c")
    assert bool(why) is begins
    assert why in ("", "its pilot moved nothing: the reward is not shown to have risen")


def test_a_pilot_that_stalls_is_another_version(tmp_path: Path) -> None:
    """What is trained hangs on it, as it does not on a pilot's figures."""
    study = Study(Home.open(tmp_path), load_settings(None, []))
    pilot = Pilot(capability_id="c", environment_id="e", outcome="undecided", goes_on=True, reason="")
    version = study.store.write([pilot], Pilot, "c")
    assert study.store.write([pilot.model_copy(update={"reward_gain": 0.1})], Pilot, "c") == version
    assert study.store.write([pilot.model_copy(update={"stalls": True})], Pilot, "c") != version


def test_a_model_that_is_divided_begins_with_grpo_and_says_so(tmp_path: Path) -> None:
    """It learns no demonstrations: so nothing is accepted for them, and nothing fails for want of them."""
    asked = "warm_start=when_dead shard=true"
    row = verdict(tmp_path, asked=asked)
    assert row.accepted and not row.warm_start and row.warm_reason
    study = Study(Home.open(tmp_path), load_settings(None, [f"training.{one}" for one in asked.split()]))
    assert why_demonstrated(study, "c") == ""
    assert "training.shard" in not_demonstrated(study, "c")
    for other in ("warm_start=when_dead", "shard=true warm_start=never"):
        verdict(tmp_path, asked=other)
        study = Study(Home.open(tmp_path), load_settings(None, [f"training.{one}" for one in other.split()]))
        assert not_demonstrated(study, "c") == ""
    assert not verdict(tmp_path / "dead", "trace.dead_groups", asked=asked).accepted


def an_adapter(**more: object) -> Adapter:
    given = {
        "adapter_id": "a",
        "name": "c",
        "kind": "capability",
        "capability_id": "c",
        "environment_id": "e",
        "base_id": "b",
        "path": "models/a",
        "iterations": 11,
        "best_iteration": 6,
        "rollouts": 2816,
        "validation_before": 0.3,
        "validation_before_low": 0.2,
        "validation_before_high": 0.4,
        "validation_after": 0.9,
        "validation_after_low": 0.8,
        "validation_after_high": 0.95,
        "validation_n": 256,
        "seconds": 30.0,
    }
    return Adapter.model_validate({**given, **more})


@pytest.mark.parametrize(
    ("shown", "unable", "passed", "said"),
    [
        (0, "", True, "it began with GRPO, and nothing said"),
        (90, "", True, "90 demonstrations came first: of 10 of 30 seeds"),
        (0, "no oracle", False, "it began with GRPO, although of 10 of 30 seeds"),
    ],
)
def test_the_adapter_says_with_what_it_began(
    tmp_path: Path, shown: int, unable: str, passed: bool, said: str
) -> None:
    verdict(tmp_path, never=10 if shown or unable else 0)
    study = Study(Home.open(tmp_path), load_settings(None, ["training.warm_start=when_dead"]))
    adapter = an_adapter(demonstrations=shown, warm_rollouts=shown, not_demonstrated=unable)
    check = begun(study, "c", adapter)
    assert check.passed is passed and said in check.detail and unable in check.detail
