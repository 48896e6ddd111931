"""The stages from `contrast` to `capability_spec`: what the agent lacks, and what to teach."""

from __future__ import annotations

from collections import defaultdict

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
    Triage,
)
from trace_assets.report.exhibits.diagnosis import (
    contrast_exhibit,
    selection_exhibit,
)
from trace_assets.stages.result import StageCheck, StageResult
from trace_assets.study import Study


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
