"""Values of a change that the schema lists and the request does not tell: they are a choice of their own."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from trace_assets.environments.audit.dependence import told_by
from trace_assets.environments.audit.opening_words import opening_features
from trace_assets.environments.audit.scripted_rollouts import Call, Probe, calls_in, properties
from trace_assets.targets.seeds import COLUMNS, ROWS

Place = tuple[str, str]
"""A tool and its argument."""
SEEDS, LEAST = 64, 12
"""Seeds by which it is told whether a value is a choice, and with which each is given at least."""
TOLD = 0.01
"""Chance of as much by accident, below which the first messages tell a value."""


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
