"""Would another study find and keep the same? The diagnosis repeated on resamples and on chance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trace_assets.diagnosis.candidates import Pool, twins
from trace_assets.diagnosis.chance import SHUFFLES, Findings, Null, chance_null, shuffled
from trace_assets.diagnosis.contrast import contrast, contrast_matrix, count_by_task
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.selection import select_matrix
from trace_assets.records import Capability, Contrast, Drift, Label, Stability, Triage
from trace_assets.settings import ContrastSection, Discovery, Selection
from trace_assets.stats.intervals import Estimate, wilson

PERMUTATIONS = 1000
"""Of p-values that are sampled: rare, since they are mostly exact."""
RESAMPLES = 200
"""Bootstrap draws behind the bounds that the selection asks for, in each repetition."""
FEW_SHUFFLES = 199
"""Shuffles behind the null of each resample, which is of other tasks than the study's."""


@dataclass(frozen=True)
class Candidates:
    """One target's study, as far as it can be repeated without asking anybody again.

    Attributes:
        target: The target.
        capabilities: Its candidates, in the order of the matrix's rows.
        matrix: Their labels beside outcomes.
        pool: All that detectors propose on the same columns; None when discovery is not repeated.
        considered: Tests that q values are corrected for when discovery is not repeated.
    """

    target: str
    capabilities: Sequence[Capability]
    matrix: LabelMatrix
    pool: Pool | None = None
    considered: int = 0


@dataclass(frozen=True)
class Sections:
    """The settings that decide."""

    discovery: Discovery = field(default_factory=Discovery)
    contrast: ContrastSection = field(default_factory=ContrastSection)
    selection: Selection = field(default_factory=Selection)


def stability(
    study: Candidates,
    sections: Sections,
    *,
    resamples: int = 50,
    shuffles: int = 50,
    seed: int = 0,
    tick: Callable[[], None] = lambda: None,
) -> list[Stability]:
    """Repeat a study on tasks drawn with replacement, and on shuffled outcomes.

    A resample stands for another study of the same size if the world is as it was seen here (Efron 1979): the
    share of them in which a candidate is kept is its selection probability. Labels do not depend on outcomes,
    so they are computed once; detectors' candidates are picked anew from all proposals each time, by the
    resample's outcomes. Candidates of different runs are the same when their labels agree on nine tenths of
    the trajectories that either is relevant to, so a twin under another name counts. Candidates of a model
    are not proposed anew: that would mean asking it again.

    For the null, whole tasks swap their outcomes with other tasks of as many trials, and then the trials of
    each task among themselves: every connection between label and outcome is cut, while the outcomes of a
    task keep their correlation, and the whole procedure is repeated. What it still keeps is kept by chance.

    Args:
        study: What to repeat.
        sections: Settings of discovery, contrast and selection.
        resamples: Studies on resampled tasks.
        shuffles: Studies on shuffled outcomes.
        seed: The same seed gives the same figures.
        tick: Called after each repetition.

    Returns:
        One row a candidate.
    """
    matrix, known = study.matrix, study.matrix.capabilities
    tasks = int(matrix.tasks.max(initial=-1)) + 1
    discovered, kept, by_chance = (np.zeros(len(known), dtype=np.int64) for _ in range(3))
    gaps: list[list[float]] = [[] for _ in known]
    chance_sizes: list[int] = []
    quick = sections.contrast.model_copy(update={"resamples": RESAMPLES, "permutations": PERMUTATIONS})
    plan = replace(sections, contrast=quick)
    for turn in range(resamples):
        rng = np.random.default_rng([seed, 0, turn])
        drawn = rng.integers(0, tasks, size=tasks)
        columns = columns_of(matrix.tasks, drawn)
        again = matrix.draw(drawn)
        null = partial(_null, study, again, columns, plan, FEW_SHUFFLES)
        run = _once(study, again, columns, plan, null)
        discovered += run.found
        kept += run.kept
        for place, gap in enumerate(run.gaps):
            if gap is not None:
                gaps[place].append(gap)
        tick()
    for run in _on_shuffles(study, plan, shuffles, seed):
        by_chance += run.kept
        chance_sizes.append(run.n_kept)
        tick()
    level = sections.contrast.confidence
    any_kept = sum(size > 0 for size in chance_sizes)
    null_low, null_high = wilson(any_kept, shuffles, level)
    names = {one.capability_id: one.name for one in study.capabilities}
    rows = []
    for place, capability in enumerate(known):
        found, taken = int(discovered[place]), int(kept[place])
        rows.append(
            Stability(
                capability_id=capability,
                target=study.target,
                name=names.get(capability, capability),
                rediscovers=study.pool is not None,
                n_resamples=resamples,
                discovered=found / resamples,
                discovered_low=wilson(found, resamples, level)[0],
                discovered_high=wilson(found, resamples, level)[1],
                kept=taken / resamples,
                kept_low=wilson(taken, resamples, level)[0],
                kept_high=wilson(taken, resamples, level)[1],
                gap_mean=float(np.mean(gaps[place])) if gaps[place] else None,
                gap_sd=float(np.std(gaps[place], ddof=1)) if len(gaps[place]) > 1 else None,
                n_shuffles=shuffles,
                null_kept=int(by_chance[place]) / shuffles,
                null_kept_high=wilson(int(by_chance[place]), shuffles, level)[1],
                null_any=any_kept / shuffles,
                null_any_low=null_low,
                null_any_high=null_high,
                null_mean=float(np.mean(chance_sizes)),
            )
        )
    return rows


def _on_shuffles(study: Candidates, plan: Sections, shuffles: int, seed: int) -> Iterator[_Run]:
    matrix = study.matrix
    everything = np.arange(len(matrix.failed))
    # Shuffles of a shuffle are shuffles of the study, so one null serves them all.
    null = cache(partial(_null, study, matrix, everything, plan, SHUFFLES, 1.0))
    for turn in range(shuffles):
        rng = np.random.default_rng([seed, 1, turn])
        failed = shuffled(matrix.tasks, matrix.failed, rng, matrix.policy)
        yield _once(study, replace(matrix, failed=failed), everything, plan, lambda _: null())


def columns_of(tasks: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the columns of some tasks in the order in which `LabelMatrix.draw` puts them.

    >>> columns_of(np.array([0, 1, 1]), np.array([1, 0, 1])).tolist()
    [1, 2, 0, 1, 2]
    """
    order = np.argsort(tasks, kind="stable")
    starts = np.searchsorted(tasks[order], np.arange(int(tasks.max(initial=-1)) + 2))
    parts = [order[starts[task] : starts[task + 1]] for task in drawn]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class _Run:
    """One repetition, by the study's own candidates."""

    found: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    gaps: list[float | None]
    n_kept: int
    n_promising: int


def _null(
    study: Candidates,
    matrix: LabelMatrix,
    columns: NDArray[np.int64],
    sections: Sections,
    shuffles: int,
    upto: float,
) -> Null:
    """Return what shuffled outcomes come to, candidates picked anew where the study's are."""
    findings = Findings.of_candidates(matrix)
    if study.pool is not None:
        own = [place for place, one in enumerate(study.capabilities) if one.detector is None]
        codes, norms = study.pool.take(columns).normed(sections.discovery.support(int(matrix.failed.sum())))
        findings = Findings.of_pool(codes, norms, sections.discovery.max_candidates, matrix.codes[own])
    return chance_null(matrix, findings, sections.contrast, sections.selection, upto, shuffles=shuffles)


def _once(
    study: Candidates,
    matrix: LabelMatrix,
    columns: NDArray[np.int64],
    sections: Sections,
    null: Callable[[float], Null],
) -> _Run:
    again, considered = matrix, study.considered
    if study.pool is not None:
        pool = study.pool.take(columns)
        passed, failed = ~matrix.failed, matrix.failed
        picked = pool.pick(passed, failed, sections.discovery)
        own = [place for place, one in enumerate(study.capabilities) if one.detector is None]
        again = replace(
            matrix,
            capabilities=tuple(f"{place:04}" for place in range(len(picked) + len(own))),
            codes=np.concatenate([pool.codes[picked], matrix.codes[own]]),
            evidence=np.concatenate([pool.evidence[picked], matrix.evidence[own]]),
            votes=None,
            posterior=None,
        )
        considered = pool.considered(passed, failed, sections.discovery) + len(own)
    rows = contrast_matrix(again, sections.contrast, study.target, considered=considered)
    decided = select_matrix(rows, again, sections.selection, null=null, parents=_parents(study, again))
    chosen = {row.capability_id for row in decided if row.kept}
    places = [place for place, one in enumerate(again.capabilities) if one in chosen]
    alike = twins(matrix.codes, again.codes) if study.pool is not None else np.eye(len(rows), dtype=np.bool_)
    found, kept = np.asarray(alike.any(axis=1)), np.asarray(alike[:, places].any(axis=1))
    promising = sum(row.verdict == "promising" for row in decided)
    return _Run(found, kept, _gaps(matrix), len(places), promising)


def _parents(study: Candidates, again: LabelMatrix) -> dict[str, str | None]:
    """Return what a model proposed, by its name in a repetition, with the name of what is broader."""
    own = [one for one in study.capabilities if one.detector is None]
    if not own:
        return {}
    called = dict(zip((one.capability_id for one in own), again.capabilities[-len(own) :], strict=True))
    if study.pool is None:
        called = {one.capability_id: one.capability_id for one in own}
    return {called[one.capability_id]: called.get(one.parent or "") for one in own}


def _gaps(matrix: LabelMatrix) -> list[float | None]:
    totals = count_by_task(matrix).sum(axis=0)
    return [
        float(row[0] / row[1] - row[2] / row[3]) if row[1] and row[3] else None for row in totals.tolist()
    ]


# Drift: does a capability's contrast in a new batch leave the band that earlier batches gave it?


Measure = Literal["gap", "coverage"]
MEASURES: tuple[Measure, ...] = ("gap", "coverage")
FEWEST_PERMUTATIONS = 100
"""The p-values of the two contrasts are not used, and permutations are most of their cost."""


def simultaneous_confidence(confidence: float, comparisons: int) -> float:
    """Return the confidence of each interval with which all of them hold together (Bonferroni 1936).

    >>> round(simultaneous_confidence(0.95, 10), 4)
    0.995
    """
    return 1 - (1 - confidence) / max(1, comparisons)


def change(before: Estimate, now: Estimate) -> Estimate:
    """Return `now - before` of two independent estimates with its interval.

    MOVER (Zou and Donner 2008, Statistics in Medicine 27:1693, equation 2 without correlation) needs only the
    two intervals, which are not symmetric near 0 and 1. Two intervals that just touch are no test: where the
    standard errors are equal they leave each other only at 2.8 of them, while the difference is clear at 2.0.

    >>> moved = change(Estimate(0.9, 0.8, 0.96), Estimate(0.3, 0.2, 0.42))
    >>> [round(bound, 2) for bound in (moved.value, moved.low, moved.high) if bound is not None]
    [-0.6, -0.72, -0.44]
    >>> change(Estimate(0.9, None, None), Estimate(0.3, 0.2, 0.42)).low is None
    True
    """
    if before.value is None or now.value is None:
        return Estimate(None, None, None)
    value = now.value - before.value
    if before.low is None or before.high is None or now.low is None or now.high is None:
        return Estimate(value, None, None)
    below = sqrt((now.value - now.low) ** 2 + (before.high - before.value) ** 2)
    above = sqrt((now.high - now.value) ** 2 + (before.value - before.low) ** 2)
    return Estimate(value, value - below, value + above)


def drift(
    labels: Sequence[Label],
    triage: Sequence[Triage],
    section: ContrastSection,
    target: str,
    batch: str,
    new: Collection[str],
) -> list[Drift]:
    """Compare gap and coverage of every capability between new trajectories and all others of a target.

    Both sides are estimated anew with the same labels' definitions, rather than against intervals that were
    stored when the dictionary was another. A task that occurs on both sides makes the intervals too wide, not
    too narrow. Two limits: a figure that was picked for being large among earlier batches falls back a little
    in any new one (with `discovery.split = "half"` it does not), and each new batch is a further look.

    Args:
        labels: Of the target's capabilities, all batches.
        triage: Outcomes of the target's trajectories, all batches.
        section: Resamples, seed, and the confidence with which all intervals hold together.
        target: Whose trajectories to use.
        batch: The new batch, named in the rows.
        new: Ids of its trajectories.

    Returns:
        One row a capability and measure that both sides have labels for, sorted; `drifted` where the interval
        of the change leaves out 0. Figures and bounds that cannot be had are None and never drifted.
    """
    sides = [
        {row.capability_id for row in labels if (row.trajectory_id in new) is side} for side in (False, True)
    ]
    both = sides[0] & sides[1]
    if not both:
        return []
    level = simultaneous_confidence(section.confidence, len(both) * len(MEASURES))
    narrow = section.model_copy(update={"confidence": level, "permutations": FEWEST_PERMUTATIONS})
    before, now = (
        {
            row.capability_id: row
            for row in contrast(
                [row for row in labels if row.capability_id in both and (row.trajectory_id in new) is side],
                [row for row in triage if (row.trajectory_id in new) is side],
                narrow,
                target,
            )
        }
        for side in (False, True)
    )
    return [
        _row(before[capability], now[capability], measure, batch, level)
        for capability in sorted(before.keys() & now.keys())
        for measure in MEASURES
    ]


def _row(before: Contrast, now: Contrast, measure: Measure, batch: str, level: float) -> Drift:
    first, second = _estimate(before, measure), _estimate(now, measure)
    moved = change(first, second)
    return Drift(
        task_batch=batch,
        target=now.target,
        capability_id=now.capability_id,
        measure=measure,
        before=first.value,
        before_low=first.low,
        before_high=first.high,
        now=second.value,
        now_low=second.low,
        now_high=second.high,
        change=moved.value,
        change_low=moved.low,
        change_high=moved.high,
        n_before=_size(before, measure),
        n_now=_size(now, measure),
        confidence=level,
        drifted=moved.low is not None and moved.high is not None and not moved.low <= 0 <= moved.high,
    )


def _estimate(row: Contrast, measure: Measure) -> Estimate:
    if measure == "gap":
        return Estimate(row.gap, row.gap_low, row.gap_high)
    return Estimate(row.coverage, row.coverage_low, row.coverage_high)


def _size(row: Contrast, measure: Measure) -> int:
    return row.n_failed_relevant + row.n_passed_relevant if measure == "gap" else row.n_failed
