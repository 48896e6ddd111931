"""The stages from `capability_dictionary` to `capability_spec`: what the agent lacks, and what to teach."""

from __future__ import annotations

from collections import Counter, defaultdict

from trace_assets.diagnosis.analyst import Analyst
from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.outcome_leak import outcome_leak
from trace_assets.diagnosis.selection import select
from trace_assets.errors import InputError
from trace_assets.records import (
    Capability,
    CapabilitySpec,
    Contrast,
    Label,
    SelectedCapability,
    Trajectory,
    Triage,
)
from trace_assets.report.exhibits.diagnosis import (
    contrast_exhibit,
    dictionary_exhibit,
    labels_exhibit,
    selection_exhibit,
)
from trace_assets.stages.batch_capabilities import capabilities_of
from trace_assets.stages.result import StageCheck, StageResult
from trace_assets.store.trajectories import read_trajectories
from trace_assets.study import Study


def open_analyst(study: Study, target: str) -> Analyst:
    """Return the analyst that `discovery.analyst` names; it is told the tools of the live target."""
    from trace_assets.diagnosis.detector_analyst import DetectorAnalyst

    live = target == study.settings.targets.name
    return DetectorAnalyst(study.settings.discovery, tools=study.target.tools if live else ())


def _by_target(trajectories: list[Trajectory]) -> dict[str, list[Trajectory]]:
    groups: dict[str, list[Trajectory]] = defaultdict(list)
    for one in trajectories:
        groups[one.target].append(one)
    return dict(sorted(groups.items()))


def discover(study: Study) -> StageResult:
    """Write the table `capabilities`: candidates of every target, from successes and the agent's failures."""
    usable = {
        row.trajectory_id
        for row in study.store.read(Triage)
        if row.outcome == "passed" or (row.outcome == "failed" and row.fault == "agent")
    }
    found: list[Capability] = []
    for target, group in _by_target(read_trajectories(study.store)).items():
        analyst = open_analyst(study, target)
        found += analyst.discover([one for one in group if one.trajectory_id in usable])
    version = study.store.write(found, Capability)
    return StageResult(
        version,
        len(found),
        {"candidates": len(found), "targets": len({row.target for row in found}), "n": len(usable)},
        tables=dictionary_exhibit(found).tables,
    )


def label_batch(study: Study, batch: str) -> StageResult:
    """Write one batch of the table `labels`, from blind trajectories."""
    capabilities: dict[str, list[Capability]] = defaultdict(list)
    for capability in capabilities_of(study, batch):
        capabilities[capability.target].append(capability)
    labels: list[Label] = []
    wanted = 0
    for target, group in _by_target(read_trajectories(study.store, batch)).items():
        analyst = open_analyst(study, target)
        labels += analyst.label([one.blind() for one in group], capabilities[target])
        wanted += len(group) * len(capabilities[target])
    version = study.store.write(labels, Label, batch)
    counts = Counter(row.label.lower() for row in labels)
    done = len({(row.trajectory_id, row.capability_id) for row in labels})
    return StageResult(
        version,
        len(labels),
        {**dict(sorted(counts.items())), "n": len(labels)},
        tables=labels_exhibit(labels, _names(study)).tables,
        checks=(StageCheck("labels_complete", done == wanted, f"{done} of {wanted} pairs have a label."),),
    )


def _names(study: Study) -> dict[str, str]:
    return {row.capability_id: row.name for row in study.store.read(Capability)}


def _labels_by_target(study: Study) -> dict[str, list[Label]]:
    target_of = {row.capability_id: row.target for row in study.store.read(Capability)}
    groups: dict[str, list[Label]] = defaultdict(list)
    for label in study.store.read(Label):
        if label.capability_id in target_of:
            groups[target_of[label.capability_id]].append(label)
    return dict(sorted(groups.items()))


def estimate_contrast(study: Study) -> StageResult:
    """Write the table `contrast`, target by target."""
    triage = study.store.read(Triage)
    rows: list[Contrast] = []
    labelled = _labels_by_target(study)
    for target, labels in labelled.items():
        own = [row for row in triage if row.target == target]
        rows += contrast(labels, own, study.settings.contrast, target)
    version = study.store.write(rows, Contrast)
    leak = outcome_leak(rows, (label for labels in labelled.values() for label in labels))
    exhibit = contrast_exhibit(rows, _names(study), study.settings.selection)
    return StageResult(
        version,
        len(rows),
        {"candidates": len(rows), "n": len(triage), **_best(rows)},
        pages=exhibit.pages,
        tables=exhibit.tables,
        checks=(StageCheck("contrast_not_empty", leak.passed, leak.detail, leak.severity),),
    )


def _best(rows: list[Contrast]) -> dict[str, float]:
    """Return gap and coverage of the candidate with the widest gap."""
    known = [row for row in rows if row.gap is not None and row.coverage is not None]
    if not known:
        return {}
    best = max(known, key=lambda row: row.gap or 0.0)
    return {"gap": best.gap or 0.0, "coverage": best.coverage or 0.0}


def select_capabilities(study: Study) -> StageResult:
    """Write the table `selected_capabilities`: every candidate with the decision and its reason."""
    contrasts: dict[str, list[Contrast]] = defaultdict(list)
    for row in study.store.read(Contrast):
        contrasts[row.target].append(row)
    capabilities, triage = study.store.read(Capability), study.store.read(Triage)
    labels = _labels_by_target(study)
    rows: list[SelectedCapability] = []
    for target, own in sorted(contrasts.items()):
        rows += select(
            own,
            [one for one in capabilities if one.target == target],
            labels.get(target, []),
            [row for row in triage if row.target == target],
            study.settings.selection,
        )
    version = study.store.write(rows, SelectedCapability)
    every = [row for own in contrasts.values() for row in own]
    kept = [row for row in rows if row.kept]
    best = _best([row for row in every if row.capability_id in {one.capability_id for one in kept}])
    if best:
        best["coverage"] = max(
            sum(row.marginal_coverage or 0.0 for row in kept if row.target == target) for target in contrasts
        )
    exhibit = selection_exhibit(rows, every, study.settings.selection)
    return StageResult(
        version,
        len(rows),
        {"kept": len(kept), "rejected": len(rows) - len(kept), **best},
        pages=exhibit.pages,
        tables=exhibit.tables,
    )


def trainable(study: Study) -> list[str]:
    """Return the ids of kept capabilities of the live target: those that get an environment."""
    return sorted(
        row.capability_id
        for row in study.store.read(SelectedCapability)
        if row.kept and row.target == study.settings.targets.name
    )


def write_spec(study: Study, capability_id: str) -> StageResult:
    """Write the spec of one kept capability: all that its environment and adapter may depend on.

    Raises:
        InputError: There is no such capability.
    """
    for row in study.store.read(Capability):
        if row.capability_id == capability_id:
            spec = CapabilitySpec(**row.part(CapabilitySpec))
            version = study.store.write([spec], CapabilitySpec, capability_id)
            return StageResult(version, 1, {"detector": spec.detector or "", "name": spec.name})
    raise InputError(
        f"capability '{capability_id}' is not in the dictionary (any more); run `trace sync` to plan anew."
    )
