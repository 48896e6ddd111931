"""Which of a round's adapters stand for it as one model, and whether another round is worth playing.

A round hands one model to the next: its base model with the exact sum of some adapters merged in, or with the
one adapter that was trained for all capabilities. Validation has played every adapter and, once a task, each
pair and the sum of all; the best of these is taken, except that none is which is shown to lose on some skill.
So what was taught before is kept: it is part of the base model that losses are measured against.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from trace_assets.evaluation.arms import JOINT, SEQUENTIAL, TOGETHER, choice_of
from trace_assets.records import NO_ADAPTER, Evaluation
from trace_assets.routing.sets import members_of
from trace_assets.stats.intervals import Estimate
from trace_assets.stats.paired import Comparison, compare

FEWEST = 8
"""Tasks of a skill from which on a loss on it can bar a candidate."""
TOLERATED = 0.02
"""Loss on a skill, in pass rate, that bars nothing, however certain it is."""

FOR_ALL = (JOINT, SEQUENTIAL, TOGETHER)
"""Adapters for all capabilities at once: each stands for a round alone, never in a sum."""

Counts = Mapping[str, tuple[int, int]]
"""Task id to trials that passed, and trials that were judged."""


@dataclass(frozen=True)
class AgentChoice:
    """What validation chose.

    Attributes:
        members: The adapters whose sum is taken, or the one for all; none where no candidate passes more than
            the base model.
        compared: The choice against the base model; None where nothing was chosen.
        n_candidates: How many were compared.
        harmful: Those that are shown to lose on some skill.
        detail: The reason in words.
    """

    members: tuple[str, ...]
    compared: Comparison | None
    n_candidates: int
    harmful: tuple[str, ...]
    detail: str


def choose_agent(validation: Iterable[Evaluation], usable: Collection[str]) -> AgentChoice:
    """Choose the sum of adapters, or the one adapter for all, that passes most validation tasks.

    Args:
        validation: Evaluations on validation tasks; arms `base`, `adapter:<name>`, `sum:<names>` and those of
            `FOR_ALL` count.
        usable: Adapters that may be chosen: those that learned their environments. Harm is judged here, of
            each alone and of each sum.
    """
    counts: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    skills: dict[str, str] = {}
    for row in validation:
        choice = row.arm if row.arm in FOR_ALL else choice_of(row.arm)
        if choice is None or not set(members_of(choice)) <= set(usable) or row.success is None:
            continue
        passed, judged = counts[choice].get(row.task_id, (0, 0))
        counts[choice][row.task_id] = passed + row.success, judged + 1
        skills[row.task_id] = row.skill
    base = counts.pop(NO_ADAPTER, {})
    found = {choice: _compared(own, base) for choice, own in sorted(counts.items())}
    harmful = tuple(choice for choice, own in sorted(counts.items()) if _loses(own, base, skills))
    best = min(
        (choice for choice, one in found.items() if choice not in harmful and (one.delta.value or 0.0) > 0),
        key=lambda choice: (-(found[choice].delta.value or 0.0), len(members_of(choice)), choice),
        default=None,
    )
    barred = f"; shown to lose on a skill: {', '.join(harmful)}" if harmful else ""
    if best is None:
        said = (
            f"none of {len(found)} candidates passes more validation tasks than the base model{barred}"
            if found
            else "no adapter may be chosen"
        )
        return AgentChoice((), None, len(found), harmful, said)
    one = found[best]
    said = (
        f"{best} passes {_shown(one.arm)} % of {one.n_tasks} validation tasks, {_shown(one.delta)} points "
        f"more than its base model; the best of {len(found)} candidates{barred}"
    )
    return AgentChoice(members_of(best), one, len(found), harmful, said)


def why_last(delta: float | None, number: int, most: int, min_gain: float, spent: int, budget: int) -> str:
    """Say why no round follows; empty where one does.

    Args:
        delta: By how much the round's agent passes more of the validation tasks; None where it has none.
        number: The round.
        most: Rounds at most.
        min_gain: What a round must gain.
        spent: Training rollouts so far.
        budget: No round begins from so many on; 0 sets no bound.

    >>> why_last(0.3, 1, 2, 0.01, 8448, 0)
    ''
    >>> why_last(None, 2, 3, 0.01, 8448, 0)
    'nothing was kept'
    """
    if delta is None:
        return "nothing was kept"
    if delta < min_gain:
        return f"a gain of {100 * delta:+.1f} points is below rounds.min_gain ({100 * min_gain:.1f})"
    if number >= most:
        return f"rounds.most = {most}"
    if budget and spent >= budget:
        return f"{spent:,} training rollouts were spent, of rounds.rollouts = {budget:,}"
    return ""


def _shown(one: Estimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "-"
    return f"{100 * one.value:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]"


def _compared(own: Counts, base: Counts) -> Comparison:
    tasks = sorted(own.keys() & base.keys())
    columns = [np.array([side[task][part] for task in tasks]) for side in (own, base) for part in (0, 1)]
    return compare(*columns)


def _loses(own: Counts, base: Counts, skills: Mapping[str, str]) -> bool:
    """Whether the interval of the difference lies below what is tolerated, on the tasks of some skill."""
    for skill in sorted(set(skills.values())):
        some = {task: count for task, count in own.items() if skills[task] == skill}
        one = _compared(some, base)
        if one.n_tasks >= FEWEST and one.delta.high is not None and one.delta.high < -TOLERATED:
            return True
    return False
