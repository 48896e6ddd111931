"""What is done in which case: rules over records, each for one deed, and what is wrong by them for certain.

A deed is a tool that changes something, a listed value that it is given, or that nothing is changed. What
could not be read of a rule stays open: it then neither calls for its deed nor keeps it from being right.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from trace_assets.environments.contract.policy_words import is_alike
from trace_assets.environments.contract.record_tests import Part, Row, Test, Truth

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
