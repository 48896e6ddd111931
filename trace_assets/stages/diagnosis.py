"""The stages from `contrast` to `capability_spec`: what the agent lacks, and what to teach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from trace_assets.diagnosis.agreement import agreement_of, consensus_of
from trace_assets.diagnosis.contrast import contrast_matrix
from trace_assets.diagnosis.contrast import considered_tests
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.leak import outcome_leak
from trace_assets.diagnosis.selection import select
from trace_assets.errors import InputError
from trace_assets.records import (
    Agreement,
    Capability,
    CapabilitySpec,
    Consensus,
    Contrast,
    SelectedCapability,
)
from trace_assets.report.asset_report.diagnosis import contrast_exhibit, selection_exhibit
from trace_assets.stages.evidence import evidence_by_target
from trace_assets.stages.result import StageCheck, StageResult
from trace_assets.store.content import text_version
from trace_assets.study import Study


def _names(study: Study) -> dict[str, str]:
    return {row.capability_id: row.name for row in study.store.read(Capability)}


def estimate_contrast(study: Study) -> StageResult:
    """Write `contrast`, `agreement` and `consensus`, target by target."""
    section = study.settings.contrast
    rows: list[Contrast] = []
    agreement: list[Agreement] = []
    consensus: list[Consensus] = []
    evidence = evidence_by_target(study)
    for one in evidence:
        matrix = LabelMatrix.build(one.labels, one.triage, one.target)
        considered = considered_tests(one.capabilities)
        rows += contrast_matrix(matrix, section, one.target, considered=considered)
        agreement += agreement_of(matrix, section, one.target)
        consensus += consensus_of(matrix, one.target)
    version = text_version(
        study.store.write(rows, Contrast),
        study.store.write(agreement, Agreement),
        study.store.write(consensus, Consensus),
    )
    every_label = (label for one in evidence for label in one.labels)
    leak = outcome_leak(rows, every_label, section.accept_empty)
    exhibit = contrast_exhibit(rows, _names(study), study.settings.selection)
    return StageResult(
        version,
        len(rows),
        {
            "candidates": len(rows),
            "n": sum(len(one.triage) for one in evidence),
            **({"labelled_twice": len(consensus)} if consensus else {}),
            **_best(rows),
        },
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
    rows: list[SelectedCapability] = []
    for one in evidence_by_target(study):
        own = contrasts.get(one.target, [])
        rows += select(own, one.capabilities, one.labels, one.triage, study.settings.selection)
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
        {"kept": len(kept), "rejected": len(rows) - len(kept), **_priced(study, rows), **best},
        pages=exhibit.pages,
        tables=exhibit.tables,
    )


def _priced(study: Study, rows: Sequence[SelectedCapability]) -> dict[str, int]:
    """Return for how many candidates the settings name a price; the others cost 1."""
    prices = study.settings.selection.prices
    detectors = {row.capability_id: row.detector or "" for row in study.store.read(Capability)}
    named = [row for row in rows if {row.capability_id, detectors.get(row.capability_id, "")} & prices.keys()]
    return {"priced_by_settings": len(named)} if prices else {}


def kept_capabilities(study: Study) -> list[str]:
    """Return the ids of kept capabilities of every target: those that get an environment."""
    return sorted(row.capability_id for row in study.store.read(SelectedCapability) if row.kept)


def trainable(study: Study) -> list[str]:
    """Return the ids of kept capabilities of the live target: those that the live agent is taught."""
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
