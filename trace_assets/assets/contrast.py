"""The assets `contrast` of failures and successes, `policy_contrast` of two policies, `drift` of batches."""

from __future__ import annotations

from collections import Counter, defaultdict

import polars as pl

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.diagnosis import policy_contrast as library
from trace_assets.diagnosis.contrast import considered_tests, contrast_matrix
from trace_assets.diagnosis.duplicates import duplicates
from trace_assets.diagnosis.label_matrix import LabelMatrix, agreement_of, consensus_of
from trace_assets.diagnosis.leak import outcome_leak
from trace_assets.diagnosis.policy_contrast import policies_by_target
from trace_assets.diagnosis.stability import drift
from trace_assets.errors import InputError
from trace_assets.records import (
    Agreement,
    Arrival,
    Capability,
    Consensus,
    Contrast,
    Drift,
    Label,
    PolicyContrast,
    TrajectoryHead,
    Triage,
)
from trace_assets.report.asset_report.diagnosis import contrast_report
from trace_assets.report.formatting import share
from trace_assets.resources.analysts import aside_tasks, evidence_by_target
from trace_assets.store.content import text_version
from trace_assets.store.names import chosen_name
from trace_assets.study import Study


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


@asset(
    "policy_contrast",
    group="diagnosis",
    records=(PolicyContrast,),
    deps=[
        *("trajectories", "labels", "triage", "suspect_tasks", "capability_dictionary"),
        "config/contrast",
    ],
    light=True,
)
def contrast_policies(study: Study) -> StageResult:
    """Every two policies that were tried on the same tasks: what the stronger one lacks less, and more."""
    rows = compare_policies(study)
    version = study.store.write(rows, PolicyContrast)
    pairs = {(row.target, row.weak, row.strong) for row in rows}
    clear = [row for row in rows if row.capability_id and row.q_value is not None and row.q_value <= 0.05]
    return StageResult(
        version,
        len(rows),
        {"pairs": len(pairs), "n": sum(row.n_tasks for row in rows if not row.capability_id)}
        | ({"changed": len(clear)} if pairs else {}),
        pages={"policies": policy_page(rows)} if rows else {},
    )


def compare_policies(study: Study, only: tuple[str, str] | None = None) -> list[PolicyContrast]:
    """Compare policies on what is in the store.

    Args:
        study: The tables.
        only: Two policies; None compares all that share enough tasks.

    Raises:
        InputError: A named policy is not there, the two are one, or they share no task. A unique beginning
            of a name will do.
    """
    heads = study.store.frame(TrajectoryHead).select("trajectory_id", "policy", "adapter")
    named = heads.with_columns(
        pl.when(pl.col("adapter").is_null())
        .then(pl.col("policy"))
        .otherwise(pl.format("{} + {}", "policy", "adapter"))
        .alias("who")
    )
    policies = dict(zip(named["trajectory_id"].to_list(), named["who"].to_list(), strict=True))
    aside = aside_tasks(study)
    triage = [row for row in study.store.read(Triage) if row.task_id not in aside]
    if only:
        only = _check(only, triage, policies)
    capabilities = study.store.read(Capability)
    target_of = {row.capability_id: row.target for row in capabilities}
    labels: dict[str, list[Label]] = defaultdict(list)
    for label in study.store.read(Label):
        if label.capability_id in target_of:
            labels[target_of[label.capability_id]].append(label)
    names = {row.capability_id: row.name for row in capabilities}
    rows: list[PolicyContrast] = []
    for target, tried in policies_by_target(triage, policies).items():
        if only and not set(only) <= tried.keys():
            continue
        own = [row for row in triage if row.target == target]
        section = study.settings.contrast
        rows += library.contrast_policies(labels[target], own, policies, names, section, target, only=only)
    return rows


def _check(only: tuple[str, str], triage: list[Triage], policies: dict[str, str]) -> tuple[str, str]:
    tried = policies_by_target(triage, policies)
    known = sorted({name for own in tried.values() for name in own})
    only = chosen_name("policy", only[0], known), chosen_name("policy", only[1], known)
    if only[0] == only[1]:
        raise InputError(f"'{only[0]}' cannot be compared with itself; name two policies.")
    if not any(own.get(only[0], set()) & own.get(only[1], set()) for own in tried.values()):
        raise InputError(
            f"'{only[0]}' and '{only[1]}' were tried on no task in common, so there is nothing to pair; "
            "ingest trajectories of both on the same tasks."
        )
    return only


def policy_page(rows: list[PolicyContrast]) -> str:
    """Return the comparison as Markdown, one table a pair, what changed most first."""
    lines: list[str] = []
    pairs = sorted({(row.target, row.weak, row.strong) for row in rows})
    for target, weak, strong in pairs:
        own = [row for row in rows if (row.target, row.weak, row.strong) == (target, weak, strong)]
        lines += [
            f"\n**{target}**: {weak} (weak) against {strong} (strong)\n",
            "| what | weak | strong | difference | p / q | tasks | mended | broken |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for row in sorted(own, key=lambda row: (row.capability_id != "", -(row.difference or 0.0))):
            p = "" if row.p_value is None else f"{row.p_value:.3f}"
            q = "" if row.q_value is None else f" / {row.q_value:.3f}"
            lines.append(
                f"| {row.name} | {share(row.weak_rate, row.weak_low, row.weak_high)} "
                f"| {share(row.strong_rate, row.strong_low, row.strong_high)} "
                f"| {share(row.difference, row.difference_low, row.difference_high)} "
                f"| {p}{q} | {row.n_tasks} | {row.n_mended} | {row.n_broken} |"
            )
    return "\n".join(lines)


def newest_batches(study: Study) -> dict[str, str]:
    """Return, by target, the batch that came last through a watched folder and is labelled.

    Batches that were rolled out or ingested by hand have no time of arrival: they count as earlier.
    """
    labelled = set(study.store.partitions(Label))
    newest: dict[str, str] = {}
    for row in sorted(study.store.read(Arrival), key=lambda row: (row.taken_at, row.task_batch)):
        if row.task_batch in labelled:
            for target in study.store.frame(TrajectoryHead, row.task_batch)["target"].unique():
                newest[target] = row.task_batch
    return dict(sorted(newest.items()))


@asset(
    "drift",
    group="diagnosis",
    records=(Drift,),
    deps=[
        *("trajectories", "labels", "triage", "suspect_tasks", "lucky_passes", "capability_dictionary"),
        *("config/triage", "config/contrast"),
    ],
    checks={
        "no_drift": "In the newest batch of each target no capability's gap or coverage differs from earlier "
        "batches by more than chance. Warns, and stops nothing."
    },
    kinds=("parquet", "duckdb"),
    light=True,
)
def write_drift(study: Study) -> StageResult:
    """Gap and coverage in the newest batch of each watched target against all earlier batches."""
    newest = newest_batches(study)
    rows: list[Drift] = []
    for one in evidence_by_target(study):
        if one.target in newest:
            batch = newest[one.target]
            new = set(study.store.frame(TrajectoryHead, batch)["trajectory_id"].to_list())
            rows += drift(one.labels, one.triage, study.settings.contrast, one.target, batch, new)
    version = study.store.write(rows, Drift)
    moved = [row for row in rows if row.drifted]
    return StageResult(
        version,
        len(rows),
        {"compared": len(rows), "drifted": len(moved)},
        checks=(StageCheck("no_drift", not moved, _sentence(rows, moved), severity="warning"),),
    )


def _sentence(rows: list[Drift], moved: list[Drift]) -> str:
    if not rows:
        return "Nothing to compare: no batch of a watched folder follows another of its target."
    if not moved:
        batches = ", ".join(sorted({row.task_batch for row in rows}))
        return f"None of {len(rows)} figures left its band in {batches}."
    shown = "; ".join(_figures(row) for row in moved[:5])
    more = f"; and {len(moved) - 5} more (table `drift`)" if len(moved) > 5 else ""
    return f"{len(moved)} of {len(rows)} figures left their band: {shown}{more}."


def _figures(row: Drift) -> str:
    return (
        f"{row.measure} of {row.capability_id} was {row.before:.2f} [{row.before_low:.2f}, "
        f"{row.before_high:.2f}] (n = {row.n_before}) and is {row.now:.2f} [{row.now_low:.2f}, "
        f"{row.now_high:.2f}] (n = {row.n_now}) in {row.task_batch}"
    )


def _names(study: Study) -> dict[str, str]:
    return {row.capability_id: row.name for row in study.store.read(Capability)}
