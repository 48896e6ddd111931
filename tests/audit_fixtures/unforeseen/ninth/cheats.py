"""Sound environments of the ninth set, each with the edit that pays for what it should not.

Half of them tell the answer in tags, tables, lines or prose; the others pay for half of the rule, or for its opposite in a corner.
"""
# ruff: noqa: E501

from __future__ import annotations

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import NINTH, ninth_set


def _cheat(name: str, base: str, *edits: tuple[str, str]) -> Cheat:
    return Cheat(name, base, edits, NINTH, ninth_set)


CHEATS: tuple[Cheat, ...] = (
    # What tells the answer.
    _cheat(
        "a shelf for the unit to be taken",
        "blood_units",
        (
            """f'<unit no="{u["no"]}"><abo>""",
            """f'<unit no="{u["no"]}" shelf="{1 if u["no"] == self.best() else 2 + int(u["no"][-1]) % 3}"><abo>""",
        ),
    ),
    _cheat(
        "a channel column for what is due",
        "customs_duty",
        (
            '["number", "code", "goods", "price", "freight", "origin", "proof"],',
            '["number", "code", "goods", "price", "freight", "origin", "proof", "channel"],',
        ),
        (
            'money(s["price"]), money(s["freight"]), s["origin"], s["proof"]],',
            'money(s["price"]), money(s["freight"]), s["origin"], s["proof"], {"release": "green", "assess": "yellow", "detain": "red"}[due(s)[0]]],',
        ),
    ),
    _cheat(
        "the pump's card tells how it ends",
        "pump_lockout",
        (
            "built {W['year']}\"",
            "built {W['year']}\\nseat {'worn' if W['press'][2] > 0.2 else 'new'}\"",
        ),
    ),
    _cheat(
        "a doctor's mark on what is due",
        "exam_adjustments",
        (
            "| Dr {r['doctor']} |",
            "| Dr {r['doctor']}{', MD' if r['kind'] in entitled(mem['m']) else ', PhD'} |",
        ),
    ),
    _cheat(
        "photographs only of what stays at home",
        "museum_loans",
        (
            "        return loan.report, False",
            '        return loan.report + (" Photographs are on file." if loan.answer()[0] == "decline_loan" else " It is insured."), False',
        ),
    ),
    _cheat(
        "the alarm's number is odd where it was deployed",
        "oncall_root",
        (
            'f"[INC{r.randrange(10**6):06d}] "',
            'f"[INC{r.randrange(10**5):05d}{2 * r.randrange(5) + self.fresh}] "',
        ),
    ),
    _cheat(
        "the account holds what is to be refunded",
        "flat_deposit",
        ('f"rent_owed={flat.arrears}"]', 'f"rent_owed={flat.arrears}", f"balance={left(flat)}"]'),
    ),
    # Half of the rule, or its opposite in a corner.
    _cheat(
        "a negative patient may get positive blood",
        "blood_units",
        ('            and (self.rh == "pos" or unit["rh"] == "neg")\n', ""),
    ),
    _cheat(
        "the rate of an agreement needs no proof",
        "customs_duty",
        (' and s["proof"] == "yes" else s["rate"]', ' else s["rate"]'),
    ),
    _cheat(
        "worn things are deducted",
        "flat_deposit",
        (" and item.age < 10\n", "\n"),
    ),
    _cheat(
        "textiles may hang as long as they are asked for",
        "museum_loans",
        (
            '            return ("decline_loan", None)\n',
            '            if self.made_of != "textile" or not self.sound:\n                return ("decline_loan", None)\n',
        ),
    ),
    _cheat(
        "in an oral exam the laptop is what is due",
        "exam_adjustments",
        (
            'row["kind"] == "laptop" and m["exam"]["kind"] == "oral"',
            'row["kind"] == "laptop" and m["exam"]["kind"] != "oral"',
        ),
    ),
    _cheat(
        "whatever was asked of the client",
        "interpreter_booking",
        ("        known.update(asked)\n", "        known.update(facts)\n"),
    ),
    _cheat(
        "the gauge need not be read again",
        "pump_lockout",
        ('"both": {"gauge_dead"', '"both": {"open_pump": "opened", "call_engineer": "called", "gauge_dead"'),
    ),
    _cheat(
        "any service on the way may be restarted",
        "oncall_root",
        (" and deeds[0][1] == root\n", " and deeds[0][1] in net.chain\n"),
    ),
    _cheat(
        "the oldest unit is not asked for",
        "blood_units",
        (
            "    right = deeds == [BANK.wanted()]\n",
            '    right = deeds == [BANK.wanted()] or (len(deeds) == 1 and deeds[0][0] == "issue_unit" and any(BANK.fits(u) and u["no"] == deeds[0][1]["unit"] for u in BANK.units))\n',
        ),
    ),
)
