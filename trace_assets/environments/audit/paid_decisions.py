"""Whether decisions of real runs that have the capability are paid more than those of runs that lack it."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.environments.audit.check import Finding, Purpose, Subject, with_purpose
from trace_assets.environments.audit.decision_tree import (
    NO_WRITE,
    Decided,
    Tree,
    collapsed,
    decided,
    grow,
    now_of,
    questions,
    tool_of,
    with_ages,
)
from trace_assets.environments.audit.dependence import told_by
from trace_assets.environments.audit.scripted_rollouts import (
    Action,
    Probe,
    again,
    arguments_for,
    call,
    calls_in,
    closing,
    numbered,
    say,
)
from trace_assets.records import DecisionPattern

NO_REQUEST = "the capability turns on what is asked for, and runs are told apart by what looks showed them"
NO_RUNS = "no labelled runs of its capability were given"
MIN_RUNS = 4
"""Runs of a label that a comparison needs at least."""
UNPAID = 0.25
"""Of decisions that real runs show to be right, where no more than this share succeeds, they are not paid."""
PERMUTATIONS = 1000
BY_REQUEST = frozenset({"write_on_kind"})
"""Detector families whose capability is to decide by what is asked for: no look tells it."""


@dataclass(frozen=True)
class RealCase:
    """What a labelled run decided about a thing of the environment's kind.

    Attributes:
        row: What it had been shown, moments as hours before now.
        looked: Whether it looked before it changed anything.
        writes: Its changes that the environment has tools for.
    """

    pattern: DecisionPattern
    row: dict[str, Any]
    looked: bool
    writes: tuple[str, ...]


@with_purpose
def pays_like_labels(subject: Subject, purpose: Purpose) -> Finding:
    """Decisions of real runs that have the capability are paid more than those of runs that lack it.

    A labelled run is replayed as its decision: whether it looked before, and which changes it made, on seeds
    on which the tools show what they showed it (the same leaf of the tree by which the oracle decides, and of
    the one by which runs that have the capability do). Over all runs, and wherever there are enough of them,
    those labelled PRESENT must earn more; and what they decide must not go unpaid anywhere.
    """
    bound = f"PRESENT - LACKING > {subject.rules.min_run_gap}, everywhere"
    if not purpose.runs:
        return Finding("skip", NO_RUNS)
    if purpose.spec.detector in BY_REQUEST:
        return Finding("skip", NO_REQUEST)
    cases = relevant_cases(subject, purpose)
    counts = Counter(label for _, label in {(c.pattern.trajectory_id, c.pattern.label) for c in cases})
    if min(counts["PRESENT"], counts["LACKING"]) < MIN_RUNS:
        told = f"{counts['PRESENT']} runs PRESENT and {counts['LACKING']} LACKING are about what it shows"
        return Finding("skip", f"{told}, {MIN_RUNS} of each are needed")
    cells = _cells(subject, cases)
    placed = [(case, cell) for case in cases if (cell := cells.of(case)) is not None]
    if min(Counter(c.pattern.label for c, _ in placed)[one] for one in ("PRESENT", "LACKING")) < MIN_RUNS:
        return Finding("skip", f"only {len(placed)} of {len(cases)} decisions were shown what it shows")
    p = _differ(placed)
    if p > subject.rules.max_run_p:
        return Finding("skip", f"the labelled runs differ in nothing that can be replayed (p = {p:.2f})")
    paid = _Payments(subject, cells)
    rewards = [(case.pattern.label, cell, paid.mean(cell, case)) for case, cell in placed]
    good = [
        (case.row, reward >= 1.0)
        for (case, _), (label, _, reward) in zip(placed, rewards, strict=True)
        if label == "PRESENT" and case.row
    ]
    means = {label: fmean(r for one, _, r in rewards if one == label) for label in ("PRESENT", "LACKING")}
    gap = means["PRESENT"] - means["LACKING"]
    low, high = _interval(rewards)
    words = f"PRESENT earns {means['PRESENT']:.2f}, LACKING {means['LACKING']:.2f} ({len(placed)} decisions)"
    wrong = "over all"
    if gap > subject.rules.min_run_gap:
        wrong = _worst_cell(rewards) or unpaid_group(good, subject.rules.max_run_p)
    if wrong:
        words += f"; {wrong}: what runs without the capability do is paid, or what those with it do is not"
    return Finding("fail" if wrong else "pass", words, gap, len(placed), bound, low=low, high=high)


def relevant_cases(subject: Subject, purpose: Purpose) -> list[RealCase]:
    """Return the decisions about things of the environment's kind, one a run that changed none of them."""
    own = decided(subject)
    probe, tools = subject.probe, {tool["function"]["name"] for tool in subject.probe.tools()}
    reads = {name for one in own for name in one.reads}
    about = reads | {n for one in own for n in one.writes if not hands_over(n)}
    now = now_of(subject)
    by_run: dict[str, list[RealCase]] = defaultdict(list)
    for pattern in purpose.runs:
        made = [name for name in pattern.calls if name in tools]
        if pattern.label == "NA" or not about & set(made):
            continue
        first = next((i for i, name in enumerate(made) if probe.writes(name)), len(made))
        shown = {k: v for k, v in pattern.shown.items() if tool_of(k) in reads}
        by_run[pattern.trajectory_id].append(
            RealCase(
                pattern,
                with_ages(shown, now),
                any(name in reads for name in made[:first]),
                collapsed([name for name in made if probe.writes(name)]),
            )
        )
    found: list[RealCase] = []
    for cases in by_run.values():
        changed = [one for one in cases if any(not hands_over(name) for name in one.writes)]
        found += changed or cases[-1:]
    return found


@dataclass(frozen=True)
class Cells:
    """Where decisions are compared: leaves of two trees.

    Attributes:
        oracle: By what the oracle decides.
        real: By what runs that have the capability decide.
        seeds: Leaf of both -> seeds of the environment in it.
    """

    oracle: Tree
    real: Tree
    reads: frozenset[str]
    seeds: dict[str, list[Decided]]

    def of(self, case: RealCase) -> str | None:
        """Return the cell of a real decision; empty for all seeds, None where it cannot be said."""
        if not case.row and not case.looked:
            return ""
        cell = self._of(case.row)
        return cell if cell in self.seeds else None

    def _of(self, row: dict[str, Any]) -> str | None:
        one, other = self.oracle.leaf(row), self.real.leaf(row)
        if one is None or other is None:
            return None
        return " / ".join(dict.fromkeys(way for way in (one[0], other[0]) if way)) or "any"


def _cells(subject: Subject, cases: Sequence[RealCase]) -> Cells:
    own = decided(subject)
    reads = frozenset(name for one in own for name in one.reads)
    rows = [{k: v for k, v in one.row.items() if tool_of(k) in reads} for one in own]
    known = {name for case in cases for name in case.row}
    shared = [{k: v for k, v in row.items() if k in known} for row in rows]
    good = [case for case in cases if case.pattern.label == "PRESENT" and case.row]
    real = (
        grow([case.row for case in good], [case.writes for case in good], depth=2, least=3)
        if good
        else Tree("")
    )
    cells = Cells(grow(shared, [one.kind for one in own]), real, reads, {"": list(own)})
    for one, row in zip(own, shared, strict=True):
        cell = cells._of(row)
        if cell is not None:
            cells.seeds.setdefault(cell, []).append(one)
    return cells


def _differ(placed: Sequence[tuple[RealCase, str]]) -> float:
    """Return the chance that runs of the two labels differ so much in what they decide by accident.

    The statistic is how often the label that most cases of a cell and decision have is the right one; labels
    are dealt anew to whole runs.
    """
    runs = sorted({(case.pattern.trajectory_id, case.pattern.label) for case, _ in placed})
    place = {run: n for n, (run, _) in enumerate(runs)}
    kinds: dict[object, int] = {}
    table = np.zeros((len(placed), 2), dtype=int)
    for n, (case, cell) in enumerate(placed):
        kind = kinds.setdefault((cell, case.looked, case.writes), len(kinds))
        table[n] = place[case.pattern.trajectory_id], kind
    labels = np.array([label == "PRESENT" for _, label in runs])
    rng = np.random.default_rng(0)

    def right(dealt: np.ndarray) -> int:
        mine = dealt[table[:, 0]]
        yes = np.bincount(table[:, 1], weights=mine, minlength=len(kinds))
        return int(np.maximum(yes, np.bincount(table[:, 1], minlength=len(kinds)) - yes).sum())

    seen = right(labels)
    return (1 + sum(right(rng.permutation(labels)) >= seen for _ in range(PERMUTATIONS))) / (1 + PERMUTATIONS)


def _interval(rewards: Sequence[tuple[str, str, float]]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    sides = [np.array([r for label, _, r in rewards if label == one]) for one in ("PRESENT", "LACKING")]
    drawn = [rng.choice(side, (PERMUTATIONS, len(side))).mean(axis=1) for side in sides]
    low, high = np.quantile(drawn[0] - drawn[1], (0.025, 0.975))
    return float(low), float(high)


def _worst_cell(rewards: Sequence[tuple[str, str, float]]) -> str:
    """Return the cell in which labels are paid the wrong way round, empty where there is none."""
    cells: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for label, cell, reward in rewards:
        cells[cell][label].append(reward)
    for cell, held in sorted(cells.items()):
        good, bad = held["PRESENT"], held["LACKING"]
        unpaid = len(good) >= MIN_RUNS and fmean(r >= 1.0 for r in good) <= UNPAID
        turned = min(len(good), len(bad)) >= 3 and fmean(good) < fmean(bad)
        if cell and (unpaid or turned):
            told = f"PRESENT {fmean(good):.2f} (n = {len(good)})"
            told += f", LACKING {fmean(bad):.2f} (n = {len(bad)})" if bad else ""
            return f"where {cell}: {told}"
    return ""


def unpaid_group(good: Sequence[tuple[Mapping[str, Any], bool]], p: float) -> str:
    """Return what right decisions that are not paid have in common, empty where it is nothing.

    Args:
        good: What was shown when a right decision was made, and whether it is paid.
        p: Chance of it by accident, at the most.

    >>> unpaid_group([({"insured": "yes" if n % 3 else "no"}, n % 3 > 0) for n in range(18)], 0.01)
    'where insured = no: 6 of 6 right decisions are not paid'
    """
    asked = list(questions([row for row, _ in good]))
    rows = [{str(one): one.holds(row) is True for one in asked} for row, _ in good]
    told = told_by(rows, [not paid for _, paid in good])
    if told is None or told.p > p:
        return ""
    for one in asked:
        for side in (True, False):
            inside = [paid for (row, paid), held in zip(good, rows, strict=True) if held[str(one)] is side]
            if len(inside) < MIN_RUNS or fmean(inside) > UNPAID or len(inside) == len(good):
                continue
            where = f"{one}" if side else f"not {one}"
            return f"where {where}: {inside.count(False)} of {len(inside)} right decisions are not paid"
    return ""


class _Payments:
    """Plays decisions on seeds of a cell, each once."""

    def __init__(self, subject: Subject, cells: Cells) -> None:
        self._subject, self._cells = subject, cells
        self._kept: dict[object, float] = {}

    def mean(self, cell: str, case: RealCase) -> float:
        """Return the mean reward of a real decision in a cell."""
        key = cell, case.looked, case.writes
        if key not in self._kept:
            seeds = self._cells.seeds[cell][: 8 if not cell else 3]
            self._kept[key] = fmean(
                self._subject.probe.play(one.seed, self._script(one, case)).reward for one in seeds
            )
        return self._kept[key]

    def _script(self, one: Decided, case: RealCase) -> list[Action]:
        probe, script = self._subject.probe, self._subject.probe.oracle(one.seed)
        if case.looked and case.writes == one.writes:
            return script
        before = list(itertools.takewhile(lambda a: not _changes(probe, a), script)) if case.looked else []
        if before and not calls_in(before[-1:]) and len(before) == len(script):
            before.pop()
        rng = probe.chance(f"labelled/{one.seed}")
        known = {tool["function"]["name"]: tool for tool in probe.tools()}
        writes = []
        own = [c for c in calls_in(script) if probe.writes(c["name"])]
        for name in case.writes:
            same = [again(c) for c in own if c["name"] == name]
            writes += same or [call(name, a) for a in arguments_for(known[name], probe, one.seed, rng)[:1]]
        kind = ([n for n in case.writes if not hands_over(n)] or list(case.writes) or [NO_WRITE])[-1]
        return numbered([*before, *writes, say(self._words(one, kind))])

    def _words(self, one: Decided, kind: str) -> str:
        others = [other for other in self._cells.seeds[""] if other.kind == kind]
        if one.kind == kind or not others:
            return closing(self._subject.probe.oracle(one.seed))
        return closing(self._subject.probe.oracle(others[0].seed))


def _changes(probe: Probe, action: Action) -> bool:
    return any(probe.writes(one["name"]) for one in action.get("tool_calls") or ())
