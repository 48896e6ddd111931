"""Whether an environment is about its capability, and pays for having it: held against labelled real runs."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from statistics import fmean
from typing import Any

import numpy as np

from trace_assets.diagnosis.detectors.mutation import hands_over
from trace_assets.diagnosis.detectors.values import leaves
from trace_assets.diagnosis.detectors.verbs import speaks_of
from trace_assets.environments.audit.check import AuditCheck, Finding, Purpose, Subject
from trace_assets.environments.audit.decision_tree import (
    MOST_VALUES,
    NO_WRITE,
    Decided,
    Tree,
    beats_chance,
    collapsed,
    decided,
    foretold,
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
from trace_assets.records import CapabilitySpec, DecisionPattern

NO_PURPOSE = "nobody said which capability it is for"
NO_LOOK = "the capability is not known to turn on what is looked up"
NO_REQUEST = "the capability turns on what is asked for, and runs are told apart by what looks showed them"
NO_RUNS = "no labelled runs of its capability were given"
MIN_USED = 0.2
"""Share of seeds on which the oracle must use what the capability is about."""
MIN_RUNS = 4
"""Runs of a label that a comparison needs at least."""
TOLD = 0.95
"""Share of seeds on which trees must be right for a decision to be told without what a capability names."""
UNPAID = 0.25
"""Of decisions that real runs show to be right, where no more than this share succeeds, they are not paid."""
PERMUTATIONS = 1000
BY_STATE = frozenset(
    {
        "write_against_state",
        "write_after_refusal",
        "write_against_policy",
        "write_past_date",
        "unanswered_state",
    }
)
"""Detector families whose capability is to decide by what a look shows."""
OF_A_RECORD = frozenset({"state", "past", "window"})
"""Kinds of `write_against_rule` that a field of the record decides; others hang on what a call is given."""

BY_REQUEST = frozenset({"write_on_kind"})
"""Detector families whose capability is to decide by what is asked for: no look tells it."""

About = Callable[[Subject, Purpose], Finding]


def with_purpose(check: About) -> Callable[[Subject], Finding]:
    """Make a check of what an environment is for one that is skipped by name where nobody says it."""

    @wraps(check)
    def run(subject: Subject) -> Finding:
        if subject.purpose is None:
            return Finding("skip", NO_PURPOSE)
        return check(subject, subject.purpose)

    return run


# Whether it is about what the capability is about.


@with_purpose
def uses_its_tools(subject: Subject, purpose: Purpose) -> Finding:
    """The oracle uses what the capability is about: tools that it names, speaks of, or that its runs used."""
    probe = subject.probe
    seeds = [one.seed for one in decided(subject)]
    scripts = [calls_in(probe.oracle(seed)) for seed in seeds]
    tools = [tool["function"]["name"] for tool in probe.tools()]
    bound = f"used on >= {MIN_USED:.0%} of seeds"
    worst: tuple[float, str] = (1.0, "what it uses is what the capability is about")
    for what, wanted in wanted_of(purpose.spec, tools):
        share = fmean(
            any(one["name"] in wanted or wanted & _argument_names(one["arguments"]) for one in script)
            for script in scripts
        )
        if share < worst[0]:
            worst = share, f"the oracle uses {what} on {share:.0%} of seeds"
        if share < MIN_USED:
            usual = Counter(one["name"] for script in scripts for one in script).most_common(3)
            others = ", ".join(name for name, _ in usual)
            return Finding(
                "fail",
                f"{worst[1]}, and {others} instead: it is for another capability",
                share,
                len(seeds),
                bound,
            )
    strange = _never_used(subject, purpose, {c["name"] for script in scripts for c in script})
    if strange:
        return Finding("fail", strange, 0.0, len(purpose.runs), "its changes are those of the labelled runs")
    return Finding("pass", worst[1], worst[0], len(seeds), bound)


def wanted_of(spec: CapabilitySpec, tools: Sequence[str]) -> list[tuple[str, set[str]]]:
    """Return sets of tools, or arguments, of each of which the oracle must use one, with a name for it."""
    wanted = []
    for key in ("tool", "writes"):
        named = {value for _, value in leaves(spec.detector_args.get(key)) if value in tools}
        if named:
            wanted.append((" or ".join(sorted(named)), named))
    argument = str(spec.detector_args.get("argument") or "").rpartition(".")[2]
    if argument:
        wanted.append((f"the argument '{argument}'", {argument}))
    if spec.detector is None:
        text = f"{spec.name}. {spec.description}"
        spoken_of = {
            name for name in tools if re.search(rf"\b{re.escape(name)}\b", text) or speaks_of(text, name)
        }
        if spoken_of:
            wanted.append((f"{' or '.join(sorted(spoken_of))}, which the capability speaks of", spoken_of))
    return wanted


def _argument_names(value: object) -> set[str]:
    return {part for path, _ in leaves(value) for part in path.split(".")}


def _never_used(subject: Subject, purpose: Purpose, used: set[str]) -> str:
    """Say that runs which needed the capability use none of the changes; empty where they do."""
    changes = {n for n in used if subject.probe.writes(n) and not hands_over(n)}
    needed = {p.trajectory_id for p in purpose.runs if p.label != "NA"}
    lacking = {p.trajectory_id for p in purpose.runs if p.label == "LACKING"}
    with_it = {p.trajectory_id for p in purpose.runs if changes & set(p.calls)}
    if not changes or len(needed) < 2 * MIN_RUNS or len(lacking) < MIN_RUNS or needed & with_it:
        return ""
    return (
        f"none of {len(needed)} labelled runs that needed the capability calls {', '.join(sorted(changes))}"
    )


def _is_by_state(spec: CapabilitySpec) -> bool:
    by_record = spec.detector == "write_against_rule" and spec.detector_args.get("kind") in OF_A_RECORD
    return by_record or spec.detector in BY_STATE


@with_purpose
def hangs_on_looks(subject: Subject, purpose: Purpose) -> Finding:
    """Where the capability is to decide by a look, what a look shows tells the oracle's decision."""
    if not _is_by_state(purpose.spec) and not _runs_decide_by_looks(subject, purpose):
        return (
            _by_what_it_names(subject, purpose) if purpose.spec.detector is None else Finding("skip", NO_LOOK)
        )
    cases = decided(subject)
    kinds = [one.kind for one in cases]
    usual = Counter(kinds).most_common(1)[0][1] / len(kinds)
    bound = "told better than by the usual decision alone"
    if usual == 1:
        return Finding(
            "fail", f"the oracle decides the same on every seed: {kinds[0]}", 0.0, len(kinds), bound
        )
    right = beats_chance([one.row for one in cases], kinds)
    words = f"the usual decision, {Counter(kinds).most_common(1)[0][0]}, is right on {usual:.0%} of seeds"
    if right is None:
        return Finding("fail", f"what is shown tells no more: {words}", usual, len(cases), bound)
    return Finding("pass", f"trees tell {right:.0%} from what is shown; {words}", right, len(cases), bound)


def _by_what_it_names(subject: Subject, purpose: Purpose) -> Finding:
    """Where looks tell whether to act, and the capability names what they show, that has a part in it."""
    cases = decided(subject)
    acts, rows = (
        [one.kind != NO_WRITE and not hands_over(one.kind) for one in cases],
        [one.row for one in cases],
    )
    text = f"{purpose.spec.name}. {purpose.spec.description}"
    keys = {field for one in cases for field, value in one.row.items() if value == one.thing}
    named = {f for f in {f for row in rows for f in row} - keys if names_field(text, f, rows)}
    others = [{f: v for f, v in row.items() if f not in named} for row in rows]
    without = foretold(others, acts)
    if not named or min(acts.count(True), acts.count(False)) < MIN_RUNS or without < TOLD:
        return Finding("skip", NO_LOOK)
    bound, what = "what the capability names has a part in it", ", ".join(sorted(named)[:4])
    own = beats_chance([{f: row[f] for f in named & set(row)} for row in rows], acts)
    words = f"whether to act is told on {without:.0%} of seeds without {what}"
    if own is None:
        tree = grow(others, acts)
        other = tree.test.field if tree.test else "something else"
        words += f", which tells nothing of it, but {other} does: it is for another capability"
    return Finding("pass" if own is not None else "fail", words, without, len(cases), bound)


def names_field(text: str, field: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a text names a field of a result, by its words or by one of the few values that it shows.

    >>> rows = [{"get.user_id": "u1", "get.cabin": "business", "get.delivered_on ~ hours ago": 3}]
    >>> text = "Compare the user's id and the day of delivery."
    >>> [names_field(text, field, rows) for field in rows[0]]
    [True, False, True]
    >>> names_field("Change only business.", "get.cabin", rows)
    True
    """
    said = {word[:5] for word in re.findall(r"[a-z]{4,}", text.lower())}
    parts = [part[:5] for part in re.findall(r"[a-z]{4,}", _last(field).lower())]
    if parts and all(part in said for part in parts):
        return True
    values = {v.lower().replace("_", " ") for row in rows for v in _texts(row.get(field)) if len(v) > 3}
    few = len(values) <= MOST_VALUES
    return few and any(re.search(rf"\b{re.escape(value)}\b", text.lower()) for value in values)


def _last(field: str) -> str:
    return re.split(r"[ #\[]", field.rpartition(".")[2])[0]


def _texts(value: Any) -> list[str]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def _runs_decide_by_looks(subject: Subject, purpose: Purpose) -> bool:
    """Whether real runs that have the capability change some things and leave others, as a look tells."""
    cases = _relevant(subject, purpose)
    good = [one for one in cases if one.pattern.label == "PRESENT"]
    sides = Counter(any(not hands_over(n) for n in one.writes) for one in good)
    if min(sides[True], sides[False]) < MIN_RUNS:
        return False
    rows, kinds = [one.row for one in good], [any(not hands_over(n) for n in one.writes) for one in good]
    return beats_chance(rows, kinds) is not None


# Whether decisions of real runs that have the capability are paid more than those of runs that lack it.


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
    cases = _relevant(subject, purpose)
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


def _relevant(subject: Subject, purpose: Purpose) -> list[RealCase]:
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


_SOUND = ("semantic.floor_gap",)
PURPOSE_CHECKS = (
    AuditCheck("trace.purpose.tools", "semantic", uses_its_tools, _SOUND),
    AuditCheck(
        "trace.purpose.looked_up",
        "semantic",
        hangs_on_looks,
        _SOUND,
        ("trace.purpose.tools", "trace.balance"),
    ),
    AuditCheck(
        "trace.purpose.labelled_runs",
        "semantic",
        pays_like_labels,
        _SOUND,
        ("trace.purpose.tools", "trace.purpose.looked_up", "trace.fidelity.added_fields"),
    ),
)
