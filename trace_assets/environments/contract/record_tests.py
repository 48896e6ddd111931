"""Tests of a record's fields, and parts of a condition that are made of them.

A part of which more is said than its tests can tell is only known not to hold: what the rest asks for besides
is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.wording import spoken
from trace_assets.environments.contract.policy_bounds import Bound, singular
from trace_assets.environments.contract.policy_words import PARTICLES, known_words

Row = Mapping[str, Any]
Truth = bool | None
_WORD = re.compile(r"[a-z]+")
YES = frozenset(
    {
        "yes",
        "true",
        "given",
        "present",
        "attached",
        "confirmed",
        "granted",
        "valid",
        "ok",
        "paid",
        "on",
        "active",
        "set",
        "signed",
        "noqa",
    }
)
NO = frozenset(
    {
        "no",
        "false",
        "missing",
        "none",
        "absent",
        "off",
        "inactive",
        "unset",
        "unsigned",
        "unpaid",
        "invalid",
        "noqa",
    }
)
_GENERAL = frozenset(
    {"text", "value", "unit", "is", "held", "state", "status", "amount", "until", "from", "to"}
)
"""Last names that say nothing without the one before them."""
SECONDS = {"minute": 60, "hour": 3600, "day": 86400, "week": 604800, "month": 2629800, "year": 31557600}
_LOOSE = {"month": 3 * 86400, "year": 3 * 86400}
"""By how much a month or a year may be counted otherwise."""


@dataclass(frozen=True)
class Test:
    """One test of a field.

    Attributes:
        path: Of the field, with the tool that tells it.
        value: The state that it must be in; None where it is a bound, a flag, or a date.
        bound: The bound that its figure, or the time since or until its date, keeps to.
        past: Whether its date must have passed.
        negated: Whether it must not be so.
        now: What the policy calls now.
        today: Whether a date that is today has passed; None leaves it open.
    """

    path: str
    value: str | None = None
    bound: Bound | None = None
    past: bool | None = None
    negated: bool = False
    now: datetime | None = None
    today: Truth = None

    @property
    def words(self) -> frozenset[str]:
        """What a text may call what it tests."""
        return name_words(self.path) | known_words([self.value or ""])

    def holds(self, row: Row) -> Truth:
        """Tell whether it holds for a record, None where that is not known."""
        if self.path not in row:
            return None
        held = row[self.path]
        found = self._plain(held)
        return None if found is None or (held is None and "~" in self.path) else found != self.negated

    def _plain(self, held: Any) -> Truth:
        if self.bound is not None:
            return self._bounded(held)
        if self.past is not None:
            moment = time_of(held)
            if moment is None or self.now is None:
                return None
            if moment.date() == self.now.date():
                return None if self.today is None else self.today == self.past
            return (moment < self.now) == self.past
        if self.value is not None:
            return str(held).lower() == self.value
        return flag(held)

    def _bounded(self, held: Any) -> Truth:
        assert self.bound is not None
        if isinstance(held, int | float) and not isinstance(held, bool):
            return self.bound.holds(float(held))
        if held is None or (isinstance(held, str) and held.lower() in NO):
            return False if self.bound.side == "most" and self.bound.within is None else None
        moment = time_of(held)
        if moment is None or self.now is None or self.bound.unit not in SECONDS:
            return None
        now = self.now
        if isinstance(held, str) and len(held) <= len("2030-01-31"):
            now = now.replace(hour=0, minute=0, second=0, microsecond=0)
        passed, size = abs((now - moment).total_seconds()), SECONDS[self.bound.unit]
        if abs(passed - self.bound.number * size) <= _LOOSE.get(self.bound.unit, 0):
            return self.bound.within if self.bound.unit not in _LOOSE else None
        return self.bound.holds(passed / size)


def flag(held: Any) -> Truth:
    """Tell whether a value says yes; None where it says neither.

    >>> flag("yes"), flag("missing"), flag(0), flag("red"), flag(["a"])
    (True, False, False, None, True)
    """
    if isinstance(held, bool) or held is None:
        return bool(held)
    if isinstance(held, int | float):
        return held > 0
    if isinstance(held, list):
        return bool(held)
    word = str(held).lower()
    return True if word in YES else False if word in NO else None


@dataclass(frozen=True)
class Part:
    """One part of a condition.

    Attributes:
        tests: All of which must hold.
        whole: Whether they say all that the part asks for.
        text: Its words.
        eased: Parts of other sentences that let it go, each with all that they ask for.
    """

    tests: tuple[Test, ...]
    whole: bool
    text: str
    eased: tuple[tuple[Part, ...], ...] = ()

    def holds(self, row: Row) -> Truth:
        """Tell whether it holds, None where that is not known."""
        own = self._own(row)
        if own is True:
            return True
        for parts in self.eased:
            answers = [part.holds(row) for part in parts]
            if False not in answers:
                return None if own is None or None in answers else True
        return own

    def _own(self, row: Row) -> Truth:
        found = [test.holds(row) for test in self.tests]
        if False in found:
            return False
        return True if self.whole and found and None not in found else None


def _telling_name(path: str) -> str:
    """Return the last name of a path that tells what it holds, or the word that it stands for.

    >>> _telling_name("view.lying.text"), _telling_name("view.days"), _telling_name("card~bronze")
    ('lying', 'days', 'bronze')
    """
    if "~" in path:
        return path.partition("~")[2]
    parts = path.replace("[]", "").split(".")[1:] or [path]
    return next((part for part in reversed(parts) if part not in _GENERAL), parts[-1])


def name_words(path: str) -> frozenset[str]:
    """Return what a text may call the field of a path.

    >>> sorted(name_words("view.days_used")), sorted(name_words("view.lying.text"))
    (['day'], ['lying'])
    """
    words = [singular(word) for word in _WORD.findall(spoken(_telling_name(path)))]
    return frozenset([word for word in words if word not in PARTICLES or word in SECONDS] or words)
