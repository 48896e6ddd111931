"""The asset `contrast`: error rates of each candidate on failures and on successes, and their gap."""

from __future__ import annotations

from trace_assets.assets.asset import asset
from trace_assets.assets.result import StageCheck, StageResult
from trace_assets.diagnosis.agreement import agreement_of, consensus_of
from trace_assets.diagnosis.contrast import considered_tests, contrast_matrix
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.leak import outcome_leak
from trace_assets.records import (
    Agreement,
    Capability,
    Consensus,
    Contrast,
)
from trace_assets.report.asset_report.diagnosis import contrast_exhibit
from trace_assets.resources.analysts import evidence_by_target
from trace_assets.store.content import text_version
from trace_assets.study import Study


def _names(study: Study) -> dict[str, str]:
    return {row.capability_id: row.name for row in study.store.read(Capability)}


@asset(
    "contrast",
    group="diagnosis",
    records=(Contrast, Agreement, Consensus),
    deps=["labels", "lack_causes", "triage", "suspect_tasks", "capability_dictionary", "config/contrast"],
    checks={
        "contrast_not_empty": "No candidate has ER+ of exactly 0 with ten relevant successes: its labels "
        "may follow the outcome. Stops the selection where a model labelled, warns where detectors did."
    },
    blocking=["contrast_not_empty"],
    kinds=("parquet", "duckdb"),
    light=True,
)
def estimate_contrast(study: Study) -> StageResult:
    """Error rates on failures and successes, contrastive gap and coverage, with intervals and q values."""
    section = study.settings.contrast
    rows: list[Contrast] = []
    agreement: list[Agreement] = []
    consensus: list[Consensus] = []
    evidence = evidence_by_target(study, with_causes=True)
    for one in evidence:
        matrix = LabelMatrix.build(one.labels, one.triage, one.target, one.causes)
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
