"""Where nothing ever succeeds an environment is accepted for demonstrations, if they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit_fixtures.runner import checks_failing
from trace_assets.assets.environment_verdict import write_verdict
from trace_assets.records import Environment, EnvironmentCheck, EnvironmentVerdict, SeedOutcome
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study


def verdict(
    folder: Path, *failed: str, never: int = 10, asked: str = "warm_start=when_dead"
) -> EnvironmentVerdict:
    """Return the verdict on an environment of 30 seeds, of which some never succeed and the others mostly."""
    study = Study(Home.open(folder), load_settings(None, [f"training.{asked}"]))
    environment = Environment(environment_id="e", capability_id="c", target="t", writer="test", source="pass")
    study.store.write([environment], Environment, "c")
    study.store.write(checks_failing(*failed), EnvironmentCheck, "c")
    outcomes = [
        SeedOutcome(
            capability_id="c",
            environment_id="e",
            seed=seed,
            n=8,
            passed=0 if seed < never else 7,
            pass_rewards=() if seed < never else (1.0,) * 7,
            fail_rewards=(0.0,) * (8 if seed < never else 1),
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
    assert row.warm_reason.startswith("80 of 100 failures lie at the 10 of 30 seeds")


def test_nor_where_they_come_in_the_groups_themselves(tmp_path: Path) -> None:
    row = verdict(tmp_path, "trace.dead_groups", asked="demonstrate=true")
    assert row.accepted and row.reasons == ()
    assert not row.warm_start and not row.warm_reason, "training begins with GRPO all the same"


def test_they_are_not_asked_for_by_themselves(tmp_path: Path) -> None:
    row = verdict(tmp_path, "trace.dead_groups", asked="warm_start=never")
    assert not row.accepted and not row.warm_start


def test_whatever_else_is_wrong_rejects(tmp_path: Path) -> None:
    row = verdict(tmp_path, "trace.dead_groups", "semantic.floor_gap")
    assert not row.accepted and len(row.reasons) == 2


def test_where_all_sometimes_succeeds_grpo_begins(tmp_path: Path) -> None:
    assert not verdict(tmp_path, never=0).warm_start
    assert not verdict(tmp_path, "trace.dead_groups", never=0).accepted
