"""A study whose environments a model writes, and an audit that takes no time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_assets.assets import environment
from trace_assets.environments.contract.description import TargetContract
from trace_assets.records import (
    CapabilitySpec,
    ContractRow,
    Environment,
    EnvironmentCheck,
    Label,
    Trajectory,
)
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.store.trajectories import write_trajectories
from trace_assets.study import Study
from trace_assets.targets.seeds import SeedPermutation

NAME = "write-without-read"
"""The capability that environments are written for."""
Make = Callable[..., Study]


@pytest.fixture
def make_study(
    tmp_path: Path,
    contract: TargetContract,
    specs: dict[str, CapabilitySpec],
    trajectories: list[Trajectory],
    monkeypatch: pytest.MonkeyPatch,
) -> Make:
    # The same in every run: of so few seeds some draws find one choice right far too often.
    fixed = SeedPermutation(b"both choices are right sometimes")
    monkeypatch.setattr(SeedPermutation, "draw", staticmethod(lambda: fixed))

    def make(url: str = "", home: str = "home", **settings: Any) -> Study:
        given = {
            "synthesis.writer": "model",
            "synthesis.model": "m",
            "synthesis.audit_seeds": 8,
            "synthesis.mend_with_base": "false",
            "sandbox.backend": "unsafe-subprocess",
            "writer.pause_seconds": 0.01,
            "writer.base_url": url or '""',
            **settings,
        }
        study = Study(Home.open(tmp_path / home), load_settings(None, [f"{k}={v}" for k, v in given.items()]))
        row = ContractRow(
            target=contract.target,
            fingerprint=contract.fingerprint(),
            n_trajectories=contract.n_trajectories,
            contract=contract.model_dump(mode="json"),
        )
        study.store.write([row], ContractRow)
        for spec in specs.values():
            study.store.write([spec], CapabilitySpec, spec.capability_id)
        some = [one for one in trajectories if "cancel" in str(one.messages[1].content)][:40]
        write_trajectories(study.store, some, "embedded")
        study.store.write(
            [
                Label(
                    trajectory_id=one.trajectory_id,
                    capability_id=NAME,
                    labeller="detectors",
                    label="PRESENT" if one.success else "LACKING",
                    evidence=(2,),
                )
                for one in some
            ],
            Label,
            "embedded",
        )
        return study

    return make


@pytest.fixture
def good(sources: dict[str, str]) -> str:
    return sources["write_without_read"].strip() + "\n"


@pytest.fixture(scope="module")
def whole_reply() -> str:
    """A reply that nobody's recipe wrote: a module written by hand from the prompt, with words around it."""
    return (Path(__file__).parent / "replies" / "refund.md").read_text(encoding="utf-8")


@pytest.fixture
def quick_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit that reads instead of playing, for tests of what happens around it."""

    def audit(
        environment: Environment, *_: Any, late_policy: Any = None, **__: Any
    ) -> list[EnvironmentCheck]:
        rows = []
        for name in ("semantic.oracle_max", "semantic.floor_gap"):
            failed = name == "semantic.oracle_max" and "_whole(" in environment.source
            rows.append(
                EnvironmentCheck(
                    environment_id=environment.environment_id,
                    capability_id=environment.capability_id,
                    check_id=name,
                    level="semantic",
                    status="fail" if failed else "pass",
                    severity="error",
                    evidence="seed 2000000 earns 0.2" if failed else "",
                )
            )
        if late_policy is not None and all(row.status == "pass" for row in rows):
            late_policy()
        return rows

    monkeypatch.setattr(environment, "audit", audit)
