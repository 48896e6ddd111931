"""A recorded model on environments that recipes write for tau2's own desks: what it holds against them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.audit_fixtures.purpose.here import findings
from tests.environments.judge.tau2_recipes import SPECS, recipe_subject
from tests.environments.recipe_cases import REAL
from trace_assets.errors import Unavailable
from trace_assets.records import CapabilitySpec
from trace_assets.resources.analysts import open_judge
from trace_assets.settings import load_settings
from trace_assets.store import Home
from trace_assets.study import Study

RECORDING = Path(__file__).parent / "recordings" / "recipes.jsonl"
REJECTED = {"write-against-state", "unverified-write"}
"""Their scenes break another rule of the policy than the one that is taught; a blind comparison agrees."""
PASSED = {"write-without-read"}
"""Asked of the oracle alone."""

pytestmark = pytest.mark.skipif(REAL not in os.environ, reason=f"no {REAL}")


def test_they_are_two_of_each_of_three_desks() -> None:
    targets = [one.target for one in SPECS]
    assert len(SPECS) == 6 and all(targets.count(one) == 2 for one in targets)


@pytest.mark.parametrize("spec", [pytest.param(one, id=one.capability_id) for one in SPECS])
def test_what_is_on_record_of_the_oracle_is_replayed(spec: CapabilitySpec, tmp_path: Path) -> None:
    given = ["synthesis.judge=strong-general-model", f"writer.recording={RECORDING}"]
    judge = open_judge(Study(Home.open(tmp_path), load_settings(None, given)), "cap", "environment_audit")
    subject = recipe_subject(spec, judge)
    check = "trace.judge.oracle"
    if spec.capability_id not in REJECTED | PASSED:
        with pytest.raises(Unavailable, match="not recorded"):
            findings(subject, [check])
        return
    found = findings(subject, [check])[check]
    assert found.status == ("fail" if spec.capability_id in REJECTED else "pass"), found
    assert spec.capability_id in PASSED or "compared blindly, the right solution is paid" in found.evidence
