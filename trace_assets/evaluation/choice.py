"""Which way to put adapters together stands for a study or a round, and whether to play on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trace_assets.evaluation.arms import (
    BASE,
    COMPOSED,
    CONSOLIDATED,
    JOINT,
    ROUTED,
    SEQUENTIAL,
    SUM,
    TOGETHER,
    choice_of,
)
from trace_assets.records import NO_ADAPTER, CompositionChoice, Evaluation
from trace_assets.routing.router import members_of
from trace_assets.stats.intervals import Estimate
from trace_assets.stats.paired import Comparison, compare, pass_rate

CANDIDATES = (BASE, ROUTED, TOGETHER, JOINT, SEQUENTIAL, CONSOLIDATED, SUM, COMPOSED)
"""The simplest first: among equals it is chosen. Oracles and GRPO on the target itself are no candidates."""

Ints = NDArray[np.int64]
FEWEST = 8
"""Tasks of a skill from which on a loss on it can bar a candidate."""
TOLERATED = 0.02
"""Loss on a skill, in pass rate, that bars nothing, however certain it is."""

FOR_ALL = (JOINT, SEQUENTIAL, TOGETHER)
"""Adapters for all capabilities at once: each stands for a round alone, never in a sum."""

Rewards = Mapping[str, tuple[int, int]]
"""Task id to trials that passed, and trials that were judged."""


class Counts(NamedTuple):
    """Passed and judged trials, by task."""

    passed: Ints
    judged: Ints


def choose(
    validation: Sequence[Evaluation],
    refused: Mapping[str, str],
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> list[CompositionChoice]:
    """Compare the candidates on validation tasks, and choose the one with the highest pass rate.

    Args:
        validation: Rows of the candidates' arms on the same validation tasks.
        refused: Candidate to why it may not be chosen, such as opposed gradients.
        resamples: Bootstrap draws over tasks.
        seed: The same seed gives the same intervals.

    Returns:
        A row a candidate that was played or refused, in the order of `CANDIDATES`; one of those that were
        played and not refused is chosen. None where no base model was played.
    """
    arms = [arm for arm in CANDIDATES if any(row.arm == arm for row in validation)]
    tasks = sorted({row.task_id for row in validation})
    counts = {arm: _counts(validation, arm, tasks) for arm in arms}
    open_to_choice = [arm for arm in arms if arm not in refused and counts[arm].judged.any()]
    if not open_to_choice:
        return []
    rates = {arm: _mean(counts[arm]) for arm in open_to_choice}
    chosen = max(open_to_choice, key=lambda arm: (rates[arm], -CANDIDATES.index(arm)))
    others = [arm for arm in open_to_choice if arm != chosen]
    second = max(others, key=lambda arm: (rates[arm], -CANDIDATES.index(arm))) if others else ""
    rows = []
    for arm in CANDIDATES:
        if arm not in counts and arm not in refused:
            continue
        own = counts.get(arm, Counts(np.zeros(len(tasks), np.int64), np.zeros(len(tasks), np.int64)))
        rate = pass_rate(own.passed, own.judged, resamples=resamples, seed=seed)
        less = compare(*counts[chosen], *own, resamples=resamples, seed=seed).delta if arm != chosen else None
        rows.append(
            CompositionChoice(
                arm=arm,
                chosen=arm == chosen,
                runner_up=arm == second,
                refused=refused.get(arm, ""),
                n_tasks=int((own.judged > 0).sum()),
                n_trials=int(own.judged.sum()),
                pass_rate=rate.value,
                pass_rate_low=rate.low,
                pass_rate_high=rate.high,
                behind=less.value if less else None,
                behind_low=less.low if less else None,
                behind_high=less.high if less else None,
            )
        )
    return rows


def _counts(rows: Sequence[Evaluation], arm: str, tasks: Sequence[str]) -> Counts:
    place = {task: index for index, task in enumerate(tasks)}
    found = np.zeros((2, len(tasks)), dtype=np.int64)
    for row in rows:
        if row.arm == arm and row.success is not None:
            found[:, place[row.task_id]] += (int(row.success), 1)
    return Counts(found[0], found[1])


def _mean(counts: Counts) -> float:
    seen = counts.judged > 0
    return float(np.mean(counts.passed[seen] / counts.judged[seen]))


def chosen_arm(rows: Sequence[CompositionChoice]) -> str:
    """Return what validation chose; `routed` where nothing was compared."""
    return next((row.arm for row in rows if row.chosen), ROUTED)


def sentence(rows: Sequence[CompositionChoice]) -> str:
    """Say what was chosen, by how much, and what was refused."""
    best = next((row for row in rows if row.chosen), None)
    if best is None:
        return "no candidate was played on validation tasks, so nothing is chosen beyond routing."
    rate = _percent(best.pass_rate, best.pass_rate_low, best.pass_rate_high)
    said = f"validation chooses '{best.arm}': {rate} of {best.n_tasks} tasks"
    for row in rows:
        if row.arm == ROUTED != best.arm or row.runner_up:
            said += f", {_points(row)} points over '{row.arm}'"
    refused = "; ".join(f"'{row.arm}' is refused: {row.refused}" for row in rows if row.refused)
    return f"{said}. {refused}".strip() if refused else f"{said}."


def clear(rows: Sequence[CompositionChoice]) -> bool | None:
    """Whether the chosen one is shown to pass more than the next; None with one candidate alone."""
    low = [row.behind_low for row in rows if row.runner_up]
    return low[0] > 0 if low and low[0] is not None else None


def _percent(value: float | None, low: float | None, high: float | None) -> str:
    bounds = f" [{100 * low:.1f}, {100 * high:.1f}]" if low is not None and high is not None else ""
    return f"{100 * (value or 0):.1f} %{bounds}"


def _points(row: CompositionChoice) -> str:
    if row.behind is None:
        return "unknown"
    bounds = (
        f" [{100 * row.behind_low:+.1f}, {100 * row.behind_high:+.1f}]"
        if row.behind_low is not None and row.behind_high is not None
        else ""
    )
    return f"{100 * row.behind:+.1f}{bounds}"


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


def _compared(own: Rewards, base: Rewards) -> Comparison:
    tasks = sorted(own.keys() & base.keys())
    columns = [np.array([side[task][part] for task in tasks]) for side in (own, base) for part in (0, 1)]
    return compare(*columns)


def _loses(own: Rewards, base: Rewards, skills: Mapping[str, str]) -> bool:
    """Whether the interval of the difference lies below what is tolerated, on the tasks of some skill."""
    for skill in sorted(set(skills.values())):
        some = {task: count for task, count in own.items() if skills[task] == skill}
        one = _compared(some, base)
        if one.n_tasks >= FEWEST and one.delta.high is not None and one.delta.high < -TOLERATED:
            return True
    return False
