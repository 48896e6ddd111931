"""The asset `labels`: every trajectory of a batch with every candidate, blind; only what is new is asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trace_assets.assets.asset import Figure, StageCheck, StageResult, asset
from trace_assets.diagnosis.detector_analyst import Analyst
from trace_assets.diagnosis.llm.analyst import shortfall
from trace_assets.diagnosis.llm.labelling import cases_and_parents, parent_labels
from trace_assets.diagnosis.llm.request import Context
from trace_assets.diagnosis.overrides import as_asked, check_names, overruled_labels
from trace_assets.errors import InputError
from trace_assets.records import (
    BatchCapability,
    Capability,
    Label,
    ShownTranscript,
    Trajectory,
    TrajectoryHead,
)
from trace_assets.report.asset_report.diagnosis import labels_report
from trace_assets.resources.analysts import (
    by_target,
    context_of,
    model_figures,
    open_detectors,
    open_model,
)
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study


@asset(
    "batch_capabilities",
    group="diagnosis",
    records=(BatchCapability,),
    deps=["trajectories", "capability_dictionary"],
    partitions="task_batch",
    light=True,
)
def write_batch_capabilities(study: Study, batch: str) -> StageResult:
    """What a batch is labelled with: a cut-off, so that a longer dictionary leaves old labels alone."""
    targets = set(study.store.frame(TrajectoryHead, batch)["target"].to_list())
    rows = [
        BatchCapability(
            task_batch=batch,
            **{
                name: getattr(row, name)
                for name in BatchCapability.model_fields
                if name in Capability.model_fields
            },
        )
        for row in study.store.read(Capability)
        if row.target in targets
    ]
    version = study.store.write(rows, BatchCapability, batch)
    return StageResult(version, len(rows), {"candidates": len(rows), "targets": len(targets)})


def capabilities_of(study: Study, batch: str) -> list[Capability]:
    """Return what a batch is labelled with, as capabilities without their proposals."""
    return [
        Capability(
            **{
                name: getattr(row, name)
                for name in Capability.model_fields
                if name in BatchCapability.model_fields
            }
        )
        for row in study.store.read(BatchCapability, batch)
    ]


TOLERATED = 0.01
"""Share of labels that a model may leave open, transcripts that it refuses for instance, as a warning."""

Stored = dict[tuple[str, str, str, int], Label]


def _key(row: Label) -> tuple[str, str, str, int]:
    return row.trajectory_id, row.capability_id, row.labeller, row.labelling_pass


@dataclass
class _Job:
    """What one labeller owes a target's share of the batch.

    Attributes:
        analyst: The labeller.
        passes: Its passes.
        capabilities: What it labels with.
        kept: Stored labels that still hold.
        spare: Stored labels that hold, of pairs that lack another pass: used where it is not asked again.
        todo: Trajectories by the capabilities that they lack labels for.
    """

    analyst: Analyst
    passes: tuple[int, ...]
    capabilities: list[Capability]
    kept: list[Label] = field(default_factory=list)
    spare: list[Label] = field(default_factory=list)
    todo: list[tuple[list[Trajectory], list[Capability]]] = field(default_factory=list)
    wanted: int = 0

    def plan(self, trajectories: Sequence[Trajectory], stored: Stored) -> None:
        """Divide the work into what is stored with an equal hash and what has to be done."""
        self.wanted = len(trajectories) * len(self.capabilities) * len(self.passes)
        left: dict[tuple[int, ...], list[Trajectory]] = defaultdict(list)
        for one in trajectories:
            open_places = []
            hashes = self.analyst.input_hashes(one, self.capabilities)
            for place, (capability, wanted) in enumerate(zip(self.capabilities, hashes, strict=True)):
                keys = (
                    (one.trajectory_id, capability.capability_id, self.analyst.name, number)
                    for number in self.passes
                )
                rows = [
                    row for key in keys if (row := stored.get(key)) is not None and row.input_hash == wanted
                ]
                if len(rows) == len(self.passes):
                    self.kept += rows
                else:
                    self.spare += rows
                    open_places.append(place)
            if open_places:
                left[tuple(open_places)].append(one)
        self.todo = [
            (group, [self.capabilities[place] for place in places]) for places, group in sorted(left.items())
        ]


@dataclass
class _Done:
    """What came of a batch.

    Attributes:
        labels: Kept and new ones.
        derived: Those of parents, which follow from their cases'.
        shown: What the model was shown, by trajectory.
        kept: Labels that were stored already.
        wanted: Labels that there should be.
        stopped: Whether the cap ended it.
        remarks: Why labels are missing.
        figures: Of the model's calls.
        said: Labels that a person gave, by capability and run.
        names: Capability id to name.
    """

    labels: list[Label] = field(default_factory=list)
    derived: list[Label] = field(default_factory=list)
    shown: dict[str, ShownTranscript] = field(default_factory=dict)
    kept: int = 0
    wanted: int = 0
    stopped: bool = False
    remarks: list[str] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    said: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def begin(self, job: _Job, trajectories: Sequence[Trajectory], stored: Stored) -> None:
        """Plan a job and take what it keeps."""
        job.plan(trajectories, stored)
        self.labels += job.kept
        self.kept, self.wanted = self.kept + len(job.kept), self.wanted + job.wanted


@asset(
    "labels",
    group="diagnosis",
    records=(Label, ShownTranscript),
    deps=["trajectories", "batch_capabilities", "config/labels"],
    partitions="task_batch",
    checks={"labels_complete": "Every trajectory has a label for every candidate, labeller and pass."},
    blocking=["labels_complete"],
    unfinished=["labels_complete"],
)
def label_batch(study: Study, batch: str) -> StageResult:
    """NA, PRESENT or LACKING for every trajectory and candidate, given blind to the outcome.

    Raises:
        InputError: A capability has no detector, and no model is set that labels.
    """
    capabilities: dict[str, list[Capability]] = defaultdict(list)
    for capability in capabilities_of(study, batch):
        capabilities[capability.target].append(capability)
    known = by_target(read_trajectories(study.store, batch))
    groups = {target: [one.blind() for one in group] for target, group in known.items()}
    said = _overrides(study)
    names = {one.capability_id: one.name for own in capabilities.values() for one in own}
    stored = {_key(row): row for row in as_asked(study.store.read(Label, batch), said, names)}
    done = _Done(said=said, names=names)
    _by_detectors(study, groups, capabilities, stored, done)
    if study.settings.labels.model:
        present = {one.trajectory_id for group in groups.values() for one in group}
        before = study.store.read(ShownTranscript, batch)
        done.shown = {row.trajectory_id: row for row in before if row.trajectory_id in present}
        # From whole runs: the tools that came with them are no outcome, but a blind run has lost them.
        contexts = {target: context_of(study, target, group) for target, group in known.items()}
        _by_model(study, batch, contexts, groups, capabilities, stored, done)
    elif any(not one.detector for own in capabilities.values() for one in own):
        raise InputError(
            "a model proposed some of the candidates, but no model is set that labels: set labels.model, or "
            "set discovery.analyst to 'detectors'."
        )
    study.store.write(done.shown.values(), ShownTranscript, batch)
    every = overruled_labels([*done.labels, *done.derived], said, names)
    version = study.store.write(every, Label, batch)
    counts = Counter(row.label.lower() for row in every)
    n = len(every)
    return StageResult(
        version,
        n,
        {**dict(sorted(counts.items())), "n": n, "kept": done.kept, **done.figures},
        tables=labels_report(every, names).tables,
        checks=(_complete(done),),
    )


def _overrides(study: Study) -> Mapping[str, Mapping[str, str]]:
    """Return the labels that a person gave.

    Raises:
        InputError: They are of a capability or a run that there is not.
    """
    said = study.settings.labels.overrides
    if said:
        capabilities = {
            name for row in study.store.read(Capability) for name in (row.capability_id, row.name)
        }
        check_names("labels.overrides", "candidate's id or name", said, capabilities)
        runs = study.store.frame(TrajectoryHead)["trajectory_id"].to_list()
        check_names("labels.overrides", "run", {run for own in said.values() for run in own}, runs)
    return said


def _by_detectors(
    study: Study,
    groups: Mapping[str, list[Trajectory]],
    capabilities: Mapping[str, list[Capability]],
    stored: Stored,
    done: _Done,
) -> None:
    for target, group in groups.items():
        own = [one for one in capabilities.get(target, ()) if one.detector]
        job = _Job(open_detectors(study, target), (0,), own)
        done.begin(job, group, stored)
        for some, lacking in job.todo:
            done.labels += job.analyst.label(some, lacking)


def _by_model(
    study: Study,
    batch: str,
    contexts: Mapping[str, Context],
    groups: Mapping[str, list[Trajectory]],
    capabilities: Mapping[str, list[Capability]],
    stored: Stored,
    done: _Done,
) -> None:
    passes = tuple(range(1, study.settings.labels.passes + 1))
    with open_model(study, "labels", batch, contexts=contexts) as (analyst, server):
        for target, group in groups.items():
            asked_for, parents = cases_and_parents(capabilities.get(target, []))
            job = _Job(analyst, passes, asked_for)
            done.begin(job, group, stored)
            asked: list[Label] = []
            for some, lacking in job.todo:
                if done.stopped:
                    break
                came = analyst.label_what_can_be(some, lacking)
                asked += came.labels
                done.shown |= came.shown
                done.stopped = not came.complete
                done.remarks += [shortfall(came)] if shortfall(came) else []
            new = {_key(row) for row in asked}
            came_in = [*asked, *(row for row in job.spare if _key(row) not in new)]
            done.labels += came_in
            done.derived += parent_labels(
                overruled_labels([*job.kept, *came_in], done.said, done.names), asked_for, parents
            )
    done.figures = {**model_figures(server), **_compaction(done.shown)}


def _compaction(shown: dict[str, ShownTranscript]) -> dict[str, Figure]:
    return {
        "compacted_transcripts": sum(row.rule != "whole" for row in shown.values()),
        "transcripts_with_words_withheld": sum(row.n_withheld > 0 for row in shown.values()),
    }


def _complete(done: _Done) -> StageCheck:
    """Whether all labels are there; the few that a model will not give are a warning."""
    missing = done.wanted - len(done.labels)
    said = f"{len(done.labels)} of {done.wanted} labels are there"
    if not missing:
        return StageCheck("labels_complete", True, f"{said}.")
    reasons = "; ".join(dict.fromkeys(done.remarks)) or "the analyst left them out"
    said += f", {missing} are missing: {reasons}."
    if done.stopped:
        said += " Raise analyst.cap_usd or analyst.cap_calls and run the same command again."
    few = not done.stopped and bool(done.remarks) and missing <= TOLERATED * done.wanted
    return StageCheck("labels_complete", False, said, "warning" if few else "error")
