"""Audits the environments of this folder in this process, and says which outcomes are known to be wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.audit_fixtures.purpose.here import NEED_NO_SANDBOX, HerePool, findings
from tests.audit_fixtures.runner import ZOO_PERMUTATION, ZOO_RULES, record
from trace_assets.environments.audit.check import Purpose, Sizes, Subject
from trace_assets.records import CapabilitySpec
from trace_assets.settings import Synthesis

VALUES = "trace.purpose.values"
"""A check that one of these is made for; no animal of the zoo is."""
FOLDER = Path(__file__).parent
SIZES = Sizes(compared=2, diversity=40, floor=8, attack=16, replayed=1, mutated=8, purpose=96)


@dataclass(frozen=True)
class Unforeseen:
    """One environment.

    Attributes:
        kind: `broken`, `sound`, or `mispaired`: sound, but for another capability.
        name: Of its file.
        spec: The capability that it is said to be for.
    """

    kind: str
    name: str
    spec: CapabilitySpec

    def source(self) -> str:
        """Return the module."""
        folder = "broken" if self.kind == "broken" else "sound"
        return (FOLDER / folder / f"{self.name}.py").read_text(encoding="utf-8")

    def rejected_by(self) -> dict[str, str]:
        """Return the checks that reject it, with what they saw."""
        found = findings(
            Subject(
                record(self.source(), self.spec.target),
                HerePool(),  # type: ignore[arg-type]
                Synthesis(audit_seeds=32, audit_rollouts=2),
                None,
                ZOO_PERMUTATION,
                rules=ZOO_RULES,
                sizes=SIZES,
                purpose=Purpose(self.spec),
            ),
            NEED_NO_SANDBOX,
        )
        return {
            name: one.evidence
            for name, one in found.items()
            if one.status == "fail" and ZOO_RULES.severities[name] == "error"
        }


def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def unforeseen() -> list[Unforeseen]:
    """Return all of them, the broken ones first."""
    own = [
        Unforeseen(path.split("/")[0], Path(path).stem, CapabilitySpec(**spec))
        for path, spec in _read("capabilities.json").items()
    ]
    others = [
        Unforeseen("mispaired", Path(one["module"]).stem, CapabilitySpec(**one["capability"]))
        for one in _read("mispaired.json")
    ]
    return [*sorted(own, key=lambda one: (one.kind, one.name)), *others]
