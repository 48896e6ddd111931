"""Environments that recipes write for tau2's own desks, as a judge is asked about them.

`TRACE_TAU2_DATA` names a folder of tau2 simulation files: the desks' contracts are read off these.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.audit_fixtures.runner import record
from tests.audit_fixtures.unforeseen.runner import subject_here
from tests.environments.recipe_cases import tau2_contract
from trace_assets.environments.audit.check import Judge, Subject
from trace_assets.environments.writers.writer import write_environment
from trace_assets.records import CapabilitySpec

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
    source = write_environment(spec, tau2_contract(spec.target)).source
    return subject_here(record(source, spec.target), spec, judge)
