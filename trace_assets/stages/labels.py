"""The stage `labels`: every trajectory of a batch with every candidate, blind; only what is new is asked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from trace_assets.diagnosis.analyst import Analyst
from trace_assets.diagnosis.model.labelling import Labelled
from trace_assets.diagnosis.model.model_analyst import ModelAnalyst, shortfall
from trace_assets.errors import InputError
from trace_assets.records import Capability, Label, ShownTranscript, Trajectory
from trace_assets.report.exhibits.diagnosis import labels_exhibit
from trace_assets.stages.analysts import by_target, model_figures, open_detectors, open_model
from trace_assets.stages.batch_capabilities import capabilities_of
from trace_assets.stages.result import Figure, StageCheck, StageResult
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study

TOLERATED = 0.01
"""Share of labels that a model may leave open, transcripts that it refuses for instance, as a warning."""

Stored = dict[tuple[str, str, str, int], Label]


@dataclass
class _Job:
    """What one labeller owes a target's share of the batch.

    Attributes:
        analyst: The labeller.
        passes: Its passes.
        capabilities: What it labels with.
        kept: Stored labels that still hold.
        todo: Trajectories by the capabilities that they lack labels for.
    """

    analyst: Analyst
    passes: tuple[int, ...]
    capabilities: list[Capability]
    kept: list[Label] = field(default_factory=list)
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
                    open_places.append(place)
            if open_places:
                left[tuple(open_places)].append(one)
        self.todo = [
            (group, [self.capabilities[place] for place in places]) for places, group in sorted(left.items())
        ]


def label_batch(study: Study, batch: str) -> StageResult:
    """Write one batch of `labels` and `shown_transcripts`, from blind trajectories.

    Detectors label the capabilities that they can express; a model, if `labels.model` names one, labels all.
    Stored labels whose `input_hash` is what it would be now are kept.

    Raises:
        InputError: A capability has no detector, and no model is set that labels.
    """
    capabilities: dict[str, list[Capability]] = defaultdict(list)
    for capability in capabilities_of(study, batch):
        capabilities[capability.target].append(capability)
    stored = {
        (row.trajectory_id, row.capability_id, row.labeller, row.labelling_pass): row
        for row in study.store.read(Label, batch)
    }
    groups = {
        target: [one.blind() for one in group]
        for target, group in by_target(read_trajectories(study.store, batch)).items()
    }
    labels: list[Label] = []
    wanted = kept = 0
    for target, group in groups.items():
        own = [one for one in capabilities[target] if one.detector]
        job = _Job(open_detectors(study, target), (0,), own)
        job.plan(group, stored)
        labels += job.kept
        for some, lacking in job.todo:
            labels += job.analyst.label(some, lacking)
        wanted, kept = wanted + job.wanted, kept + len(job.kept)
    figures: dict[str, Figure] = {}
    remarks: list[str] = []
    stopped = False
    shown = {row.trajectory_id: row for row in study.store.read(ShownTranscript, batch)}
    if study.settings.labels.model:
        with open_model(study, "labels", batch) as (analyst, server):
            for target, group in groups.items():
                passes = tuple(range(1, study.settings.labels.passes + 1))
                job = _Job(analyst, passes, capabilities[target])
                job.plan(group, stored)
                labels += job.kept
                wanted, kept = wanted + job.wanted, kept + len(job.kept)
                for done in _ask(analyst, job, stopped):
                    labels += done.labels
                    shown |= done.shown
                    stopped |= not done.complete
                    remarks += [shortfall(done)] if shortfall(done) else []
        figures = {**model_figures(server), **_compaction(shown)}
    elif any(not one.detector for own in capabilities.values() for one in own):
        raise InputError(
            "a model proposed some of the candidates, but no model is set that labels: set labels.model, or "
            "set discovery.analyst to 'detectors'."
        )
    present = {one.trajectory_id for group in groups.values() for one in group}
    study.store.write(
        [row for name, row in shown.items() if name in present and study.settings.labels.model],
        ShownTranscript,
        batch,
    )
    version = study.store.write(labels, Label, batch)
    counts = Counter(row.label.lower() for row in labels)
    names = {one.capability_id: one.name for own in capabilities.values() for one in own}
    return StageResult(
        version,
        len(labels),
        {**dict(sorted(counts.items())), "n": len(labels), "kept": kept, **figures},
        tables=labels_exhibit(labels, names).tables,
        checks=(_complete(len(labels), wanted, remarks, stopped),),
    )


def _ask(analyst: ModelAnalyst, job: _Job, stopped: bool) -> list[Labelled]:
    """Ask for what is left, group by group, until the cap is reached."""
    found: list[Labelled] = []
    for some, lacking in job.todo:
        if stopped or (found and not found[-1].complete):
            found.append(Labelled(complete=False))
        else:
            found.append(analyst.label_what_can_be(some, lacking))
    return found


def _compaction(shown: dict[str, ShownTranscript]) -> dict[str, Figure]:
    return {
        "compacted_transcripts": sum(row.rule != "whole" for row in shown.values()),
        "transcripts_with_words_withheld": sum(row.n_withheld > 0 for row in shown.values()),
    }


def _complete(done: int, wanted: int, remarks: list[str], stopped: bool) -> StageCheck:
    """Whether all labels are there; the few that a model will not give are a warning."""
    said = f"{done} of {wanted} labels are there"
    if done == wanted:
        return StageCheck("labels_complete", True, f"{said}.")
    said += (
        f", {wanted - done} are missing: {'; '.join(dict.fromkeys(remarks)) or 'the analyst left them out'}."
    )
    if stopped:
        said += " Raise analyst.cap_usd or analyst.cap_calls and run the same command again."
    few = not stopped and bool(remarks) and wanted - done <= TOLERATED * wanted
    return StageCheck("labels_complete", False, said, "warning" if few else "error")
