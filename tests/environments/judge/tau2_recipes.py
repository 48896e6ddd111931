"""Environments that recipes write for tau2's own desks, as a judge is asked about them.

`TRACE_TAU2_DATA` names a folder of tau2 simulation files: the desks' contracts are read off these.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.audit_fixtures.purpose.here import HerePool
from tests.audit_fixtures.runner import ZOO_PERMUTATION, ZOO_RULES, record
from tests.audit_fixtures.unforeseen.runner import SIZES
from tests.environments.recipe_cases import tau2_contract
from trace_assets.environments.audit.check import Judge, Purpose, Subject
from trace_assets.environments.writers.writer import write_environment
from trace_assets.records import CapabilitySpec
from trace_assets.settings import Synthesis

SPECS = [
    CapabilitySpec(**row)
    for row in json.loads((Path(__file__).parent / "recipes.json").read_text(encoding="utf-8"))
]
"""Two capabilities of each of three desks, as detectors propose them on the published runs."""


def recipe_subject(spec: CapabilitySpec, judge: Judge | None = None) -> Subject:
    """Return a recipe's environment as a check is handed it.

    Args:
        spec: The capability.
        judge: A model that judges environments; None skips what it would be asked.
    """
    return Subject(
        record(write_environment(spec, tau2_contract(spec.target)).source, spec.target),
        HerePool(),  # type: ignore[arg-type]
        Synthesis(audit_seeds=32, audit_rollouts=2),
        None,
        ZOO_PERMUTATION,
        rules=ZOO_RULES,
        sizes=SIZES,
        purpose=Purpose(spec),
        judge=judge,
    )
