"""`python -m tests.truth.whole HOME...`: score whole diagnoses of runs that were read.

Beside each stand the detectors alone on the same runs. Each home holds runs that `tables/unread.jsonl` has
readings of, or tau2-bench's where those readings are there, diagnosed by the pipeline as it is set there
(`docs/truth/models.md` says how). Whether a capability says what a reading says is on record (`matching`),
and so is what a LACKING label is worth (`graded`); with `--packet FILE` the prompt is written that asks for
it, with `--answer FILE --judge NAME` a reply to it is added to the record.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.truth.grades import Grade, grade_labels, judgements
from tests.truth.matching import MATCHED, Match, Matched, Packet, answered, capability_key, packet
from tests.truth.outcome import DOMAINS, Outcome, Tried, by_detectors, diagnose, domain_of
from tests.truth.readings import PassedReading, Readings, missing_data, notes, read_readings
from tests.truth.scores import Share, score_labels, share
from tests.truth.unread import figures as unread_figures
from tests.truth.unread import unread
from trace_assets.assets.failure_causes import diagnosed_targets
from trace_assets.diagnosis.detector_analyst import DETECTORS
from trace_assets.diagnosis.failure_causes import Diagnosed, explain
from trace_assets.records import Capability, FailureCause, Task
from trace_assets.study import Study

TENTH = 10
"""A capability is wanted that the readings name for one in so many of the agent's failures, and for two."""
GOOD = ("kept", "promising")
Reading = Mapping[str, Any]


@dataclass(frozen=True)
class Said:
    """What one diagnosis says of the runs of one home.

    Attributes:
        capabilities: By id.
        verdicts: By id: kept, promising, rejected.
        reasons: By id: the decision's words.
        causes: One a failed run.
        lacks: By run: what it lacks, as passes and labellers agree.
        decided: By run: those lacks of which a model says that they decided the end; None where nobody said.
        grades: Of lacks of failed runs, where those can be graded (`grades`).
        unread: By failed run: the candidates that another run shows too, and the one of these that would be
            named if nobody had read the run for candidates; labels and causes as they stand.
    """

    capabilities: Mapping[str, Capability]
    verdicts: Mapping[str, str]
    reasons: Mapping[str, str]
    causes: Sequence[FailureCause]
    lacks: Mapping[str, Collection[str]]
    decided: Mapping[str, Collection[str]] | None = None
    grades: Sequence[Grade] = ()
    unread: Mapping[str, tuple[Collection[str], str | None]] = field(default_factory=dict)


@dataclass
class Wanted:
    """A capability that readings name often enough, and what became of it.

    Attributes:
        name: The readings'.
        n: Failures that are read so.
        verdict: The best of those that say the same: kept, promising, rejected; empty: none was proposed.
        by: That capability's name.
        reason: Why it was decided so.
    """

    name: str
    n: int
    verdict: str = ""
    by: str = ""
    reason: str = ""


def said_by(outcome: Outcome, readings: Readings | None = None) -> Said:
    """Return what a diagnosis says, in the form that is scored; with grades where readings have clusters."""
    diagnosed, causes = outcome.diagnosed, outcome.causes
    lacks: dict[str, set[str]] = defaultdict(set)
    known = {one.capability_id: one for one in diagnosed.capabilities}
    for label in diagnosed.labels:
        if label.label == "LACKING" and label.capability_id in known:
            lacks[label.trajectory_id].add(label.capability_id)
    decided: dict[str, set[str]] = defaultdict(set)
    for (run, capability), row in diagnosed.judged.items():
        if row.decisive == "yes" and capability in lacks[run]:
            decided[run].add(capability)
    return Said(
        known,
        {row.capability_id: row.verdict or "" for row in diagnosed.selected},
        {row.capability_id: row.reason for row in diagnosed.selected},
        causes,
        lacks,
        decided if diagnosed.judged else None,
        _graded(outcome, readings) if readings is not None else (),
        {row.trajectory_id: as_unread(diagnosed, row.trajectory_id) for row in causes},
    )


def as_unread(diagnosed: Diagnosed, run: str) -> tuple[Collection[str], str | None]:
    """Return what other runs show, and what would be named for a run from which nothing was proposed.

    A rule's capability is shown by every failure that lacks it, a model's by those that it was proposed from,
    and a broader one by those of its cases.
    """
    shown: dict[object, set[str]] = defaultdict(set)
    for proposal in diagnosed.proposals:
        shown[proposal.merged_into].update(proposal.trajectories)
    failed = {row.trajectory_id for row in diagnosed.triage if row.outcome == "failed"}
    for label in diagnosed.labels:
        if label.label == "LACKING" and label.trajectory_id in failed:
            shown[label.capability_id, DETECTORS].add(label.trajectory_id)
    cases = {one.capability_id: {one.capability_id} for one in diagnosed.capabilities}
    for one in diagnosed.capabilities:
        cases.setdefault(one.parent or "", set()).add(one.capability_id)
    others = [
        one
        for one in diagnosed.capabilities
        if set().union(
            *(shown[(case, DETECTORS) if one.detector else case] for case in cases[one.capability_id])
        )
        - {run}
    ]
    (cause,) = explain(
        replace(
            diagnosed,
            trajectories=[one for one in diagnosed.trajectories if one.trajectory_id == run],
            triage=[row for row in diagnosed.triage if row.trajectory_id == run],
            capabilities=others,
            proposals=[
                row.model_copy(update={"trajectories": tuple(one for one in row.trajectories if one != run)})
                for row in diagnosed.proposals
            ],
        )
    )
    return {one.capability_id for one in others}, cause.capability


def _graded(outcome: Outcome, readings: Readings) -> list[Grade]:
    """Grade what is said to be lacking, once however many passes and labellers say so."""
    known = {one.capability_id for one in outcome.diagnosed.capabilities}
    labels = {
        (one.trajectory_id, one.capability_id): one
        for one in outcome.diagnosed.labels
        if one.label == "LACKING" and one.capability_id in known
    }
    once = replace(outcome, diagnosed=replace(outcome.diagnosed, labels=list(labels.values())))
    return grade_labels(once, readings.failed, {**judgements(), **judgements("graded")})


def wanted(readings: Sequence[Reading], said: Said, matched: Matched) -> list[Wanted]:
    """Return the capabilities that the readings of one set name often, and what the diagnosis made of each.

    A candidate says the same as a capability when it is said to mean the same as at least half of the
    readings that name that capability.
    """
    agent = [one for one in readings if one["capability"]]
    counts = Counter(one["capability"] for one in agent)
    found = []
    for name, n in counts.most_common():
        if n < 2 or n * TENTH < len(agent):
            continue
        row = Wanted(name, n)
        for key in meaning(name, agent, said, matched):
            verdict = said.verdicts.get(key, "rejected")
            if not row.verdict or _better(verdict, row.verdict):
                by, reason = said.capabilities[key].name, said.reasons.get(key, "")
                row = replace(row, verdict=verdict, by=by, reason=reason)
        found.append(row)
    return found


def meaning(name: str, readings: Sequence[Reading], said: Said, matched: Matched) -> list[str]:
    """Return the candidates that say the same as what readings name, by id; see `wanted`."""
    runs = [one["run"] for one in readings if one["capability"] == name]
    same = {
        key: sum(matched.of(run, one) == "same" for run in runs) for key, one in said.capabilities.items()
    }
    return [key for key, n in same.items() if n and 2 * n >= len(runs)]


def _better(one: str, other: str) -> bool:
    low = ("rejected", "said twice", "undecided", "seen once")
    order = (*low, "cases kept", "promising", "override", "kept")
    return order.index(one) > order.index(other)


def figures(readings: Sequence[Reading], said: Said, matched: Matched) -> dict[str, Share]:
    """Return what is right of what a diagnosis says, by the readings of the runs that it explains.

    Args:
        readings: Of one set.
        said: As a diagnosis says.
        matched: What judges said of capabilities and readings.
    """
    causes = {one.trajectory_id: one for one in said.causes}
    read = [one for one in readings if one["run"] in causes]
    agent = [one for one in read if one["capability"]]

    def match(run: str, name: str | None) -> Match:
        return (matched.of(run, said.capabilities[name]) if name in said.capabilities else None) or "none"

    named = [match(one["run"], causes[one["run"]].capability) for one in agent]
    labels = [(one, name) for one in read for name in sorted(said.lacks.get(one["run"], ()))]
    decided = said.decided if said.decided is not None else said.lacks
    deciding = [(one, name) for one in read for name in sorted(decided.get(one["run"], ()))]
    wants = wanted(read, said, matched)
    parents = {one.parent for one in said.capabilities.values()}
    runs = _same_sets(readings)
    telling = {key for key, one in said.capabilities.items() if matched.is_telling(one, runs)}
    graded = {(one.label.trajectory_id, one.label.capability_id): one for one in said.grades}
    chosen = [graded.get((one["run"], causes[one["run"]].capability or "")) for one in agent]
    every = score_labels(said.grades)
    kept = score_labels([one for one in said.grades if one.kept])

    def among(named: Callable[[str], Iterable[str]]) -> Share:
        """Count the failures of which one of these capabilities says the cause."""
        return share(any(match(one["run"], key) == "same" for key in named(one["run"])) for one in agent)

    return {
        **unread_figures(said.causes, read),
        "wanted capabilities: kept or promising": share(one.verdict in GOOD for one in wants),
        "wanted capabilities: candidate or better": share(bool(one.verdict) for one in wants),
        "the cause is among the candidates": among(lambda _: said.capabilities),
        "the cause is among the candidates that are no case's parent": among(
            lambda _: said.capabilities.keys() - parents
        ),
        "the cause is among the candidates that say nothing of control": among(lambda _: telling),
        "the cause is among what the run lacks": among(lambda run: said.lacks.get(run, ())),
        "the capability named says the cause": share(one == "same" for one in named),
        "the capability named says the cause and nothing of control": share(
            one == "same" and causes[row["run"]].capability in telling
            for row, one in zip(agent, named, strict=True)
        ),
        "the capability named says it in part": share(one != "none" for one in named),
        "agent's failures without a capability": share(
            causes[one["run"]].capability is None for one in agent
        ),
        "LACKING says the cause": share(match(one["run"], name) == "same" for one, name in labels),
        "LACKING that is called decisive says the cause": share(
            match(one["run"], name) == "same" for one, name in deciding
        ),
        "the capability named is a deficiency of the run": share(
            one is not None and one.deficiency is True for one in chosen
        ),
        "LACKING occurs": every.occurs,
        "LACKING is a deficiency": every.deficiency,
        "LACKING is decisive": every.decisive,
        "LACKING of kept ones occurs": kept.occurs,
        "LACKING of kept ones is a deficiency": kept.deficiency,
        "LACKING of kept ones is decisive": kept.decisive,
    }


def passed_figures(
    passed: Sequence[str],
    labels: Sequence[PassedReading],
    readings: Sequence[Reading],
    said: Said,
    matched: Matched,
) -> dict[str, Share]:
    """Return what a diagnosis says of runs that passed, which may have lacked something all the same.

    Args:
        passed: Ids of the passed runs.
        labels: What was read of some of them; only what a candidate says can be compared.
        readings: Of the failed runs of the same set.
        said: As a diagnosis says.
        matched: What judges said of capabilities and readings.
    """
    kept = {key for key, verdict in said.verdicts.items() if verdict == "kept"}
    own = {one.cluster: set(meaning(one.cluster, readings, said, matched)) for one in labels}
    said_too = [
        (one.label, bool(own[one.cluster] & set(said.lacks.get(one.trajectory_id, ()))))
        for one in labels
        if own[one.cluster]
    ]
    return {
        "passed runs that are said to lack something": share(bool(said.lacks.get(one)) for one in passed),
        "passed runs that are said to lack what was kept": share(
            bool(kept & set(said.lacks.get(one, ()))) for one in passed
        ),
        "read as LACKING in a passed run, and labelled so": share(
            lacks for label, lacks in said_too if label == "LACKING"
        ),
        "read as PRESENT in a passed run, and not labelled LACKING": share(
            not lacks for label, lacks in said_too if label == "PRESENT"
        ),
    }


def _same_sets(readings: Sequence[Reading]) -> set[str]:
    """Return all runs that were read of the sets that some readings are of."""
    sets = {one.get("set") for one in readings}
    return {one["run"] for one in (*readings, *unread()) if one.get("set") in sets}


@dataclass(frozen=True)
class Home:
    """One home's diagnosis, and the detectors' of the same runs.

    Attributes:
        name: The folder's that the home lies in.
        readings: Of its runs.
        said: As the home's tables have it.
        detectors: As the detectors alone have it.
        left_out: The same without those that were developed on this domain's readings; None
            where there is nothing to leave out.
        passed: Ids of the runs that passed.
        labels: What was read of passed runs.
    """

    name: str
    readings: Sequence[Reading]
    said: Said
    detectors: Said = field(repr=False)
    left_out: Said | None = field(default=None, repr=False)
    passed: Sequence[str] = ()
    labels: Sequence[PassedReading] = ()

    @property
    def ways(self) -> Mapping[str, Said]:
        """Return what stands beside each other, by name."""
        out = {} if self.left_out is None else {"detectors, domain left out": self.left_out}
        return {**out, "detectors alone": self.detectors, "as diagnosed": self.said}


def open_home(path: Path) -> Home:
    """Read a diagnosed home, and diagnose its runs by detectors alone."""
    study = Study.open(path, writable=False)
    every, tasks = study.store.read(FailureCause), study.store.read(Task)
    targets = diagnosed_targets(study)
    runs = [run for one in targets for run in one.trajectories]
    ids = {run.trajectory_id for run in runs}
    readings: list[Reading] = [one for one in unread() if one["run"] in ids]
    graded: Readings | None = None
    if not missing_data():
        readings += notes(runs)
        graded = read_readings(runs)
    said, detectors, left_out = [], [], []
    for one in targets:
        target = one.trajectories[0].target
        causes = [row for row in every if row.target == target]
        said.append(said_by(Outcome(target, target, one, causes, ()), graded))
        for found, without in ((detectors, False), (left_out, True)):
            if not without or domain_of(target) in DOMAINS:
                tried = Tried(by_detectors, leave_out=without)
                found.append(said_by(diagnose(target, one.trajectories, tasks, tried), graded))
    return Home(
        path.parent.name,
        readings,
        *(_joined(one) for one in (said, detectors)),
        left_out=_joined(left_out) if left_out else None,
        passed=[one.trajectory_id for one in runs if one.success],
        labels=graded.passed if graded is not None else (),
    )


def _joined(parts: Sequence[Said]) -> Said:
    decided = [one.decided for one in parts if one.decided is not None]
    return Said(
        {key: value for one in parts for key, value in one.capabilities.items()},
        {key: value for one in parts for key, value in one.verdicts.items()},
        {key: value for one in parts for key, value in one.reasons.items()},
        [cause for one in parts for cause in one.causes],
        {key: value for one in parts for key, value in one.lacks.items()},
        {key: value for one in decided for key, value in one.items()} if decided else None,
        [grade for one in parts for grade in one.grades],
        {key: value for one in parts for key, value in one.unread.items()},
    )


def text_of(home: Home, matched: Matched) -> str:
    """Return one home's figures as Markdown, detectors first."""
    columns = [
        figures(home.readings, one, matched)
        | passed_figures(home.passed, home.labels, home.readings, one, matched)
        for one in home.ways.values()
    ]
    rows = [f"| {name} | {' | '.join(str(one[name]) for one in columns)} |" for name in columns[0]]
    lines = [
        f"## {home.name}",
        "",
        f"| figure | {' | '.join(home.ways)} |",
        "| --- " * (len(columns) + 1) + "|",
        *rows,
        "",
    ]
    for who, said in home.ways.items():
        for one in wanted(home.readings, said, matched):
            lines.append(
                f"- {who}: *{one.name}* ({one.n}): {one.verdict or 'not proposed'}; {one.by}; {one.reason}"
            )
    keys = [capability_key(one) for said in home.ways.values() for one in said.capabilities.values()]
    shares = matched.shares(_same_sets(home.readings), keys)
    for judge, (own, control) in sorted(shares.items()):
        lines.append(f"- pairs called the same by {judge}: {Share(*own)}; of control {Share(*control)}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of each home, or write a packet of all of them for a judge, or read its answer."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth.whole", description=__doc__)
    parser.add_argument("homes", type=Path, nargs="+")
    parser.add_argument("--packet", type=Path, help="write the prompt that asks which capabilities say what")
    parser.add_argument("--answer", type=Path, help="a reply to that prompt, to be added to the record")
    parser.add_argument("--judge", default="", help="who replied")
    parser.add_argument("--seed", type=int, default=0, help="of the order within the packet")
    parser.add_argument("--matched", type=Path, default=MATCHED, help="the record that is read or added to")
    parser.add_argument("--control", type=int, default=6, help="readings of other sets in the packet")
    given = parser.parse_args(arguments)
    homes = [open_home(path) for path in given.homes]
    if not (given.packet or given.answer):
        print("\n\n".join(text_of(home, Matched.read(given.matched)) for home in homes))
        return
    asked = packet_of(homes, given.control, given.seed)
    if given.packet:
        given.packet.write_text(asked.text, encoding="utf-8")
    if given.answer:
        row = answered(asked, given.answer.read_text("utf-8"), given.judge)
        with given.matched.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def packet_of(homes: Sequence[Home], control: int, seed: int) -> Packet:
    """Return what a judge is asked of several homes at once, with readings of other sets as control."""
    sets = {one["set"] for home in homes for one in home.readings}
    others = sorted((one for one in unread() if one["set"] not in sets and one["capability"]), key=_run)
    step = max(1, len(others) // max(1, control))
    own = {one["run"]: one for home in homes for one in home.readings}
    known = [one for home in homes for said in home.ways.values() for one in said.capabilities.values()]
    return packet(known, [*own.values(), *others[::step][:control]], seed)


def _run(reading: Reading) -> str:
    return str(reading["run"])


if __name__ == "__main__":
    main()
