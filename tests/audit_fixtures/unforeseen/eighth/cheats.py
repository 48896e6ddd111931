"""Sound environments of the eighth set, each with the edit that pays for what it should not.

They are of the kinds that a lazy writer, or a model that is trained on what it is paid, brings about.
"""
# ruff: noqa: E501

from __future__ import annotations

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import EIGHTH, eighth_set


def _cheat(name: str, base: str, *edits: tuple[str, str]) -> Cheat:
    return Cheat(name, base, edits, EIGHTH, eighth_set)


CHEATS: tuple[Cheat, ...] = (
    _cheat(
        "contractors may push",
        "repo_access",
        (
            'asked if meant.contract == "employee" else "read"',
            'asked if meant.contract == "employee" or asked == "write" else "read"',
        ),
    ),
    _cheat(
        "lots on hold are picked",
        "pick_lots",
        (
            'for r in rows if r["state"] == "released" and r["qty"] >= w["need"])',
            'for r in rows if r["qty"] >= w["need"])',
        ),
    ),
    _cheat(
        "what is posted twice is paid",
        "payroll_fix",
        (
            "    right = ledger.events == ledger.wanted()\n",
            "    right = [e for i, e in enumerate(ledger.events) if e not in ledger.events[:i]] == ledger.wanted()\n",
        ),
    ),
    _cheat(
        "a tenth more or less",
        "dilution_bench",
        (
            '    right = S["acts"] == wanted\n',
            '    right = S["acts"] == wanted or (not S["weak"] and len(S["acts"]) == 1 and S["acts"][0][0] == "pipette" and abs(S["acts"][0][1] - S["volume"]) <= 0.1 * S["volume"])\n',
        ),
    ),
    _cheat(
        "once asked, ordered",
        "werkstatt",
        (
            '        "nein": [("auftrag_anhalten", True)],\n    }[z["art"]]\n',
            '        "nein": [("auftrag_anhalten", True)],\n    }[z["art"]]\n    if z["gefragt"] and z["taten"] == [("teil_bestellen", True)]:\n        soll = z["taten"]\n',
        ),
    ),
    _cheat(
        "a field tells who is moved",
        "missed_connections",
        ('f"<connection><arrival', "f\"<connection queue='{2 if p['tight'] else 1}'><arrival"),
    ),
    _cheat(
        "the account tells who is honest",
        "helpdesk_identity",
        (
            '"site: " + E.caller.site,',
            '"site: " + E.caller.site,\n                "flags: " + ("none" if E.caller.honest else "W3"),',
        ),
    ),
    _cheat(
        "the first lot that fits",
        "pick_lots",
        (
            '    w["lots"] = rows\n',
            '    rows.sort(key=lambda r: (r["state"] != "released" or r["qty"] < w["need"], r["expires"]))\n    w["lots"] = rows\n',
        ),
    ),
    _cheat(
        "any status settles it",
        "firmware_rollout",
        ('    if e["last"] not in ("healthy", "degraded"):\n        e["bricked"] = True\n', ""),
    ),
    _cheat(
        "reading the file is enough",
        "archive_answers",
        (
            '    right = given == st["answer"]\n',
            '    right = given == st["answer"] or (found and given[:1].isdigit())\n',
        ),
    ),
    _cheat(
        "seats need not be together",
        "seats_together",
        (
            '    return any(deed == ("hold", r, tuple(range(i, i + now.size))) for r, i in runs)\n',
            '    return bool(runs) and len(deed[2]) == now.size and all(now.plan[deed[1]][s - 1] == "." for s in deed[2])\n',
        ),
    ),
    _cheat(
        "no excess, no limit",
        "claim_answer",
        ('"due": min(max(damage - excess, 0), limit) if ok else None', '"due": damage if ok else None'),
    ),
    _cheat(
        "any day from then on",
        "next_visit",
        (
            '    right = STATE["log"] == [STATE["deed"]] and STATE["plan_read"]\n',
            '    right = STATE["log"] == [STATE["deed"]] and STATE["plan_read"] or (STATE["plan_read"] and len(STATE["log"]) == 1 and STATE["log"][0][0] == STATE["deed"][0] == "plan_visit" and STATE["log"][0][1]["date"] >= STATE["deed"][1]["date"])\n',
        ),
    ),
    _cheat(
        "either of the two",
        "double_booking",
        (
            '    exact = G["gone"] == ([G["late"]] if G["late"] else [])\n',
            '    same = [x["id"] for x in G["rows"] for y in G["rows"] if x is not y and (x["day"], x["hour"]) == (y["day"], y["hour"])]\n    exact = not G["gone"] and not same or len(G["gone"]) == 1 and G["gone"][0] in same\n',
        ),
    ),
)
