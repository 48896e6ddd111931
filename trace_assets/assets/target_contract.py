"""The assets `target_contract`, what environments are held to, and `decision_patterns` of runs."""

from __future__ import annotations

from collections import Counter, defaultdict

import polars as pl

from trace_assets.assets.asset import StageCheck, StageResult, asset
from trace_assets.environments.contract.decisions import (
    chosen_runs,
    decisions_of,
    evidence_of,
    settled_labels,
)
from trace_assets.errors import InputError
from trace_assets.records import CapabilitySpec, ContractRow, DecisionPattern, Label, TrajectoryHead
from trace_assets.records.table import from_frame
from trace_assets.resources.contract import _contract, _targets, summary
from trace_assets.store.trajectories import read_some
from trace_assets.study import Study


@asset(
    "target_contract",
    group="synthesis",
    records=(ContractRow,),
    deps=["trajectories", "config/targets"],
    checks={"every_target_has_one": "Each target with trajectories has a contract."},
)
def write_contracts(study: Study) -> StageResult:
    """What every environment is held to: each target's tools, shapes and wording, never its code.

    Raises:
        InputError: No target has discovery trajectories.
    """
    contracts, left_out = [], []
    places = [(study.store, key) for key in study.store.partitions(TrajectoryHead)]
    names = sorted({name for place in places for name in _targets(*place)})
    for name in names or [study.settings.targets.name]:
        try:
            contracts.append(_contract(study, name, places))
        except InputError as error:
            if len(names) < 2:
                raise
            left_out.append(f"{name}: {error}")
    rows = [
        ContractRow(
            target=contract.target,
            fingerprint=contract.fingerprint(),
            n_trajectories=contract.n_trajectories,
            contract=contract.model_dump(mode="json"),
        )
        for contract in contracts
    ]
    version = study.store.write(rows, ContractRow)
    return StageResult(
        version,
        len(rows),
        {
            "targets": len(rows),
            "tools": sum(len(contract.tools) for contract in contracts),
            "n_trajectories": sum(contract.n_trajectories for contract in contracts),
        },
        tables={"contracts": [summary(contract) for contract in contracts]},
        checks=(
            StageCheck(
                "every_target_has_one",
                not left_out,
                "; ".join(left_out) or f"{len(rows)} of {len(rows)} targets.",
                "warning",
            ),
        ),
    )


ENOUGH = 8
"""Runs of either label from which on no others are taken."""


@asset(
    "decision_patterns",
    group="synthesis",
    records=(DecisionPattern,),
    deps=["capability_spec", "trajectories", "labels"],
    partitions="capability",
    light=True,
)
def write_decision_patterns(study: Study, capability_id: str) -> StageResult:
    """A cut-off: what a bounded number of labelled runs decided, the earliest batches first.

    They are chosen once there are enough: runs of later batches show no better what is right, and would have
    every environment audited, and every adapter trained, anew.
    """
    specs = study.store.read(CapabilitySpec, capability_id)
    rows = study.store.frame(Label).filter(pl.col("capability_id") == capability_id)
    labelled = from_frame(rows, Label)
    labels = settled_labels(labelled)
    shown = evidence_of(labelled, labels)
    heads = [
        (batch, head.task_id, head.trajectory_id)
        for batch in study.store.partitions(TrajectoryHead)
        for head in study.store.read(TrajectoryHead, batch)
        if head.split == "discovery" and specs and head.target == specs[0].target
    ]
    before = {one.trajectory_id for one in study.store.read(DecisionPattern, capability_id)}
    kept = chosen_runs(heads, {run: label for run, label in labels.items() if run in before})
    if min(Counter(kept.values())[one] for one in ("PRESENT", "LACKING")) < ENOUGH:
        kept = chosen_runs(heads, labels)
    of_batch: dict[str, list[str]] = defaultdict(list)
    for batch, _, run in heads:
        if run in kept:
            of_batch[batch].append(run)
    runs = [run for batch, ids in sorted(of_batch.items()) for run in read_some(study.store, batch, ids)]
    found = [
        one
        for run in runs
        for one in decisions_of(run, kept[run.trajectory_id], capability_id, shown[run.trajectory_id])
    ]
    version = study.store.write(found, DecisionPattern, capability_id)
    counts = Counter(kept.values())
    return StageResult(version, len(found), {"runs": len(kept), **dict(sorted(counts.items()))})
