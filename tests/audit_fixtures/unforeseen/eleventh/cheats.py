"""Sound environments of the eleventh set, each with the edit that breaks its rule in one place.

Oracle and reward go by the broken rule alike, and the policy says the sound one.
"""
# ruff: noqa: E501

from __future__ import annotations

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import ELEVENTH, eleventh_set


def _cheat(name: str, base: str, *edits: tuple[str, str]) -> Cheat:
    return Cheat(name, base, edits, ELEVENTH, eleventh_set)


CHEATS: tuple[Cheat, ...] = (
    _cheat(
        "fifteen days are fourteen",
        "ski_pass",
        ('s["bought_days_ago"] <= 14 and', 's["bought_days_ago"] <= 15 and'),
    ),
    _cheat(
        "an extension is not heard",
        "parcel_locker",
        ('self.lying > 7 and self.extension == "no"', "self.lying > 7"),
    ),
    _cheat(
        "a broken seal is no matter",
        "vaccine_batch",
        ('if b.minutes >= 30 or b.seal == "broken":', "if b.minutes >= 30:"),
    ),
    _cheat(
        "at three months one is still reminded",
        "allotment_rent",
        ('if p["months_unpaid"] >= 3:', 'if p["months_unpaid"] > 3:'),
    ),
    _cheat(
        "parents are held to the income of others",
        "scholarship",
        ("limit = 52001 if self.child else 40000", "limit = 40000"),
    ),
    _cheat(
        "the age comes before the badge",
        "swim_course",
        (
            '    if c["bronze"]:\n        return "squad"\n    return "seahorse" if c["age"] < 6 else "dolphin"',
            '    if c["age"] < 6:\n        return "seahorse"\n    return "squad" if c["bronze"] else "dolphin"',
        ),
    ),
    _cheat(
        "days are counted from the order",
        "furniture_return",
        ('TODAY - o["delivered"]).days', 'TODAY - o["ordered"]).days'),
    ),
    _cheat(
        "chilled before hazardous",
        "loading_dock",
        (
            '(("H", t["hazardous"]), ("C", t["chilled"]),',
            '(("C", t["chilled"]), ("H", t["hazardous"]),',
        ),
    ),
    _cheat(
        "gold stays on Sundays too",
        "late_checkout",
        ('if self.day == "Sunday":', 'if self.day == "Sunday" and self.status != "gold":'),
    ),
    _cheat(
        "who is long a member may have broken things",
        "tool_rental",
        ('m["years"] >= 2 and clean else', 'm["years"] >= 2 and (clean or m["years"] >= 5) else'),
    ),
)
