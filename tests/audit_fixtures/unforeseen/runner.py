"""Audits the environments of this folder in this process, and says which outcomes are known to be wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.audit_fixtures.purpose.here import NEED_NO_SANDBOX, HerePool, findings
from tests.audit_fixtures.runner import ZOO_PERMUTATION, ZOO_RULES, record
from trace_assets.environments.audit.check import Judge, Purpose, Sizes, Subject
from trace_assets.records import CapabilitySpec, Environment
from trace_assets.settings import Synthesis

VALUES = "trace.purpose.values"
"""A check that one of these is made for; no animal of the zoo is."""
SENTENCES = "trace.purpose.sentences"
"""One that the eleventh set is made for."""
FOLDER = Path(__file__).parent
SECOND, THIRD, FOURTH, FIFTH, SIXTH, SEVENTH = (
    FOLDER / one for one in ("second", "third", "fourth", "fifth", "sixth", "seventh")
)
EIGHTH, NINTH, TENTH, ELEVENTH, TWELFTH = (
    FOLDER / one for one in ("eighth", "ninth", "tenth", "eleventh", "twelfth")
)
FRAME = SECOND / "frame.py"
"""What the modules of the second to the seventh set end with: in a sandbox they could import none of it."""
SIZES = Sizes(compared=2, diversity=40, floor=8, attack=16, replayed=1, mutated=8, purpose=96)


def subject_here(environment: Environment, spec: CapabilitySpec, judge: Judge | None = None) -> Subject:
    """Return an environment for a capability as a check is handed it, played in this process.

    Args:
        environment: With its module.
        spec: What it is to teach.
        judge: A model that judges environments; None skips what it would be asked.
    """
    return Subject(
        environment,
        HerePool(),  # type: ignore[arg-type]
        Synthesis(audit_seeds=32, audit_rollouts=2),
        None,
        ZOO_PERMUTATION,
        rules=ZOO_RULES,
        sizes=SIZES,
        purpose=Purpose(spec),
        judge=judge,
    )


@dataclass(frozen=True)
class Unforeseen:
    """One environment.

    Attributes:
        kind: `broken`, `sound`, or `mispaired`: sound, but for another capability.
        name: Of its file.
        spec: The capability that it is said to be for.
        folder: Of its set.
    """

    kind: str
    name: str
    spec: CapabilitySpec
    folder: Path = FOLDER

    def source(self) -> str:
        """Return the module, whole."""
        kind = "broken" if self.kind == "broken" else "sound"
        own = (self.folder / kind / f"{self.name}.py").read_text(encoding="utf-8")
        return (
            own
            if self.folder in (FOLDER, EIGHTH, NINTH, TENTH, ELEVENTH, TWELFTH)
            else f"{own}\n\n{FRAME.read_text(encoding='utf-8')}"
        )

    def subject(self, judge: Judge | None = None) -> Subject:
        """Return it as a check is handed it.

        Args:
            judge: A model that judges environments; None skips what it would be asked.
        """
        return subject_here(record(self.source(), self.spec.target), self.spec, judge)

    def rejected_by(self) -> dict[str, str]:
        """Return the checks that reject it, with what they saw."""
        found = findings(self.subject(), NEED_NO_SANDBOX)
        return {
            name: one.evidence
            for name, one in found.items()
            if one.status == "fail" and ZOO_RULES.severities[name] == "error"
        }


def _read(folder: Path) -> list[Unforeseen]:
    rows: dict[str, Any] = json.loads((folder / "capabilities.json").read_text(encoding="utf-8"))
    own = [
        Unforeseen(path.split("/")[0], Path(path).stem, CapabilitySpec(**spec), folder)
        for path, spec in rows.items()
    ]
    return sorted(own, key=lambda one: (one.kind, one.name))


def unforeseen() -> list[Unforeseen]:
    """Return the first set, the broken ones first."""
    rows: list[dict[str, Any]] = json.loads((FOLDER / "mispaired.json").read_text(encoding="utf-8"))
    others = [
        Unforeseen("mispaired", Path(one["module"]).stem, CapabilitySpec(**one["capability"])) for one in rows
    ]
    return [*_read(FOLDER), *others]


def second_set() -> list[Unforeseen]:
    """Return the second set, the broken ones first."""
    return _read(SECOND)


def third_set() -> list[Unforeseen]:
    """Return the third set, the broken ones first."""
    return _read(THIRD)


def fourth_set() -> list[Unforeseen]:
    """Return the fourth set: sound ones of kinds that the checks' authors had not thought of."""
    return _read(FOURTH)


def fifth_set() -> list[Unforeseen]:
    """Return the fifth set: sound ones that work out, add up, listen and query."""
    return _read(FIFTH)


def sixth_set() -> list[Unforeseen]:
    """Return the sixth set: sound ones that wait, page, ask, undo and hand over."""
    return _read(SIXTH)


def seventh_set() -> list[Unforeseen]:
    """Return the seventh set: sound ones with exceptions, omissions, effects, consent and two wishes."""
    return _read(SEVENTH)


def eighth_set() -> list[Unforeseen]:
    """Return the eighth set: sound ones that share no frame, of answers in tables, tags, prose and lines."""
    return _read(EIGHTH)


def ninth_set() -> list[Unforeseen]:
    """Return the ninth set: sound ones that compare, prove, trace and ask, told in no JSON."""
    return _read(NINTH)


def tenth_set() -> list[Unforeseen]:
    """Return the tenth set: written once the checks were mended on the ninth."""
    return _read(TENTH)


def eleventh_set() -> list[Unforeseen]:
    """Return the eleventh set: sound ones that go by conditions, bounds, exceptions and an order of rules."""
    return _read(ELEVENTH)


def twelfth_set() -> list[Unforeseen]:
    """Return the twelfth set: written once the checks were mended on the eleventh."""
    return _read(TWELFTH)
