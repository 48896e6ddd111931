"""A recorded model on environments that recipes write for tau2's own desks: what it holds against them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.audit_fixtures.purpose.here import findings
from tests.environments.judge.recorded import recorded_judge
from tests.environments.judge.tau2_recipes import SPECS, recipe_subject
from tests.environments.recipe_cases import REAL
from trace_assets.records import CapabilitySpec

CHECKS = ("oracle", "untold", "lacking", "reworded", "partly", "coherent")
ORACLE = {
    "write-against-policy": ("pass", "paid as well"),
    "write-against-state": ("fail", "including basic economy, can change cabin"),
    "write-without-consent": ("fail", "the user has to be identified"),
    "write-without-read": ("pass", "paid as well"),
    "unverified-write": ("fail", "what is right cannot be told"),
    "unverified-refuel": ("fail", "what is right cannot be told"),
}
"""Of capabilities, what the oracle's check comes to, and why. Those that fail: a rule is taught that is not
the policy's for what is asked; a step is left out that the policy puts before all others; bills decide that
nobody looks at. None breaks a sentence about the record itself."""

pytestmark = pytest.mark.skipif(REAL not in os.environ, reason=f"no {REAL}")


def test_they_are_two_of_each_of_three_desks() -> None:
    targets = [one.target for one in SPECS]
    assert len(SPECS) == 6 and all(targets.count(one) == 2 for one in targets)


@pytest.mark.parametrize("spec", [pytest.param(one, id=one.capability_id) for one in SPECS])
def test_two_pass_and_four_are_rejected_by_their_oracle(spec: CapabilitySpec, tmp_path: Path) -> None:
    subject = recipe_subject(spec, recorded_judge("recipes.jsonl", tmp_path))
    found = findings(subject, [f"trace.judge.{name}" for name in CHECKS])
    status, why = ORACLE[spec.capability_id]
    oracle = found["trace.judge.oracle"]
    assert oracle.status == status and why in oracle.evidence, found
    assert status == "fail" or all(one.status == "pass" for one in found.values()), found
