"""The asset `contrast`: error rates of each candidate on failures and on successes, and their gap."""

from __future__ import annotations

from collections import Counter

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.diagnosis.contrast import considered_tests, contrast_matrix
from trace_assets.diagnosis.duplicates import duplicates
from trace_assets.diagnosis.empty_contrast import outcome_leak
from trace_assets.diagnosis.label_matrix import LabelMatrix, agreement_of, consensus_of
from trace_assets.records import (
    Agreement,
    Capability,
    Consensus,
    Contrast,
)
from trace_assets.report.asset_report.diagnosis import contrast_report
from trace_assets.resources.analysts import evidence_by_target
from trace_assets.store.content import text_version
from trace_assets.study import Study


def _names(study: Study) -> dict[str, str]:
    return {row.capability_id: row.name for row in study.store.read(Capability)}


@asset(
    "contrast",
    group="diagnosis",
    records=(Contrast, Agreement, Consensus),
    deps=[
        *("trajectories", "labels", "lack_causes", "triage", "suspect_tasks", "lucky_passes"),
        *("capability_dictionary", "config/triage", "config/contrast"),
    ],
    checks={
        "contrast_not_empty": "No candidate has ER+ of exactly 0 with ten relevant successes: its labels "
        "may follow the outcome. Warns; where a model labelled that never gives LACKING to a success, in two "
        "candidates or more, none of them is kept before a person has read some labels.",
        "one_policy": "All runs of a target were played by one policy. Warns: several are compared each with "
        "itself, and `triage.policy` chooses one.",
    },
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
        twice = duplicates(matrix, one.capabilities)
        aside = Counter(
            capability
            for capability, run in {
                (label.capability_id, label.trajectory_id) for label in one.labels if label.label != "NA"
            }
            if run in one.lucky
        )
        rows += [
            row.model_copy(update={"n_passed_aside": aside[row.capability_id]})
            for row in contrast_matrix(matrix, section, one.target, considered=considered, twice=twice.keys())
        ]
        agreement += agreement_of(matrix, section, one.target)
        consensus += consensus_of(matrix, one.target)
    lucky = sum(len(one.lucky) for one in evidence)
    version = text_version(
        study.store.write(rows, Contrast),
        study.store.write(agreement, Agreement),
        study.store.write(consensus, Consensus),
    )
    every_label = [label for one in evidence for label in one.labels]
    leak = outcome_leak(rows, every_label, section.accept_empty)
    asset_report = contrast_report(rows, _names(study), study.settings.selection)
    return StageResult(
        version,
        len(rows),
        {
            "candidates": len(rows),
            "n": sum(len(one.triage) for one in evidence),
            **({"labelled_twice": len(consensus)} if consensus else {}),
            **({"lucky_passes_aside": lucky} if lucky else {}),
            **_best(rows),
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
        checks=(
            StageCheck("contrast_not_empty", leak.passed, leak.detail, "warning"),
            _one_policy(rows),
        ),
    )


def _one_policy(rows: list[Contrast]) -> StageCheck:
    mixed = {row.target: row.policies for row in rows if len(row.policies) > 1}
    said = "; ".join(f"{target}: {', '.join(policies)}" for target, policies in sorted(mixed.items()))
    return StageCheck(
        "one_policy",
        not mixed,
        f"runs of several policies are diagnosed together, each compared with itself ({said}); "
        "`trace diagnose --policy NAME` diagnoses one."
        if mixed
        else "every target's runs are one policy's.",
        "warning",
    )


def _best(rows: list[Contrast]) -> dict[str, float]:
    """Return gap and coverage of the candidate with the widest gap."""
    known = [row for row in rows if row.gap is not None and row.coverage is not None]
    if not known:
        return {}
    best = max(known, key=lambda row: row.gap or 0.0)
    return {"gap": best.gap or 0.0, "coverage": best.coverage or 0.0}
