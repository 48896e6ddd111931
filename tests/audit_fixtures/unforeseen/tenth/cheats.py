"""Sound environments of the tenth set, each with the edit that pays for what it should not.

Half of them tell the answer in tags, tables, lines or prose; the others pay for half of the rule, or for its opposite in a corner.
"""
# ruff: noqa: E501

from __future__ import annotations

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import TENTH, tenth_set


def _cheat(name: str, base: str, *edits: tuple[str, str]) -> Cheat:
    return Cheat(name, base, edits, TENTH, tenth_set)


CHEATS: tuple[Cheat, ...] = (
    _cheat(
        "the hive's label tells what is due",
        "bee_mites",
        (
            "queen of: {STATE['queen']}\"",
            "queen of: {STATE['queen']}\\nlabel: {dict(treat='blue', remove_supers='grey', no_action='pink')[STATE['due']]}\"",
        ),
    ),
    _cheat(
        "a contact column for the gate to be given",
        "gate_plan",
        (
            '"gate\\tgreatest_span_m\\tstate\\tplanned", *("\\t".join(map(str, r)) for r in self.rows)',
            '"gate\\tgreatest_span_m\\tstate\\tplanned\\tbridge", *("\\t".join(map(str, (*r, "L" if r[0] == self.best() else "R"))) for r in self.rows)',
        ),
    ),
    _cheat(
        "the receipt is thanked for where the toy is kept",
        "toy_recall",
        (
            "Paid: {t['price']} euros.\"",
            "Paid: {t['price']} euros.{' Come again soon.' if t['due'] == 'keep_toy' else ' Goodbye and farewell.'}\"",
        ),
    ),
    _cheat(
        "what is granted counts as pending",
        "thesis_release",
        (
            'self.patent == "pending" or',
            'self.patent != "pending" and self.until > TODAY or self.patent == "granted" or',
        ),
    ),
    _cheat(
        "the plant does not matter",
        "toy_recall",
        (
            '            mine["plant"] = r.choice([p for p in PLANTS if p != plant])\n',
            '            mine["plant"] = r.choice([p for p in PLANTS if p != plant])\n            kind = "back"\n',
        ),
    ),
    _cheat(
        "any gate that will do",
        "gate_plan",
        (
            "== [apron.due()]",
            "== [apron.due()] or (len(apron.deeds) == 1 and apron.deeds[0][0] == 'assign' and any(r[0] == apron.deeds[0][1]['gate'] and r[1] >= apron.span and r[2:] == ('open', '-') for r in apron.rows))",
        ),
    ),
)
