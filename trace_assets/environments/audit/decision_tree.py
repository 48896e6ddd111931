"""A small decision tree: by which fields of a record a real agent decides, and an environment's oracle."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.values import tells_error, time_of
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import Call, Probe, calls_in, thing_of
from trace_assets.environments.contract.decisions import fields_of

MAX_DEPTH, MIN_LEAF, MIN_GAIN = 4, 2, 0.02
MOST_VALUES, MOST_CUTS, FOLDS, DEALS = 12, 24, 5, 39
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """One question about a record.

    Attributes:
        value: That the field equals or, where it is a list, holds; or the limit that it stays below.
        limit: Whether it is a limit.
    """

    field: str
    value: Any
    limit: bool = False

    def holds(self, row: Row) -> bool | None:
        """Answer it; None where the record does not show the field."""
        held = row.get(self.field)
        if held is None and self.field not in row:
            return None
        if self.limit:
            return isinstance(held, int | float) and not isinstance(held, bool) and held <= self.value
        return self.value in held if isinstance(held, list) else same(held, self.value)

    def __str__(self) -> str:
        return f"{self.field} {'<=' if self.limit else '='} {self.value}"


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are one; True is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@dataclass(frozen=True)
class Tree:
    """A tree: a leaf with its usual class, or a test and two trees."""

    usual: Hashable
    test: Question | None = None
    yes: Tree | None = None
    no: Tree | None = None

    def leaf(self, row: Row, way: str = "") -> tuple[str, Hashable] | None:
        """Return the way to a record's leaf, and what is usual there; None where a field is missing."""
        if self.test is None or self.yes is None or self.no is None:
            return way, self.usual
        answer = self.test.holds(row)
        if answer is None:
            return None
        here = f"{self.test}" if answer else f"not {self.test}"
        return (self.yes if answer else self.no).leaf(row, f"{way} and {here}" if way else here)


def grow(
    rows: Sequence[Row], classes: Sequence[Hashable], depth: int = MAX_DEPTH, least: int = MIN_LEAF
) -> Tree:
    """Grow a tree, always splitting where the Gini impurity falls most (Breiman et al. 1984, "CART").

    >>> tree = grow([{"cabin": c, "insured": i} for c in "be" for i in ("yes", "no")] * 2, [1, 1, 1, 0] * 2)
    >>> tree.leaf({"cabin": "e", "insured": "no"})
    ('not cabin = b and insured = no', 0)
    """
    return _Asked.of(rows).grow(np.arange(len(rows)), classes, depth, least)


@dataclass(frozen=True)
class _Asked:
    """Questions about records, and all their answers: shape `(rows, questions)`."""

    questions: Sequence[Question]
    answers: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> _Asked:
        asked = sorted(questions(rows), key=str)
        answers = [[one.holds(row) is True for one in asked] for row in rows]
        return cls(asked, np.array(answers, dtype=bool).reshape(len(rows), len(asked)))

    def grow(
        self, kept: NDArray[np.int64], classes: Sequence[Hashable], depth: int, least: int = MIN_LEAF
    ) -> Tree:
        """Grow a tree from some of the rows."""
        counts = Counter(classes[n] for n in kept)
        usual = min(counts, key=lambda one: (-counts[one], repr(one)))
        if depth == 0 or len(counts) == 1 or not self.questions:
            return Tree(usual)
        own = np.array([[classes[n] == one for one in counts] for n in kept], dtype=float)
        yes = self.answers[kept].astype(float).T @ own
        after, sizes = np.zeros(len(self.questions)), []
        for side in (yes, own.sum(axis=0) - yes):
            sizes.append(side.sum(axis=1))
            after += sizes[-1] - (side**2).sum(axis=1) / np.maximum(sizes[-1], 1)
        after = np.where(np.minimum(*sizes) < least, np.inf, np.round(after, 9))
        best = int(np.argmin(after))
        before = len(kept) - sum(n * n for n in counts.values()) / len(kept)
        if not before - after[best] >= MIN_GAIN * len(kept):
            return Tree(usual)
        held = self.answers[kept, best]
        sides = (self.grow(kept[side], classes, depth - 1, least) for side in (held, ~held))
        return Tree(usual, self.questions[best], *sides)


def questions(rows: Sequence[Row]) -> Iterator[Question]:
    """Yield what can be asked of some records: limits of numbers, and values where there are few."""
    for field in sorted({name for row in rows for name in row}):
        held = [row[field] for row in rows if field in row]
        numbers = sorted({v for v in held if isinstance(v, int | float) and not isinstance(v, bool)})
        cuts = [(a + b) / 2 for a, b in pairwise(numbers)]
        for cut in cuts[:: max(1, math.ceil(len(cuts) / MOST_CUTS))]:
            yield Question(field, cut, limit=True)
        values: dict[str, Any] = {}
        for one in held:
            for value in one if isinstance(one, list) else (one,):
                if value is None or isinstance(value, str | bool):
                    values[repr(value)] = value
        if len(values) <= MOST_VALUES:
            yield from (Question(field, value) for _, value in sorted(values.items()))


def foretold(rows: Sequence[Row], classes: Sequence[Hashable]) -> float:
    """Return the share of rows whose class trees tell that have not seen them, each grown on four fifths."""
    return _foretold(_Asked.of(rows), rows, classes)


def beats_chance(rows: Sequence[Row], classes: Sequence[Hashable]) -> float | None:
    """Return the share of classes that trees foretell, None where chance or the usual class does as well."""
    asked, rng = _Asked.of(rows), np.random.default_rng(0)
    right = _foretold(asked, rows, classes)
    dealt = [
        _foretold(asked, rows, [classes[i] for i in rng.permutation(len(classes))]) for _ in range(DEALS)
    ]
    usual = Counter(classes).most_common(1)[0][1] / len(classes)
    return right if right > max(*dealt, usual) else None


def _foretold(asked: _Asked, rows: Sequence[Row], classes: Sequence[Hashable]) -> float:
    right, places = 0, np.arange(len(rows))
    for fold in range(FOLDS):
        learn = places[places % FOLDS != fold]
        if not len(learn):
            continue
        tree = asked.grow(learn, classes, MAX_DEPTH)
        for n in places[places % FOLDS == fold].tolist():
            leaf = tree.leaf(rows[n])
            right += (leaf[1] if leaf else tree.usual) == classes[n]
    return right / len(rows) if rows else 0.0


def with_ages(row: Row, now: datetime | None) -> dict[str, Any]:
    """Return a record with hours before now for every moment it shows; of a list of moments, for the latest.

    >>> with_ages({"get.made": "2024-05-15T13:00:00"}, datetime(2024, 5, 15, 15))
    {'get.made ~ hours ago': 2.0}
    """
    found: dict[str, Any] = {}
    for field, value in row.items():
        listed = [time_of(one) for one in value] if isinstance(value, list) else []
        known = [one for one in listed if one is not None]
        moment = max(known) if known and len(known) == len(listed) else time_of(value)
        if moment is None:
            found[field] = value
        elif now is not None:
            found[f"{field} ~ hours ago"] = (now - moment).total_seconds() / 3600
    return found


def with_meetings(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return records with how their fields stand to each other: which number is more, which lists meet.

    >>> with_meetings([{"holds": ["egg", "soy"], "bad": ["soy"], "n": 3}])[0]["bad and holds"]
    True
    """
    found = []
    for row in rows:
        lists = {field: set(map(repr, one)) for field, one in row.items() if isinstance(one, list)}
        numbers = {k: v for k, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        met = {f"{a} and {b}": bool(lists[a] & lists[b]) for a, b in combinations(sorted(lists), 2)}
        more = {f"{a} or {b}": numbers[a] <= numbers[b] for a, b in combinations(sorted(numbers), 2)}
        found.append({**row, **dict(list({**met, **more}.items())[:MOST_MEETINGS])})
    return found


NO_WRITE = "no change"
MOST_MEETINGS = 40
"""Pairs of fields that are compared: as many questions more for a tree to go astray by."""
SURE = 0.85
"""Share of seeds that a decision tree must tell for the decision to hang on what is shown."""
AS_A_RULE = 0.9
"""Share of the seeds of a decision on which a tool is looked at that belongs to it."""


@dataclass(frozen=True)
class Decided:
    """The oracle's decision on one seed.

    Attributes:
        first: The first messages.
        row: What the tools told that it looked at before its first change, moments as hours before now.
        raw: The text of these answers that are no errors, by tool, the first one of each.
        kind: Its last change to the thing, a hand-over where there is no other, or `NO_WRITE`.
        writes: Its changes in order, the same one after another once.
        thing: What they are about, or what was looked at last.
        reads: Tools that looked at the thing.
        things: All that the calls of the episode are about, this one among them, what its own change names
            beside it left out.
    """

    seed: int
    first: Sequence[dict[str, Any]]
    row: dict[str, Any]
    raw: dict[str, str]
    kind: str
    writes: tuple[str, ...]
    thing: str
    reads: frozenset[str]
    things: frozenset[str] = frozenset()


def decided(subject: Subject) -> list[Decided]:
    """Return the oracle's decisions on the seeds for it, played once."""
    kept: list[Decided] | None = subject.__dict__.get("_decided")
    if kept is None:
        seeds = subject.seeds_of(max(subject.sizes.purpose, subject.section.audit_seeds))
        now, about = now_of(subject), _looks_by_thing(subject.probe, seeds)
        kept = subject.__dict__["_decided"] = [_decided(subject.probe, seed, now, about) for seed in seeds]
    return kept


def _looks_by_thing(probe: Probe, seeds: Sequence[int]) -> set[str]:
    """Return the tools that look at what is changed on some seed, all where nothing is: no page is one."""
    looks: list[Call] = []
    found: set[str] = set()
    changes = False
    for seed in seeds:
        calls = calls_in(probe.oracle(seed))
        changed = {thing_of(one) for one in calls if probe.writes(one["name"])}
        own = [one for one in calls if not probe.writes(one["name"])]
        changes, looks = changes or bool(changed), looks + own
        found |= {one["name"] for one in own if thing_of(one) in changed}
    return found if changes else {one["name"] for one in looks}


def now_of(subject: Subject) -> datetime:
    """Return the moment that the policy calls now; any other will do where it names none."""
    policy = subject.contract.policy if subject.contract else ""
    told = policy or "\n".join(m.get("content") or "" for m in subject.probe.first(subject.seeds[0])[:1])
    return time_of(PolicyText(told).now) or datetime(2000, 1, 1)


def _decided(probe: Probe, seed: int, now: datetime, about: set[str]) -> Decided:
    played, script = probe.best(seed), probe.oracle(seed)
    calls = calls_in(script)
    writes = collapsed([one["name"] for one in calls if probe.writes(one["name"])])
    changing = [one for one in calls if probe.writes(one["name"]) and not hands_over(one["name"])]
    looks = [one for one in calls if not probe.writes(one["name"])]
    thing = thing_of(changing[0] if changing else looks[-1]) if changing or looks else ""
    plain = [one["name"] for one in changing if thing_of(one) == thing]
    fields: dict[str, Any] = {}
    raw: dict[str, str] = {}
    # Of several objects what was told of this one counts; of several pages the first, whatever is decided.
    told = sorted(
        before_writes(probe, seed),
        key=lambda item: item[0]["name"] not in about or thing_of(item[0]) != thing,
    )
    for one, answer, is_error in told:
        if not is_error:
            raw.setdefault(one["name"], answer)
        for path, value in fields_of(one["name"], "error" if is_error else answer).items():
            fields.setdefault(path, value)
    return Decided(
        seed,
        played.first,
        with_ages(fields, now),
        raw,
        (plain or list(writes) or [NO_WRITE])[-1],
        writes,
        thing,
        frozenset(one["name"] for one in looks if thing_of(one) == thing),
        _apart(calls, [one for one in changing if thing_of(one) == thing], thing),
    )


def _apart(calls: Sequence[Call], about: Sequence[Call], thing: str) -> frozenset[str]:
    """Return what the calls are about, without what one change names together: that is one thing.

    >>> line = {"name": "resume", "arguments": {"customer": "C1", "line": "L2"}}
    >>> look = {"name": "get_line", "arguments": {"line": "L2"}}
    >>> _apart([look, line], [line], "C1"), _apart([look], [], "L2")
    (frozenset({'C1'}), frozenset({'L2'}))
    """
    together = {str(value) for one in about for value in one["arguments"].values()} - {thing}
    return frozenset(map(thing_of, calls)) - together


def before_writes(probe: Probe, seed: int) -> list[tuple[Call, str, bool]]:
    """Return the oracle's calls before its first change, with their answers and whether they are errors."""
    calls = answered(probe, seed)
    first = next((n for n, (one, _, _) in enumerate(calls) if probe.writes(one["name"])), len(calls))
    return calls[:first]


def answered(probe: Probe, seed: int) -> list[tuple[Call, str, bool]]:
    """Return all calls of the oracle on a seed, with their answers and whether they are errors."""
    played = probe.best(seed)
    found: list[tuple[Call, str, bool]] = []
    for action, answer in zip(played.actions, played.answers, strict=False):
        told = {m.get("tool_call_id"): m for m in answer["messages"] if m["role"] == "tool"}
        for one in action.get("tool_calls") or ():
            message = told.get(one["id"], {})
            text = str(message.get("content") or "")
            found.append((one, text, bool(message.get("is_error")) or tells_error(text)))
    return found


def answers_of(subject: Subject, seed: int) -> list[tuple[str, str]]:
    """Return tool and answer of every call of the oracle on a seed that was no error."""
    return [(one["name"], text) for one, text, wrong in answered(subject.probe, seed) if not wrong]


def collapsed(names: Sequence[str]) -> tuple[str, ...]:
    """Return names in order, the same one after another once.

    >>> collapsed(["a", "a", "b", "a"])
    ('a', 'b', 'a')
    """
    return tuple(name for place, name in enumerate(names) if place == 0 or names[place - 1] != name)


def pairs_of(cases: Sequence[Decided]) -> list[tuple[str, str]]:
    """Return the pairs of kinds of decisions that are frequent enough to be compared."""
    counts = Counter(one.kind for one in cases)
    usual = sorted(kind for kind, n in counts.items() if n >= max(4, len(cases) // 16))
    return [(one, other) for place, one in enumerate(usual) for other in usual[place + 1 :]]


def of_pair(cases: Sequence[Decided], pair: tuple[str, str]) -> list[Decided]:
    """Return the seeds on which it is one of two kinds."""
    return [one for one in cases if one.kind in pair]


def looked_up(cases: Sequence[Decided]) -> float:
    """Return the share of decisions that what was looked up tells."""
    return foretold([one.row for one in cases], [one.kind for one in cases])


def looked_at_by_all(cases: Sequence[Decided]) -> list[dict[str, Any]]:
    """Return what was looked up, of the tools alone that every kind of decision looks at as a rule.

    A look that one kind takes and another does not follows from the decision: it does not lead to it.
    """
    by_kind = Counter(one.kind for one in cases)
    looks = Counter((one.kind, tool) for one in cases for tool in {tool_of(path) for path in one.row})
    usual = {
        tool
        for tool in {tool for _, tool in looks}
        if all(looks[kind, tool] >= AS_A_RULE * n for kind, n in by_kind.items())
    }
    return [{path: v for path, v in one.row.items() if tool_of(path) in usual} for one in cases]


def tool_of(path: str) -> str:
    """Return the tool that tells a field.

    >>> tool_of("get.flights[].status"), tool_of("list#"), tool_of("get.made ~ hours ago")
    ('get', 'list', 'get')
    """
    return re.split(r"[.#\[ ]", path, maxsplit=1)[0]
