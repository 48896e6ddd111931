"""Whether the thing that is meant always stands in the same place of a list: then nobody has to find it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from trace_assets.diagnosis.detectors.identity import looks_like_id
from trace_assets.environments.audit.allowed_ways import told_to_agents
from trace_assets.environments.audit.check import Finding, Subject
from trace_assets.environments.audit.decision_tree import Decided, answered, decided
from trace_assets.environments.audit.scripted_rollouts import Probe, calls_in, names_like, request, thing_of
from trace_assets.environments.contract.written import written

LEAST, SHORT, SAME = 16, 3, 0.95
"""Lists that are compared at least, entries from which on a place tells, and share of one place."""
BOUND = "the thing that is meant is not always the first or the last of a list"
_BY_PLACE = re.compile(
    r"\b(?:first|last|latest|newest|oldest|earliest|recent|recently|next|top|soonest|sort(?:ed|s)?|"
    r"ordered by|in order|alphabetical\w*)\b",
    re.IGNORECASE,
)
"""Words of a rule that may go by the place in a list, or of a list that says how it is sorted."""


def always_in_place(subject: Subject) -> Finding | None:
    """Say that the thing that is meant is always the first, or the last, of a list of several; None else.

    Where the texts speak of places or of times, a rule may go by them.
    """
    cases = [one for one in decided(subject) if _is_listed(one)]
    if len(cases) < LEAST or _BY_PLACE.search(told_to_agents(subject)):
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
            if len(hits) >= LEAST and share >= SAME:
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
