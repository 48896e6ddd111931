"""Chance that decides what is paid and shows nowhere: then no agent can know what is right.

The module is played with one of its draws of chance made otherwise, everything else left as it is. Where that
is another task that looks the same, and each one's solution goes unpaid in the other, the oracle knows what
no agent can: a word, an amount, or a whole decision.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from trace_assets.environments.audit import made_otherwise
from trace_assets.environments.audit.check import Subject
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Call,
    Probe,
    again,
    calls_in,
    numbered,
    reads_everything,
)
from trace_assets.targets.seeds import COLUMNS, ROWS

SEEDS, LEAST, TASKS = 8, 2, 120
"""Seeds that are played so, on how many of them a draw is made otherwise at least, and tasks as a rule."""
MOST_DRAWS, MOVES = 48, (1, 2, 3, 5, 7)
"""Draws of a seed that are made otherwise at most, and by how much its number is moved."""
_SPAN, _COUNTS = COLUMNS * ROWS, 999
_OTHERWISE = (
    Path(made_otherwise.__file__)
    .read_text(encoding="utf-8")
    .replace("from __future__ import annotations\n", "")
    + f"\n\nplay_otherwise(globals(), {_SPAN}, {MOST_DRAWS}, {_COUNTS})\n"
)
"""What is put behind a module, where no import from the future may stand."""


def decided_by_chance(subject: Subject) -> tuple[dict[int, str], int]:
    """Find seeds on which a draw that shows nowhere decides what is paid.

    A draw counts only where no look, of the two solutions or of any other tool, is answered otherwise, and
    trying the other deed does not tell either, or costs something.

    Returns:
        What differs, by seed, and how many seeds were played so.
    """
    own = subject.probe
    probe = Probe(subject.pool, own.source + _OTHERWISE, (), own.budget, "otherwise")
    found: dict[int, str] = {}
    seeds = subject.seeds[:SEEDS]
    drawn = max(int(str(probe.oracle(seed + _COUNTS * _SPAN)[0]["content"])) for seed in seeds)
    codes = [*range(1, min(drawn, MOST_DRAWS) + 1), *(MOST_DRAWS + by for by in MOVES)]
    turns = min(SEEDS, max(LEAST, TASKS // len(codes)))
    for place, turn in itertools.product(range(len(codes)), range(turns)):
        seed = seeds[(place + turn) % len(seeds)]
        other = seed + _SPAN * codes[place]
        if seed in found or probe.first(other) != probe.first(seed):
            continue
        if words := _unknown(subject, probe, seed, other):
            found[seed] = words
    return found, len(seeds)


def _unknown(subject: Subject, probe: Probe, seed: int, other: int) -> str:
    """Return how the solutions of two tasks differ that look the same; nothing where an agent can know."""
    script, otherwise = probe.oracle(seed), probe.oracle(other)
    pairs = enumerate(zip(map(_deed, script), map(_deed, otherwise), strict=False))
    at = next((n for n, (one, two) in pairs if one != two), min(len(script), len(otherwise)))
    if at == max(len(script), len(otherwise)):
        return ""
    tried = [*script[: at + 1], *otherwise[at:]]
    if any(
        probe.play(where, numbered(actions)).success
        for where, actions in ((other, script), (seed, otherwise))
    ):
        return ""
    tells = _told(probe, seed, tried[: at + 1]) != _told(probe, other, tried[: at + 1])
    if tells and probe.play(other, numbered(tried)).success:
        return ""  # it may be found out by trying
    if not (probe.best(seed).success and probe.best(other).success):
        return ""
    looks = [again(one) for one in calls_in([*script, *otherwise]) if not subject.probe.writes(one["name"])]
    looks += reads_everything(subject.probe, seed)
    if any(_told(probe, seed, one) != _told(probe, other, one) for one in (script[:at], looks)):
        return ""
    one, two = (_said(actions[at:]) for actions in (script, otherwise))
    return f"{one} is right, and where chance falls otherwise {two}, and nothing shows which"


def _told(probe: Probe, seed: int, actions: list[Action]) -> list[Any]:
    return [answer["messages"] for answer in probe.walk(seed, numbered(actions))]


def _deed(action: Action) -> tuple[list[tuple[str, Any]], str]:
    calls: list[Call] = action.get("tool_calls") or []
    return [(one["name"], one["arguments"]) for one in calls], str(action.get("content") or "")


def _said(actions: list[Action]) -> str:
    calls, words = _deed(actions[0]) if actions else ([], "nothing more")
    return ", ".join(f"{name} {given}" for name, given in calls) or f"'{words}'"
