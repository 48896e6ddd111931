"""What is done in which case: rules over records, each for one deed, made of tests of a record's fields.

A deed is a tool that changes something, a listed value that it is given, or that nothing is changed. What
could not be read of a rule stays open: it then neither calls for its deed nor keeps it from being right. Of a
part of which more is said than its tests can tell, only that it does not hold can be known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from trace_assets.diagnosis.detectors.values import time_of
from trace_assets.diagnosis.detectors.verbs import spoken
from trace_assets.environments.contract.policy_words import PARTICLES, Bound, is_alike, known_words, singular

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


NOTHING = "no change"


@dataclass(frozen=True)
class Condition:
    """A condition, and exceptions.

    Attributes:
        ways: Alternatives of which one must hold, each of parts that must all hold.
        also: Where `and` and `or` stand beside each other, the other reading: groups that must all hold, each
            of parts of which one must. What the two do not agree on is not known.
        unless: Alternatives of which none may hold.
    """

    ways: tuple[tuple[Part, ...], ...]
    also: tuple[tuple[Part, ...], ...] = ()
    unless: tuple[tuple[Part, ...], ...] = ()

    def holds(self, row: Row) -> Truth:
        """Tell whether it holds for a record, None where that is not known."""
        said = any_of(all_of(part.holds(row) for part in way) for way in self.ways) if self.ways else True
        if self.also and all_of(any_of(part.holds(row) for part in group) for group in self.also) is not said:
            said = None
        if not self.unless:
            return said
        kept = any_of(all_of(part.holds(row) for part in way) for way in self.unless)
        return all_of([said, None if kept is None else not kept])

    @property
    def parts(self) -> list[Part]:
        """All its parts."""
        return [part for way in (*self.ways, *self.unless) for part in way]

    @property
    def is_read(self) -> bool:
        """Whether any of it is known."""
        return any(part.tests for part in self.parts)


def all_of(answers: Iterable[Truth]) -> Truth:
    """Join answers of which all must be yes.

    >>> all_of([True, None]), all_of([None, False]), all_of([True])
    (None, False, True)
    """
    found = list(answers)
    return False if False in found else None if None in found else True


def any_of(answers: Iterable[Truth]) -> Truth:
    """Join answers of which one must be yes.

    >>> any_of([True, None]), any_of([None, False]), any_of([False])
    (True, None, False)
    """
    found = list(answers)
    return True if True in found else None if None in found else False


@dataclass(frozen=True)
class Case:
    """One rule.

    Attributes:
        deed: What it is about.
        sentence: What says so.
        condition: When.
        never: Whether the deed is forbidden then.
        rest: Whether it is for what no other rule is about, beside its condition.
        strong: Whether it goes before the others.
        over: Words of what it goes before; empty: of all.
    """

    deed: str
    sentence: str
    condition: Condition
    never: bool = False
    rest: bool = False
    strong: bool = False
    over: str = ""


@dataclass
class Cases:
    """All rules that could be read.

    Attributes:
        rules: The rules.
        usual: The deed that is done where no rule calls for another, where the policy does not say it.
        open: Deeds of which a sentence speaks that could not be read.
        spoken: Sentences that speak of a deed.
        read: Those of them that were read.
    """

    rules: list[Case] = field(default_factory=list)
    usual: str = ""
    open: set[str] = field(default_factory=set)
    spoken: list[str] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def wrong(self, deed: str, row: Row, made: Collection[str] = ()) -> Case | None:
        """Return the rule by which a deed is wrong for a record, for certain; None where it may be right.

        Args:
            deed: What is done.
            row: The record.
            made: All that is done with it: a tool and the value that it is given are two deeds.
        """
        own = [one for one in self.rules if one.deed == deed]
        for one in own:
            if one.never and one.condition.holds(row) is True:
                return one
        for_it = [one for one in own if not one.never]
        met = [one for one in for_it if not one.rest and one.condition.holds(row) is not False]
        for one in self.rules:
            if one.deed not in (deed, *made) and one.strong and not one.never and self._calls(one, row):
                if deed in self.open or not all(_goes_before(one, other) for other in met):
                    continue
                return one
        if not for_it or deed in self.open or deed == self.usual:
            return None
        first: Case | None = None
        for one in for_it:
            answer, why = self._supports(one, row)
            if answer is not False:
                return None
            first = first or why
        return first

    def _supports(self, one: Case, row: Row) -> tuple[Truth, Case]:
        answer = one.condition.holds(row)
        if answer is False or not one.rest:
            return answer, one
        calling = next(
            (
                other
                for other in self.rules
                if other.deed != one.deed and not other.rest and self._calls(other, row)
            ),
            None,
        )
        return (False, calling) if calling else (None, one)

    def _calls(self, one: Case, row: Row) -> bool:
        """Whether a rule calls for its deed for certain: nothing forbids it, or may."""
        return (
            not one.never
            and one.condition.holds(row) is True
            and not any(
                other.never and other.deed == one.deed and other.condition.holds(row) is not False
                for other in self.rules
            )
        )


def _goes_before(one: Case, other: Case) -> bool:
    """Tell whether a rule says that it goes before another: it names what that one tests."""
    if other.strong and not (one.over and _names(one, other) and not (other.over and _names(other, one))):
        return False
    return not one.over or _names(one, other)


def _names(one: Case, other: Case) -> bool:
    tested = {word for part in other.condition.parts for test in part.tests for word in test.words}
    return any(is_alike(word, name) for word in re.findall(r"[a-z]{3,}", one.over) for name in tested)


def better_as(cases: Cases, side: str) -> Cases:
    """Return rules in which `better` is a bound of one side: more of it is better, or less.

    Args:
        cases: The rules.
        side: `least` or `most`.
    """

    def test(one: Test) -> Test:
        open_ = one.bound is not None and one.bound.side == "better"
        return replace(one, bound=replace(one.bound, side=side)) if open_ and one.bound else one

    def part(one: Part) -> Part:
        return replace(one, tests=tuple(map(test, one.tests)))

    def sides(groups: tuple[tuple[Part, ...], ...]) -> tuple[tuple[Part, ...], ...]:
        return tuple(tuple(map(part, one)) for one in groups)

    def condition(one: Condition) -> Condition:
        return Condition(sides(one.ways), sides(one.also), sides(one.unless))

    rules = [replace(one, condition=condition(one.condition)) for one in cases.rules]
    return replace(cases, rules=rules)
