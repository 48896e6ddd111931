"""The golden run: the whole loop at a small size, through the command line, everything real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trace_assets

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.train]

SMALL = {
    "targets.discovery_tasks": "240",
    "targets.validation_tasks": "100",
    "targets.test_tasks": "120",
    "synthesis.audit_seeds": "24",
    "synthesis.audit_rollouts": "8",
    "training.iterations": "10",
    "training.validate_every": "5",
    "training.validation_seeds": "32",
    "training.validation_episodes": "64",
    "evaluation.trials": "2",
    "evaluation.resamples": "500",
}


@dataclass
class Loop:
    """A finished run and a way to call the command on it."""

    home: Path

    def trace(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        settings = {**SMALL, **more}
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        return subprocess.run(
            [sys.executable, "-m", "trace_assets", *arguments, *options],
            env={**os.environ, "TRACE_HOME": str(self.home), "HF_HUB_OFFLINE": "1"},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=5400,  # a hang, not a busy machine
        )

    def sync(self, *options: str, **more: str) -> dict[str, Any]:
        done = self.trace("sync", "--json", *options, **more)
        assert done.stdout, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        assert not result["failed"], result["failed"]
        return result

    def query(self, sql: str) -> pl.DataFrame:
        with trace_assets.warehouse(self.home) as warehouse:
            return warehouse.query(sql)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory, docker_daemon: None) -> Loop:
    made = Loop(tmp_path_factory.mktemp("loop"))
    made.sync()
    return made


def test_every_stage_ran_once_and_then_nothing_is_due(loop: Loop) -> None:
    assert loop.sync() == {
        "made": [],
        "failed": {},
        "failed_checks": {},
        "held_back": [],
        "kept": {},
        "empty": [],
    }


def test_the_base_agent_is_what_the_loop_needs(loop: Loop) -> None:
    base = loop.query("SELECT * FROM base_models").row(0, named=True)
    assert (
        0.40 <= base["pass_rate"] <= 0.65
        and base["pass_rate_low"] < base["pass_rate"] < base["pass_rate_high"]
    )
    rolled = loop.query("SELECT count(*) AS n, count(fault) AS faults FROM trajectories").row(0, named=True)
    assert rolled == {"n": 480, "faults": 0}


def test_planted_deficits_are_found_and_nothing_well_taught_is(loop: Loop) -> None:
    kept = loop.query(
        "SELECT c.detector, c.detector_args, s.rank FROM selected_capabilities s "
        "JOIN capabilities c USING (capability_id) WHERE s.kept ORDER BY s.rank"
    )
    assert {"write_against_state", "object_untouched"} & set(kept["detector"])
    assert 2 <= kept.height <= 4
    for arguments in kept["detector_args"]:
        assert "update_address" not in arguments and "exchange_item" not in arguments


def test_environments_ran_in_docker_and_passed_their_audit(loop: Loop) -> None:
    checks = loop.query("SELECT * FROM environment_checks")
    assert set(checks["isolation_level"]) == {"docker"}
    assert checks.filter((pl.col("status") == "fail") & (pl.col("severity") == "error")).is_empty()
    assert {"semantic.oracle_max", "semantic.floor_gap", "runtime.seed_control"} <= set(checks["check_id"])


def test_adapters_learned_and_are_ordinary_peft_folders(loop: Loop) -> None:
    from safetensors import safe_open

    adapters = loop.query("SELECT * FROM adapters ORDER BY name")
    kept = loop.query("SELECT count(*) AS n FROM selected_capabilities WHERE kept").item()
    assert adapters.height == kept + 1 and "mixed" in set(adapters["name"])
    trained = adapters.filter(pl.col("kind") == "capability")
    assert set(trained["isolation_level"]) == {"docker"}
    assert set(trained["sandbox_version"]) == set(
        loop.query("SELECT DISTINCT sandbox_version FROM environment_checks")["sandbox_version"]
    )
    mixed = adapters.filter(pl.col("kind") == "mixed")
    assert mixed["rollouts"].item() == trained["rollouts"].sum()
    assert (trained["validation_after"] > trained["validation_before"]).any()
    for path in adapters["path"]:
        folder = loop.home / path
        assert json.loads((folder / "adapter_config.json").read_text())["peft_type"] == "LORA"
        with safe_open(folder / "adapter_model.safetensors", "pt") as weights:
            assert len(list(weights.keys())) > 0
    curve = loop.query(
        "SELECT name, count(*) AS n, count(DISTINCT iteration) AS d FROM training_curves GROUP BY name"
    )
    assert (curve["n"] == curve["d"]).all()


def test_arms_are_paired_and_carry_intervals(loop: Loop) -> None:
    summary = loop.query("SELECT * FROM evaluation_summary WHERE skill = 'all'")
    arms = {row["arm"]: row for row in summary.to_dicts()}
    assert {"base", "routed", "oracle_routed", "mixed_grpo"} <= set(arms)
    assert {row["n_tasks"] for row in arms.values()} == {120}
    for row in arms.values():
        assert row["pass_rate_low"] <= row["pass_rate"] <= row["pass_rate_high"]
    assert arms["routed"]["delta"] > 0 and arms["oracle_routed"]["delta_low"] > 0
    assert loop.query("SELECT count(*) FROM router_regrets WHERE regret IS NOT NULL").item() >= 4
    assert loop.query("SELECT count(DISTINCT router) FROM routes").item() == 2


def test_the_report_stands_alone(loop: Loop) -> None:
    page = (loop.home / "reports" / "report.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script src" not in page
    assert "<svg" in page and "95" in page


def test_a_task_is_routed(loop: Loop) -> None:
    done = loop.trace("route", "Please cancel order K48.", "--json")
    decision = json.loads(done.stdout)
    assert abs(sum(decision["probabilities"].values()) - 1) < 1e-6
    assert decision["choice"] in decision["probabilities"]


def test_threshold_without_effect_stops_at_the_selection(loop: Loop) -> None:
    touched = ["config/selection", "selected_capabilities", "stability"]
    assert sorted(loop.sync(**{"selection.min_coverage": "0.101"})["made"]) == touched
