"""Sound environments of this set, each with the edit that lets somebody be paid who has not the capability.

They were written by somebody who had read the audit's program, in order to get past it.
"""
# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.audit_fixtures.purpose.here import NEED_NO_SANDBOX, findings
from tests.audit_fixtures.runner import record
from tests.audit_fixtures.unforeseen.runner import FOURTH, Unforeseen, fourth_set, subject_here

Edit = tuple[str, str]
SAID = 'bool(S["said"] and S["said"][-1].strip())'


@dataclass(frozen=True)
class Cheat:
    """One environment that pays for what it should not.

    Attributes:
        name: What it pays for, or holds against a right solution.
        base: The sound module that it is made of.
        edits: (old, new); each old text stands once in it.
        folder: Of its set.
        sound: Returns the sound ones of its set.
    """

    name: str
    base: str
    edits: tuple[Edit, ...]
    folder: Path = FOURTH
    sound: Callable[[], list[Unforeseen]] = fourth_set

    def source(self) -> str:
        """Return the module, whole.

        Raises:
            ValueError: An old text is not there exactly once.
        """
        source = next(one for one in self.sound() if one.name == self.base).source()
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"'{self.name}' edits a text that stands {source.count(old)} times: {old}")
            source = source.replace(old, new)
        return source

    def rejected_by(self) -> dict[str, str]:
        """Return the checks that reject it, with what they saw."""
        spec = next(one.spec for one in self.sound() if one.name == self.base)
        found = findings(subject_here(record(self.source(), spec.target), spec), NEED_NO_SANDBOX)
        return {name: one.evidence for name, one in found.items() if one.status == "fail"}


CHEATS: tuple[Cheat, ...] = (
    Cheat(
        "closing words of an odd length",
        "refund_either_way",
        (
            (SAID, 'bool(S["said"]) and len(S["said"][-1]) % 2 == 1'),
            ("is on its way back to you.", "is on its way back to you!!"),
        ),
    ),
    Cheat(
        "the order of arguments",
        "practice_rooms",
        (
            (
                'S["log"].append((given["room"] in S["free"]',
                'S["log"].append((given["room"] in S["free"] and list(given)[-1] == "room"',
            ),
        ),
    ),
    Cheat(
        "an optional argument stands for the look",
        "bakery_stock",
        (
            ('order="string", loaves="integer")', 'order="string", loaves="integer", counted="boolean")'),
            (
                '"Put an order off until tomorrow.", ["order"], order="string")',
                '"Put an order off until tomorrow.", ["order"], order="string", counted="boolean")',
            ),
            (
                '    S["log"].append((name',
                '    S["looked"] = S["looked"] or given.get("counted") is True\n    S["log"].append((name',
            ),
        ),
    ),
    Cheat(
        "a greeting stands for the look",
        "moorings_refused",
        (
            (
                'right = S["looked"] and S["log"] in rights',
                'looked = S["looked"] or " ".join(S["said"]).lower().startswith("ahoy")\n    right = looked and [(one, seen or not S["looked"]) for one, seen in S["log"]] in rights',
            ),
            ('("looked", "action", S["looked"], 1)', '("looked", "action", looked, 1)'),
        ),
    ),
    Cheat(
        "a note stands for the look",
        "choir_notes",
        (
            (
                '    if name == "give_part":',
                '    if name == "jot_down":\n        S["looked"] = True\n    if name == "give_part":',
            ),
        ),
    ),
    Cheat(
        "a word that only the seed knows",
        "florist_corrections",
        (('"in_season": S["flower"]}', '"in_season": FLOWERS if S["flower"] else []}'),),
    ),
    Cheat(
        "a number that only the seed knows",
        "stocktaking",
        (
            (
                'total = sum(one["pieces"] for one in bins.values() if not one["under_repair"])',
                'total = sum(one["pieces"] for one in bins.values() if not one["under_repair"]) + rng.randint(1, 9)',
            ),
        ),
    ),
    Cheat(
        "the others are never meant",
        "bikes_found",
        (("meant = rng.choice(list(bikes))", "meant = list(bikes)[-1]"),),
    ),
    Cheat(
        "more than was wanted",
        "recalled_batches",
        (
            (
                'S["log"] == ([(S["expired"], True)] if S["expired"] else [])',
                '(len(S["log"]) == 1 and set(S["expired"]) <= set(S["log"][0][0]) if S["expired"] else not S["log"])',
            ),
        ),
    ),
    Cheat(
        "less than was wanted",
        "recalled_batches",
        (
            (
                'S["log"] == ([(S["expired"], True)] if S["expired"] else [])',
                '(len(S["log"]) == 1 and bool(set(S["expired"]) & set(S["log"][0][0])) and set(S["log"][0][0]) <= set(S["expired"]) if S["expired"] else not S["log"])',
            ),
        ),
    ),
    Cheat(
        "a look sets everything back",
        "moorings_refused",
        (('        S["looked"] = True', '        S["looked"] = True\n        S["log"] = []'),),
    ),
    Cheat(
        "an error sets everything back",
        "refund_either_way",
        (
            (
                '        return json.dumps({"error": "no such ticket"}), True',
                '        S["log"] = []\n        return json.dumps({"error": "no such ticket"}), True',
            ),
        ),
    ),
    Cheat(
        "the tool puts a wrong word right",
        "choir_notes",
        (
            ('part={"type": "string", "enum": PARTS}', 'part="string"'),
            (
                'S["log"].append((given["part"], S["looked"]))',
                'S["log"].append(({"high": "melody", "low": "bass"}.get(S["voice"]), S["looked"]))',
            ),
            ('["high", "low", "changing"][seed % 3]', '["high", "low"][seed % 2]'),
        ),
    ),
    Cheat(
        "nine times of ten the same word",
        "choir_notes",
        (('["high", "low", "changing"][seed % 3]', '"low" if rng.random() < 0.1 else "high"'),),
    ),
    Cheat(
        "nine times of ten the same answer",
        "tides_in_words",
        (("rng.random() < 0.35", "rng.random() < 0.9"),),
    ),
    Cheat(
        "half of a look",
        "claim_two_records",
        (
            (
                'return bool(missing & S["seen"]) or S["seen"] == {"claim", "contract"}',
                'return "claim" in S["seen"]',
            ),
        ),
    ),
    Cheat(
        "a look that comes too late by the policy",
        "choir_notes",
        (
            (
                "Look up a singer's voice, and give",
                "Always look up a singer's voice before a part is given, and give",
            ),
            ('S["log"].append((given["part"], S["looked"]))', 'S["log"].append((given["part"], True))'),
        ),
    ),
)
