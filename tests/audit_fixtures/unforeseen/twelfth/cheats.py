"""Sound environments of the twelfth set, each with the edit that breaks its rule in one place.

They were written once the eleventh set's mends stood; oracle and reward go by the broken rule alike.
"""

from __future__ import annotations

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import TWELFTH, twelfth_set


def _cheat(name: str, base: str, *edits: tuple[str, str]) -> Cheat:
    return Cheat(name, base, edits, TWELFTH, twelfth_set)


CHEATS: tuple[Cheat, ...] = (
    _cheat("who waits is not weighed", "blood_donor", (' or d["kilos"] < 50:', ":")),
    _cheat("at seventy one pays half", "visa_fee", ("self.age > 70 else", "self.age >= 70 else")),
    _cheat("it may rain", "roof_work", ('c[1] < 40 and c[2] == "no" else', "c[1] < 40 else")),
    _cheat(
        "a biting dog needs no vaccination",
        "dog_boarding",
        ('if not d["vaccinated"]:', 'if not d["vaccinated"] and not d["bites"]:'),
    ),
    _cheat(
        "an extension helps long reports too",
        "grant_deadline",
        ('if p["pages"] > 25:', 'if p["pages"] > 25 and p["extension"] != "granted":'),
    ),
)
