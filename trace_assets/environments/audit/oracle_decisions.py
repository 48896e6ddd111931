"""What an environment's oracle decides on each seed, and what it was shown before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.policy_text import PolicyText
from trace_assets.diagnosis.detectors.values import tells_error, time_of
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.decision_tree import foretold, with_ages
from trace_assets.environments.audit.scripted_rollouts import Probe
from trace_assets.environments.audit.scripts import Call, calls_in, thing_of
from trace_assets.environments.contract.decisions import fields_of

NO_WRITE = "no change"
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
        now = now_of(subject)
        kept = subject.__dict__["_decided"] = [_decided(subject.probe, seed, now) for seed in seeds]
    return kept


def now_of(subject: Subject) -> datetime:
    """Return the moment that the policy calls now; any other will do where it names none."""
    policy = subject.contract.policy if subject.contract else ""
    told = policy or "\n".join(m.get("content") or "" for m in subject.probe.first(subject.seeds[0])[:1])
    return time_of(PolicyText(told).now) or datetime(2000, 1, 1)


def _decided(probe: Probe, seed: int, now: datetime) -> Decided:
    played, script = probe.best(seed), probe.oracle(seed)
    calls = calls_in(script)
    writes = collapsed([one["name"] for one in calls if probe.writes(one["name"])])
    changing = [one for one in calls if probe.writes(one["name"]) and not hands_over(one["name"])]
    looks = [one for one in calls if not probe.writes(one["name"])]
    thing = thing_of(changing[0] if changing else looks[-1]) if changing or looks else ""
    plain = [one["name"] for one in changing if thing_of(one) == thing]
    fields: dict[str, Any] = {}
    raw: dict[str, str] = {}
    # Of several objects what was told of this one counts.
    told = sorted(before_writes(probe, seed), key=lambda item: thing_of(item[0]) != thing)
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
    played = subject.probe.best(seed)
    found: list[tuple[str, str]] = []
    for action, answer in zip(played.actions, played.answers, strict=False):
        told = {m.get("tool_call_id"): m for m in answer["messages"] if m["role"] == "tool"}
        for one in action.get("tool_calls") or ():
            message = told.get(one["id"], {})
            text = str(message.get("content") or "")
            if not message.get("is_error") and not tells_error(text):
                found.append((one["name"], text))
    return found


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
