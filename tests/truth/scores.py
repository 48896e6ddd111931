"""Scores of diagnoses against readings: whose fault, which capabilities, which labels, why a run failed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.truth.clusters import about, names
from tests.truth.grades import Grade, grade_labels, tools_of
from tests.truth.outcome import Outcome
from tests.truth.readings import PassedReading, Reading, Readings, last_of
from trace_assets.diagnosis.detectors import FAMILIES
from trace_assets.diagnosis.failure_causes import words_of
from trace_assets.diagnosis.single_lacks import as_label
from trace_assets.records import Contrast, FailureCause, SelectedCapability, SingleLack
from trace_assets.settings import Selection
from trace_assets.stats.intervals import wilson

MIN_SHARE, MIN_RUNS = 0.10, 2
"""Share of a set's agent failures, and number of them, from which a capability should be found."""
MIN_FOUND = 1 / 3
"""Share of a cluster's failures that a candidate must label LACKING for it to be that cluster."""
WITHIN = 2
"""Messages by which the decisive one may be missed in the wider count."""


@dataclass(frozen=True)
class Share:
    """A share with its n."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        return wilson(self.hits, self.n)

    def __str__(self) -> str:
        if not self.n:
            return "–"
        low, high = self.interval
        return (
            f"{100 * self.hits / self.n:.0f} % [{100 * low:.0f}, {100 * high:.0f}], {self.hits} of {self.n}"
        )

    def __add__(self, other: Share) -> Share:
        return Share(self.hits + other.hits, self.n + other.n)


def share(hits: Iterable[bool]) -> Share:
    """Count truths.

    >>> str(share([True, False, True, True]))
    '75 % [30, 95], 3 of 4'
    """
    every = list(hits)
    return Share(sum(every), len(every))


@dataclass(frozen=True)
class FaultScore:
    """Whose fault: what rules said beside what was read.

    Attributes:
        confusion: (read, said) to runs.
        right: The party is the reading's.
        shared: The party is the reading's or one that it says shares the fault.
        found: Of the failures that are not the agent's, those put down to somebody else than the agent.
        true: Of those put down to somebody else, those that are not the agent's.
        accused: Passed runs, each looked at as if it had failed, that are put down to somebody else.
        wrong: (run, read, said, rule) of every wrong one.
    """

    confusion: Mapping[tuple[str, str], int]
    right: Share
    shared: Share
    found: Share
    true: Share
    accused: Share
    wrong: Sequence[tuple[str, str, str, str]] = ()


def score_faults(outcomes: Sequence[Outcome], readings: Readings) -> FaultScore:
    """Compare the parties that `failure_causes` names with readings."""
    said = [
        (readings.failed[cause.trajectory_id], cause.party, cause.rule)
        for outcome in outcomes
        for cause in outcome.causes
        if cause.trajectory_id in readings.failed
    ]
    return FaultScore(
        confusion=Counter((reading.fault, party) for reading, party, _ in said),
        right=share(party == reading.fault for reading, party, _ in said),
        shared=share(party in {reading.fault, *reading.fault_also} for reading, party, _ in said),
        found=share(party != "agent" for reading, party, _ in said if reading.fault != "agent"),
        true=share(reading.fault != "agent" for reading, party, _ in said if party != "agent"),
        accused=share(cause.party != "agent" for outcome in outcomes for cause in outcome.accused),
        wrong=[
            (reading.trajectory_id, reading.fault, party, rule)
            for reading, party, rule in said
            if party != reading.fault
        ],
    )


@dataclass(frozen=True)
class Wanted:
    """A capability that a set's failures lack often enough that it should be found, and how far it was.

    Attributes:
        cluster: Which.
        n: Agent failures that it decided.
        of: Agent failures of the set.
        by_rule: Whether most of its readings say that a rule can find it.
        verdict: `kept`, `promising`, `candidate`, or empty.
        candidates: Names of the candidates that are it, the best verdict first.
    """

    set_name: str
    cluster: str
    n: int
    of: int
    by_rule: bool
    verdict: str
    candidates: Sequence[str]


def score_capabilities(outcome: Outcome, readings: Readings) -> list[Wanted]:
    """Return the capabilities that decided a tenth of a set's agent failures, and what became of each."""
    agents = [
        readings.failed[one.trajectory_id]
        for one in outcome.diagnosed.trajectories
        if one.trajectory_id in readings.failed and readings.failed[one.trajectory_id].fault == "agent"
    ]
    runs: dict[str, list[Reading]] = defaultdict(list)
    for reading in agents:
        for key in reading.first:
            runs[key].append(reading)
    wanted = []
    for key, own in sorted(runs.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(own) < max(MIN_RUNS, MIN_SHARE * len(agents) - 1e-9):
            continue
        found = sorted(_found_as(outcome, key, own), key=lambda pair: _ORDER.index(pair[0]))
        wanted.append(
            Wanted(
                set_name=outcome.name,
                cluster=key,
                n=len(own),
                of=len(agents),
                by_rule=2 * sum(one.by_rule for one in own) > len(own),
                verdict=found[0][0] if found else "",
                candidates=[name for _, name in found],
            )
        )
    return wanted


_ORDER = ("kept", "promising", "candidate")


def _found_as(outcome: Outcome, key: str, own: Sequence[Reading]) -> list[tuple[str, str]]:
    """Return (verdict, name) of every candidate that is a cluster."""
    tools = tools_of(outcome)
    read = {one.trajectory_id: one for one in own}
    lacks: dict[str, set[str]] = defaultdict(set)
    for label in outcome.diagnosed.labels:
        if label.label == "LACKING" and label.trajectory_id in read:
            lacks[label.capability_id].add(label.trajectory_id)
    evidence = {
        (label.capability_id, label.trajectory_id): label.evidence for label in outcome.diagnosed.labels
    }
    contrasts = {row.capability_id: row for row in outcome.diagnosed.contrasts}
    decided = {row.capability_id: row for row in outcome.diagnosed.selected}
    found = []
    for capability in outcome.diagnosed.capabilities:
        what = about(capability, tools)
        shown = [
            run
            for run in lacks[capability.capability_id]
            if names(
                key,
                what,
                evidence=evidence[capability.capability_id, run],
                seen=read[run].seen,
                decisive=read[run].decisive,
            )
        ]
        if len(shown) >= max(1, MIN_FOUND * len(own)):
            name = capability.capability_id
            found.append((verdict(decided.get(name), contrasts.get(name)), capability.name))
    return found


def verdict(decided: SelectedCapability | None, contrast: Contrast | None) -> str:
    """Return what was decided on a candidate: kept, promising, or candidate.

    Where the selection does not say it itself (`verdict`), promising is what shows the gap and the coverage
    that are asked for, and fails for too few runs or too wide an interval alone.
    """
    if decided is not None and decided.kept:
        return "kept"
    said = getattr(decided, "verdict", None)
    if said is not None:
        return "promising" if said == "promising" else "candidate"
    section = Selection()
    wide = (
        contrast is not None
        and contrast.gap is not None
        and contrast.gap >= section.min_gap
        and (contrast.coverage or 0.0) >= section.min_coverage
    )
    return "promising" if wide else "candidate"


@dataclass(frozen=True)
class LabelScore:
    """Grades of labels, as shares of all of them; the ungraded count as not right.

    Attributes:
        occurs: See `grades`.
        deficiency: The same.
        decisive: The same.
        first: It is the reading's first capability.
        ungraded: Labels that nobody can say anything of.
        by_hand: Labels that were read one by one.
    """

    occurs: Share
    deficiency: Share
    decisive: Share
    first: Share
    ungraded: int
    by_hand: int


def score_labels(grades: Sequence[Grade]) -> LabelScore:
    """Sum grades up."""
    return LabelScore(
        occurs=share(one.occurs is True for one in grades),
        deficiency=share(one.deficiency is True for one in grades),
        decisive=share(one.decisive is True for one in grades),
        first=share(one.first for one in grades),
        ungraded=sum(one.occurs is None for one in grades),
        by_hand=sum(one.by_hand for one in grades),
    )


def grades_by(grades: Sequence[Grade], key: Callable[[Grade], str]) -> dict[str, LabelScore]:
    """Sum grades up by group, groups sorted."""
    groups: dict[str, list[Grade]] = defaultdict(list)
    for one in grades:
        groups[key(one)].append(one)
    return {name: score_labels(own) for name, own in sorted(groups.items())}


@dataclass(frozen=True)
class PassedScore:
    """Labels on passed runs beside those of the readings, where a candidate is the same capability.

    Attributes:
        lacking: Of the readings' LACKING, those that were labelled LACKING.
        present: Of the readings' PRESENT, those that were not labelled LACKING.
        unlabelled: Readings for which there is no candidate.
    """

    lacking: Share
    present: Share
    unlabelled: int


def score_passed(outcomes: Sequence[Outcome], passed: Sequence[PassedReading]) -> PassedScore:
    """Compare labels on passed runs with those of the readings."""
    lacking: list[bool] = []
    present: list[bool] = []
    unlabelled = 0
    by_run: dict[str, list[PassedReading]] = defaultdict(list)
    for reading in passed:
        by_run[reading.trajectory_id].append(reading)
    for outcome in outcomes:
        tools = tools_of(outcome)
        what = {one.capability_id: about(one, tools) for one in outcome.diagnosed.capabilities}
        labels: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for label in outcome.diagnosed.labels:
            labels[label.trajectory_id].append((label.capability_id, label.label))
        for one in outcome.diagnosed.trajectories:
            for reading in by_run[one.trajectory_id]:
                said = {
                    label
                    for capability, label in labels[one.trajectory_id]
                    if what[capability].mistake and names(reading.cluster, what[capability])
                }
                if not said - {"NA"}:
                    unlabelled += 1
                elif reading.label == "LACKING":
                    lacking.append("LACKING" in said)
                elif reading.label == "PRESENT":
                    present.append("LACKING" not in said)
    return PassedScore(share(lacking), share(present), unlabelled)


@dataclass(frozen=True)
class CauseScore:
    """Why did each run fail.

    Attributes:
        party: The party is right.
        exact: The decisive message is the reading's.
        within: It is at most `WITHIN` messages away.
        first: Of the agent's failures: the capability is the reading's first.
        sinking: It is one that sank the run.
        named: It is among those that the reading names.
        silent: Agent's failures for which no capability is given.
        accused: Passed runs, each looked at as if it had failed, that are put down to another party.
        blamed: Passed runs for which a capability is named: not wrong by itself, since runs pass by luck.
    """

    party: Share
    exact: Share
    within: Share
    first: Share
    sinking: Share
    named: Share
    silent: Share
    accused: Share
    blamed: Share
    by_confidence: Mapping[str, Share] = field(default_factory=dict)


def score_causes(outcomes: Sequence[Outcome], readings: Readings) -> CauseScore:
    """Compare explanations with readings."""
    rows: list[tuple[Reading, FailureCause, frozenset[str], int]] = []
    for outcome in outcomes:
        tools = tools_of(outcome)
        what = {one.capability_id: about(one, tools) for one in outcome.diagnosed.capabilities}
        labels = {(one.trajectory_id, one.capability_id): one for one in outcome.diagnosed.labels}
        alone = {named(one): as_label(one) for one in outcome.diagnosed.singles}
        last = {one.trajectory_id: last_of(one.messages) for one in outcome.diagnosed.trajectories}
        for cause in outcome.causes:
            reading = readings.failed.get(cause.trajectory_id)
            if reading is None:
                continue
            said = frozenset[str]()
            single = alone.get(named(cause))
            if cause.capability in what or single is not None:
                label = labels.get((cause.trajectory_id, cause.capability or ""))
                meant = what.get(cause.capability or "")
                if single is not None:
                    label, meant = single[0], about(single[1], tools)
                assert meant is not None
                said = frozenset(
                    key
                    for key in reading.named
                    if names(
                        key,
                        meant,
                        evidence=label.evidence if label else (),
                        seen=reading.seen,
                        decisive=reading.decisive,
                    )
                )
            rows.append((reading, cause, said, last[cause.trajectory_id]))
    agents = [row for row in rows if row[0].fault == "agent"]
    aways = [apart(reading.decisive, cause.decisive_message, last) for reading, cause, _, last in rows]
    confidences = sorted({cause.confidence for _, cause, _, _ in rows})
    accused = [cause for outcome in outcomes for cause in outcome.accused]
    return CauseScore(
        party=share(cause.party == reading.fault for reading, cause, _, _ in rows),
        exact=share(away == 0 for away in aways),
        within=share(away <= WITHIN for away in aways),
        first=share(not said.isdisjoint(reading.first) for reading, _, said, _ in agents),
        sinking=share(not said.isdisjoint(reading.sinking) for reading, _, said, _ in agents),
        named=share(not said.isdisjoint(reading.named) for reading, _, said, _ in agents),
        silent=share(not is_named(cause) for _, cause, _, _ in agents),
        accused=share(cause.party != "agent" for cause in accused),
        blamed=share(is_named(cause) for cause in accused),
        by_confidence={
            level: share(
                cause.party == reading.fault
                and (reading.fault != "agent" or not said.isdisjoint(reading.sinking))
                for reading, cause, said, _ in rows
                if cause.confidence == level
            )
            for level in confidences
        },
    )


def named(row: FailureCause | SingleLack) -> tuple[str, str, str]:
    """Return by what a cause without a candidate is known as a lack of one run: run, family and words."""
    if isinstance(row, FailureCause):
        return (row.trajectory_id, row.rule, row.words)
    return (row.trajectory_id, row.detector, words_of(*as_label(row)))


def is_named(cause: FailureCause) -> bool:
    """Tell whether a lack is named for a run, a candidate or one that it has nearly alone."""
    return cause.capability is not None or cause.rule in _FAMILIES


_FAMILIES = frozenset(family.name for family in FAMILIES)


def apart(read: int | None, said: int | None, last: int | None) -> float:
    """Return how many messages lie between the decisive one as read and as said.

    An absence up to the end has no message: None stands for it, and so does the agent's last message.

    >>> apart(3, 5, 9), apart(None, 9, 9), apart(None, 8, 9), apart(3, None, 9)
    (2, 0, inf, inf)
    """
    if read is None:
        return 0 if said is None or (last is not None and said >= last) else float("inf")
    return float("inf") if said is None else abs(read - said)


def all_grades(outcomes: Sequence[Outcome], readings: Readings) -> list[Grade]:
    """Grade the labels of several sets."""
    return [grade for outcome in outcomes for grade in grade_labels(outcome, readings.failed)]
