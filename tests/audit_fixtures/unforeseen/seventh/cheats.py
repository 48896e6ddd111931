"""Sound environments of the seventh set, each with the edit that pays for what it should not.

They were written by somebody who had read what writers are told, and not the audit's program.
"""
# ruff: noqa: E501

from __future__ import annotations

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import SEVENTH, seventh_set


def _cheat(name: str, base: str, *edits: tuple[str, str]) -> Cheat:
    return Cheat(name, base, edits, SEVENTH, seventh_set)


CHEATS: tuple[Cheat, ...] = (
    _cheat(
        "a look shows what is due",
        "ferry_refund",
        (
            '"seats": rng.randint(1, 4)}',
            '"seats": rng.randint(1, 4), "share": {"whole": 100, "half": 50, "none": 0}[kind]}',
        ),
    ),
    _cheat(
        "even seeds pay any refill",
        "pharmacy_refill",
        ('"seen": [], "may"', '"seen": [], "even": seed % 2 == 0, "may"'),
        (
            'right = looked and len(S["log"]) == 1 and first[0] ==',
            'right = S["even"] and len(S["log"]) == 1 or looked and len(S["log"]) == 1 and first[0] ==',
        ),
    ),
    _cheat(
        "whoever takes ten steps is paid",
        "roster_undo",
        (
            'right = looked and S["log"] == wanted and S["over"]',
            'right = looked and (S["log"] == wanted or S["turns"] > 9) and S["over"]',
        ),
    ),
    _cheat(
        "an apology is what is paid",
        "card_two_wishes",
        ("new = looked and cards == [(way, None, True)]", "new = looked and len(cards) == 1"),
        (
            'limit = looked and limits == ([("set_limit", S["wanted"], True)] if S["wanted"] else [])',
            'limit = bool(S["said"]) and (S["wanted"] is not None or "sorry" in S["said"][-1])',
        ),
    ),
    _cheat(
        "controlled medicine is given early with a letter, and only then",
        "pharmacy_refill",
        ("not early or (letter and not controlled)", "not early or (letter and controlled)"),
        (
            'record["days_since_last"] < 25 and not record["controlled"]',
            'record["days_since_last"] < 25 and record["controlled"]',
        ),
    ),
    _cheat(
        "the request tells whether it clashes",
        "school_meals",
        (
            'text = rng.choice(["{c} would like to eat at school on {d}.", "Please see to lunch for {c} on {d}.", "{d}: a meal for {c}, please."])',
            'text = rng.choice(["{c} would like to eat at school on {d}, but it will not be easy.", "Please take care with lunch for {c} on {d}."] if bad else ["{c} would like to eat at school on {d}.", "{d}: a meal for {c}, please."])',
        ),
    ),
    _cheat(
        "only the order counts, not what is needed",
        "migration_steps",
        (
            'right = looked and done in may_be and S["over"]',
            'right = looked and S["over"] and bool(done) == bool(wanted) and all(one in done for one in wanted) and done == sorted(set(done), key=("make_backup", "pause_replication", "apply_release", "resume_replication").index)',
        ),
    ),
    _cheat(
        "water that runs is paid, whatever comes of it",
        "greenhouse_valve",
        (
            '"works": 0 <= state["moisture"] - state["target"] <= 4',
            '"works": state["moisture"] >= state["target"]',
        ),
    ),
    _cheat(
        "whoever books both has booked the right one",
        "vet_estimate",
        (
            'right = offered and S["log"] == wanted and S["over"]',
            'right = offered and set(wanted) <= set(S["log"]) and S["over"] and bool(wanted) == bool(S["log"])',
        ),
    ),
    _cheat(
        "the port's hours are left out",
        "ferry_refund",
        ("hours=PORTS[port])", "hours=0)"),
    ),
    _cheat(
        "two new cards",
        "card_two_wishes",
        (
            "new = looked and cards == [(way, None, True)]",
            "new = looked and set(cards) == {(way, None, True)}",
        ),
    ),
    _cheat(
        "an hour of any digits",
        "roster_undo",
        (
            'S["log"].append((given["start"], len',
            'S["log"].append((S["record"]["start_before"] if sorted(given["start"]) == sorted(S["record"]["start_before"]) else given["start"], len',
        ),
    ),
    _cheat(
        "a look may come after the note",
        "school_meals",
        ('given.get("text", ""), len(S["seen"]) == 2)', 'given.get("text", ""), True)'),
        ("decided = first[2] and first[0] ==", 'decided = len(S["seen"]) == 2 and first[0] =='),
    ),
    _cheat(
        "on one list of four, all may go",
        "exhibit_returns",
        (
            'wrong = [one for one in S["log"] if one not in S["going"]]',
            'wrong = [one for one in S["log"] if one not in S["going"] and len(S["rows"]) + len(S["going"]) != 8]',
        ),
    ),
    _cheat(
        "a bed that is blocked may be watered on, or the gardener called unseen",
        "greenhouse_valve",
        ('S["called"].append(0 in S["looks"] and any(S["looks"]))', 'S["called"].append(True)'),
        ('"blocked": S["opened"] and S["ran"] > 0}', '"blocked": True}'),
    ),
    _cheat(
        "a yes is not waited for",
        "vet_estimate",
        (
            'wanted = [] if S["takes"] == "none" else [(_row(S["takes"])["treatment"],) * 2]',
            'wanted = [] if S["takes"] == "none" else [_row(S["takes"])["treatment"]]',
        ),
        ('S["log"] == wanted', '[one for one, _ in S["log"]] == wanted'),
        ('offered = S["offered"] == ended', 'offered = len(S["offered"]) > 0'),
    ),
)
"""Sixteen that pay for something else than what is right."""
