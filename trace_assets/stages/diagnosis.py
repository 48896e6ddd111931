"""The stages from `capability_dictionary` to `capability_spec`: what the agent lacks, and what to teach."""

from __future__ import annotations

from collections import Counter, defaultdict

from trace_assets.diagnosis.analyst import Analyst
from trace_assets.diagnosis.contrast import contrast
from trace_assets.diagnosis.selection import empty_contrast, select
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
        version, len(found), {"candidates": len(found), "targets": len({row.target for row in found})}
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
        dict(sorted(counts.items())),
        checks=(StageCheck("labels_complete", done == wanted, f"{done} of {wanted} pairs have a label."),),
    )


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
    for target, labels in _labels_by_target(study).items():
        own = [row for row in triage if row.target == target]
        rows += contrast(labels, own, study.settings.contrast, target)
    version = study.store.write(rows, Contrast)
    empty = empty_contrast(rows)
    best = max((row.gap for row in rows if row.gap is not None), default=None)
    return StageResult(
        version,
        len(rows),
        {"candidates": len(rows)} | ({"best_gap": best} if best is not None else {}),
        checks=(
            StageCheck(
                "contrast_not_empty",
                not empty,
                f"{len(empty)} of {len(rows)} candidates have ER+ of exactly 0 with ten or more relevant "
                "successes: their labels may follow the outcome."
                + (f" They are {', '.join(row.capability_id for row in empty[:5])}." if empty else ""),
                severity="warning",
            ),
        ),
    )


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
    kept = sum(row.kept for row in rows)
    return StageResult(version, len(rows), {"kept": kept, "rejected": len(rows) - kept})


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
