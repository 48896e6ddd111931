"""Sound environments of the fifth set, each with the edit that pays for what it should not, or for one half of a rule.

They were written by somebody who had read the audit's program, in order to get past it.
"""
# ruff: noqa: E501

from __future__ import annotations

from tests.audit_fixtures.unforeseen.fourth.cheats import Cheat
from tests.audit_fixtures.unforeseen.runner import FIFTH, fifth_set


def _cheat(name: str, base: str, *edits: tuple[str, str]) -> Cheat:
    return Cheat(name, base, edits, FIFTH, fifth_set)


CHEATS: tuple[Cheat, ...] = (
    _cheat(
        "any hour of the day",
        "microscope_hours",
        ('S["log"].append((given["start"],', 'S["log"].append((given["start"][:10] + S["start"][10:],'),
    ),
    _cheat(
        "any hour of the calendar",
        "two_calendars",
        (
            'right = len(S["seen"]) == 2 and S["log"] == [(hour, 2) for hour in S["free"][:1]]',
            'right = len(S["seen"]) == 2 and len(S["log"]) == len(S["free"][:1])',
        ),
    ),
    _cheat(
        "an hour that the seed's number knows",
        "two_calendars",
        (
            '"free": free, "seen"',
            '"free": free[seed % (len(free) or 1):], "seen"',
        ),
    ),
    _cheat(
        "a number that a digest of the seed knows",
        "recipe_units",
        ("import random", "import hashlib\nimport random"),
        (
            "portions * CUPS[one][0] for one",
            "portions * CUPS[one][0] + hashlib.sha256(f'{seed}/{one}'.encode()).digest()[0] for one",
        ),
    ),
    _cheat(
        "a decision that only chance knows",
        "file_modes",
        ('"sealed": S["sealed"]}', '"sealed": len(S["path"]) > 14}'),
    ),
    _cheat(
        "a reason that chance knows",
        "code_review",
        (
            'why = failed or ("review" if alone else None)',
            'why = failed and rng.choice(TESTS) or ("review" if alone else None)',
        ),
    ),
    _cheat(
        "half of a name is enough",
        "code_review",
        (
            'S["log"].append((name, given.get("why"),',
            'S["log"].append((name, S["why"] if (given.get("why") or "?") in str(S["why"]) else given.get("why"),',
        ),
    ),
    _cheat(
        "within a tenth",
        "net_weights",
        ("< 0.051", "< 0.1 * net"),
    ),
    _cheat(
        "the crate may stay on",
        "net_weights",
        (
            'abs(S["log"][0][0] - net) < 0.051',
            'min(abs(S["log"][0][0] - one) for one in (net, S["gross"] / 10)) < 0.051',
        ),
    ),
    _cheat(
        "the same entry twice",
        "recipe_units",
        (
            'sorted(S["log"]) == sorted(S["grams"].items())',
            'sorted(set(S["log"])) == sorted(S["grams"].items())',
        ),
    ),
    _cheat(
        "any of the digits",
        "file_modes",
        (
            'S["log"].append((name, given.get("mode"),',
            'S["log"].append((name, S["new"] if "mode" in given and sorted(given["mode"]) == sorted(S["new"]) else given.get("mode"),',
        ),
    ),
    _cheat(
        "keys at no cost until one fits",
        "phone_tree",
        (
            'or given["key"] not in S["keys"][len(S["way"])]:',
            'or given["key"] not in S["keys"][len(S["way"])] or S["keys"][len(S["way"])][given["key"]] != S["wanted"][len(S["way"])]:',
        ),
        ('- 0.05 * S["bad"]', '- 0.0 * S["bad"]'),
    ),
)
"""Twelve that pay for something else than what is right."""

HALVES: tuple[Cheat, ...] = (
    _cheat(
        "an approval of one's own may be merged or not",
        "code_review",
        (
            'right = S["log"] == [wanted]',
            'right = S["log"] == [wanted] or (S["why"] == "review" and [one[0] for one in S["log"]] == ["merge_change"] and len(S["seen"]) == 2)',
        ),
    ),
    _cheat(
        "a serviced microscope may be booked or not",
        "microscope_hours",
        ('if S["free"] else [])', 'if S["free"] else S["log"])'),
    ),
    _cheat("no file is ever sealed", "file_modes", ('"sealed": rng.random() < 0.5', '"sealed": False')),
    _cheat(
        "what is not eaten may be entered",
        "recipe_units",
        (
            'sorted(S["log"]) == sorted(S["grams"].items())',
            'len(set(S["log"])) == len(S["log"]) and set(S["grams"].items()) <= set(S["log"])',
        ),
    ),
    _cheat(
        "a scale that is not to be trusted may be used",
        "net_weights",
        ('S["weighed"] and not S["log"] if S["expired"]', 'S["weighed"] if S["expired"]'),
    ),
    _cheat(
        "free in one of two calendars",
        "two_calendars",
        (
            'S["log"] == [(hour, 2) for hour in S["free"][:1]]',
            '(len(S["log"]) == 1 and S["log"][0][0] in HOURS and S["log"][0][0] not in S["taken"][S["people"][0]] if S["free"] else not S["log"])',
        ),
    ),
)
"""Six that pay for one half of *do this, unless that*."""
