"""What answers and schemas give away: listed values, places in lists, and what is to be worked out.

Values that the schema lists and the request does not tell are a choice of their own. A thing that is meant
and always stands in the same place of a list need not be found. And an answer may show what an agent is to
decide, or to work out, itself.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.environments.audit.allowed_ways import told_to_agents
from trace_assets.environments.audit.check import Finding, Subject
from trace_assets.environments.audit.decision_tree import Decided, answered, before_writes, decided
from trace_assets.environments.audit.dependence import opening_features, told_by
from trace_assets.environments.audit.scripted_rollouts import (
    Call,
    Probe,
    calls_in,
    names_like,
    properties,
    request,
    thing_of,
)
from trace_assets.environments.audit.telling_fields import telling_field
from trace_assets.environments.contract.answers import written
from trace_assets.targets.seeds import COLUMNS, ROWS

Place = tuple[str, str]
"""A tool and its argument."""
SEEDS, LEAST = 64, 12
"""Seeds by which it is told whether a value is a choice, and with which each is given at least."""
TOLD = 0.01
"""Chance of as much by accident, below which the first messages tell a value."""
LEAST_CASES, SHORT, SAME = 16, 3, 0.95
"""Lists that are compared at least, entries from which on a place tells, and share of one place."""
BOUND = "the thing that is meant is not always the first or the last of a list"
_BY_PLACE = re.compile(
    r"\b(?:first|last|latest|newest|oldest|earliest|recent|recently|next|top|soonest|sort(?:ed|s)?|"
    r"ordered by|in order|alphabetical\w*)\b",
    re.IGNORECASE,
)
"""Words of a rule that may go by the place in a list, or of a list that says how it is sorted."""
LEAST_SHOWN, SHARE, LARGE = 8, 0.9, 100
"""Seeds that are compared at least, the share of them that tells, and what no number is by accident."""
_WORKED_OUT = re.compile(
    r"\bwork\w* (?:[\w']+ ){0,4}?out\b|\b(?:calculat|comput|reckon|convert)\w*"
    r"|\badd(?:s|ing)? (?:\w+ ){0,3}?up\b|\bsum(?:s|ming)? up\b",
    re.IGNORECASE,
)


def last_change(probe: Probe, seed: int) -> Call | None:
    """Return the oracle's last change on a seed; None where it makes none."""
    made = [one for one in calls_in(probe.oracle(seed)) if probe.writes(one["name"])]
    return made[-1] if made else None


def listed_values(probe: Probe, seed: int) -> dict[Place, Any]:
    """Return which listed or truth values the last change has, without those that the request names."""
    one = last_change(probe, seed)
    if one is None:
        return {}
    schemas = _schemas(probe)
    said = _said(probe, seed).lower()
    return {
        (one["name"], key): value
        for key, value in sorted(one["arguments"].items())
        if isinstance(value, bool)
        or (schemas.get(one["name"], {}).get(key, {}).get("enum") and str(value).lower() not in said)
    }


def choices(probe: Probe) -> frozenset[Place]:
    """Return which values take a decision: two are frequent, and what is asked for does not tell which."""
    kept: frozenset[Place] | None = probe.__dict__.get("_choices")
    if kept is None:
        kept = probe.__dict__["_choices"] = frozenset(_choices(probe)) if _lists_any(probe) else frozenset()
    return kept


def guessed(probe: Probe, name: str, arguments: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a tool's arguments with a guess for what takes a decision: who knows it has made it."""
    schema = _schemas(probe).get(name, {})
    return {
        key: rng.choice(schema.get(key, {}).get("enum") or [True, False])
        if (name, key) in choices(probe)
        else one
        for key, one in arguments.items()
    }


def _choices(probe: Probe) -> list[Place]:
    rows: dict[Place, list[tuple[int, Any]]] = defaultdict(list)
    for seed in probe.chance("choices").sample(range(COLUMNS * ROWS), SEEDS):
        for place, value in listed_values(probe, seed).items():
            rows[place].append((seed, value))
    return [place for place, given in rows.items() if _is_choice(probe, given)]


def _is_choice(probe: Probe, given: list[tuple[int, Any]]) -> bool:
    counts = Counter(value for _, value in given).most_common(2)
    if len(counts) < 2 or counts[1][1] < LEAST:
        return False
    features = [opening_features(_said(probe, seed).split("\n")) for seed, _ in given]
    told = told_by(features, [value == counts[0][0] for _, value in given])
    return told is None or told.p > TOLD


def _lists_any(probe: Probe) -> bool:
    return any(
        one.get("enum") or one.get("type") == "boolean"
        for name, schema in _schemas(probe).items()
        for one in schema.values()
        if probe.writes(name)
    )


def _schemas(probe: Probe) -> dict[str, dict[str, dict[str, Any]]]:
    return {tool["function"]["name"]: properties(tool) for tool in probe.tools()}


def _said(probe: Probe, seed: int) -> str:
    return " ".join(str(m.get("content") or "") for m in probe.first(seed) if m["role"] == "user")


def always_in_place(subject: Subject) -> Finding | None:
    """Say that the thing that is meant is always the first, or the last, of a list of several; None else.

    Where the texts speak of places or of times, a rule may go by them.
    """
    cases = [one for one in decided(subject) if _is_listed(one)]
    if len(cases) < LEAST_CASES or _BY_PLACE.search(told_to_agents(subject)):
        return None
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in cases:
        said = " ".join(str(m.get("content") or "") for m in one.first if m["role"] == "user")
        if _BY_PLACE.search(said) or re.search(rf"(?<!\w){re.escape(one.thing)}(?!\w)", said):
            continue  # the request may go by it, or names the thing
        for path, place, n in _places(subject, one):
            places[path].append((place, n))
    for path, found in sorted(places.items()):
        for words, hits in (
            ("first", [at == 0 for at, _ in found]),
            ("last", [at == n - 1 for at, n in found]),
        ):
            share = sum(hits) / len(hits)
            if len(hits) >= LEAST_CASES and share >= SAME:
                told = f"the thing that is meant is the {words} of {path} on {share:.0%} of seeds"
                return Finding("fail", told, share, len(hits), BOUND)
    return None


def _is_listed(one: Decided) -> bool:
    """Tell whether a list of several that was shown has the thing."""
    lists = (names for tool, text in one.raw.items() for _, names in _lists(written(text), tool))
    return any(len(names) >= SHORT and one.thing in names for names in lists)


def _places(subject: Subject, one: Decided) -> Iterator[tuple[str, int, int]]:
    """Yield the lists that show the changed thing once before it is named: path, place, and length."""
    changed = {
        str(value)
        for call in calls_in(subject.probe.oracle(one.seed))
        if subject.probe.writes(call["name"])
        for value in call["arguments"].values()
        if isinstance(value, str)
    }
    seen: set[str] = set()
    if one.thing not in changed:
        return  # who goes through a list comes to its last entry in the end
    for call, text, is_error in answered(subject.probe, one.seed):
        if one.thing in json.dumps(call["arguments"], default=str) or subject.probe.writes(call["name"]):
            return
        for path, names in [] if is_error else _lists(written(text), call["name"]):
            # Where several are changed there is no one that is meant.
            alone = names.count(one.thing) == 1 and len(changed & {*names}) <= 1
            if len(names) >= SHORT and alone and path not in seen:
                seen.add(path)
                yield path, names.index(one.thing), len(names)


def _lists(value: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the lists of an answer as the names of what they list."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield from _lists(held, f"{path}.{key}")
    elif isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            yield path, list(value)
        elif all(isinstance(one, dict) for one in value):
            for key in {key: None for one in value for key in one}:
                names = [one.get(key) for one in value]
                if all(isinstance(one, str) and looks_like_id(one) for one in names):
                    yield f"{path}[].{key}", [str(one) for one in names]


def things_changed(probe: Probe, seed: int) -> str:
    """Return which of several things that are shown are changed, where the request names none of them.

    Who changes all, or always those in the same places, need not judge them; whoever changes others has to.
    """
    shown, changed = _several(probe, seed)
    places = [str(n) for n, one in enumerate(shown, start=1) if one in changed]
    if not shown:
        return ""
    return "all" if len(places) == len(shown) else f"number {' and '.join(places)}"


def left_alone(probe: Probe, seed: int) -> list[str]:
    """Return what is shown like the things that are changed, and is left as it is."""
    shown, changed = _several(probe, seed)
    return [one for one in shown if one not in changed]


def _several(probe: Probe, seed: int) -> tuple[list[str], set[str]]:
    """Return things that are shown and those of them that are changed; none where the request names one."""
    changed = {thing_of(one) for one in calls_in(probe.oracle(seed)) if probe.writes(one["name"])}
    asked = request(probe, seed)
    if not changed or any(one in asked for one in changed):
        return [], set()
    shown = [one for one in names_like(probe, seed, min(changed)) if one not in asked]
    return (shown, changed) if len(shown) > 1 and changed <= set(shown) else ([], set())


def shown_solution(subject: Subject) -> str:
    """Say which answers name the change, or the amount to be worked out, or hold a field that tells it."""
    return _names_the_change(subject) or _shows_the_amount(subject) or telling_field(subject)


def _names_the_change(subject: Subject) -> str:
    """Say that a field holds the next change's tool, where no text says what that field is."""
    probe = subject.probe
    described = " ".join(str(tool["function"].get("description") or "") for tool in probe.tools())
    known = set(re.findall(r"[a-z]{3,}", f"{told_to_agents(subject)} {described}".lower()))
    held: dict[str, list[int]] = {}
    for seed in subject.seeds[: subject.sizes.attack]:
        names = [one["name"] for one in calls_in(probe.oracle(seed)) if probe.writes(one["name"])]
        for call, text, _ in before_writes(probe, seed):
            for path, value in leaves(written(text)):
                field = path.rpartition(".")[2]
                if (
                    value in names[:1]
                    and "[" not in path
                    and not set(re.findall(r"[a-z]{3,}", field)) & known
                ):
                    held.setdefault(f"{call['name']}.{path}", []).append(seed)
    for path, seeds in held.items():
        if len(set(seeds)) > 1:
            return f"seed {seeds[0]}: {path} names the call to be made, on {len(set(seeds))} seeds"
    return ""


def _shows_the_amount(subject: Subject) -> str:
    """Say that a look shows the amount that the capability is to work out."""
    spec = subject.purpose.spec if subject.purpose else None
    if not spec or not _WORKED_OUT.search(f"{spec.name}. {spec.description}"):
        return ""
    probe, shown = subject.probe, dict[int, str]()
    n = 0
    for seed in subject.seeds[: subject.sizes.attack]:
        amounts = [
            value
            for one in calls_in(probe.oracle(seed))
            if probe.writes(one["name"])
            for value in one["arguments"].values()
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) >= LARGE
        ]
        told = [
            (c["name"], leaf) for c, text, _ in before_writes(probe, seed) for leaf in leaves(written(text))
        ]
        n += bool(amounts)
        where = [f"{name}.{path}" for name, (path, value) in told if any(_same(value, a) for a in amounts)]
        shown |= {seed: where[0]} if where else {}
    if n < LEAST_SHOWN or len(shown) < SHARE * n:
        return ""
    seed, path = next(iter(shown.items()))
    return f"seed {seed}: {path} shows what is to be worked out, as on {len(shown)} of {n} seeds"


def _same(value: Any, amount: float) -> bool:
    if isinstance(value, bool):
        return False
    return str(value) in (str(amount), f"{amount / 100:.2f}")
