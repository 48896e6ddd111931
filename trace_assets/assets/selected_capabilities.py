"""The asset `selected_capabilities`: which candidates are worth teaching, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from trace_assets.assets.asset import StageResult, asset
from trace_assets.assets.contrast import _best
from trace_assets.diagnosis.chance import Findings, Null, chance_null
from trace_assets.diagnosis.label_matrix import LabelMatrix
from trace_assets.diagnosis.leak import unread_labels
from trace_assets.diagnosis.repair.shares import decisive_shares
from trace_assets.diagnosis.selection import select
from trace_assets.errors import InputError
from trace_assets.records import (
    Capability,
    CapabilitySpec,
    Contrast,
    DecisiveShare,
    ProposedFinding,
    Repair,
    SelectedCapability,
)
from trace_assets.report.asset_report.diagnosis import selection_report
from trace_assets.resources.analysts import Evidence, evidence_by_target
from trace_assets.store.content import text_version
from trace_assets.study import Study


@asset(
    "selected_capabilities",
    group="diagnosis",
    records=(SelectedCapability, DecisiveShare),
    deps=[
        *("trajectories", "contrast", "labels", "lack_causes", "triage", "suspect_tasks", "lucky_passes"),
        *("capability_dictionary", "repairs"),
        *("config/triage", "config/discovery", "config/contrast", "config/selection", "config/targets"),
    ],
    light=True,
)
def select_capabilities(study: Study) -> StageResult:
    """The decision on every candidate with its reason; kept ones become partitions."""
    contrasts: dict[str, list[Contrast]] = defaultdict(list)
    for row in study.store.read(Contrast):
        contrasts[row.target].append(row)
    rows: list[SelectedCapability] = []
    decisive: list[DecisiveShare] = []
    repairs = study.store.read(Repair)
    section = study.settings.selection
    _check_overrides(study)
    for one in evidence_by_target(study, with_causes=True):
        own = contrasts.get(one.target, [])
        matrix = LabelMatrix.build(one.labels, one.triage, one.target)
        shares = decisive_shares(matrix, repairs, one.target, live=one.target == study.settings.targets.name)
        nulls = {one.target: partial(chance_of, study, one)}
        read = study.settings.contrast.accept_empty
        unread = frozenset[str]() if read else unread_labels(own, one.labels)
        rows += select(
            own,
            one.capabilities,
            one.labels,
            one.triage,
            section,
            shares,
            nulls=nulls,
            causes=one.causes,
            unread=unread,
        )
        decisive += shares
    version = text_version(
        study.store.write(rows, SelectedCapability), study.store.write(decisive, DecisiveShare)
    )
    every = [row for own in contrasts.values() for row in own]
    kept = [row for row in rows if row.kept and not row.overridden_by]
    overridden = [row for row in rows if row.overridden_by]
    best = _best([row for row in every if row.capability_id in {one.capability_id for one in kept}])
    if best:
        best["coverage"] = max(
            sum(row.marginal_coverage or 0.0 for row in kept if row.target == target) for target in contrasts
        )
    asset_report = selection_report(rows, every, study.settings.selection, decisive)
    return StageResult(
        version,
        len(rows),
        {
            "kept": len(kept),
            **({"kept_by_override": len(overridden)} if overridden else {}),
            "rejected": len(rows) - len(kept) - len(overridden),
            **_priced(study, rows),
            **best,
        },
        pages=asset_report.pages,
        tables=asset_report.tables,
    )


def chance_of(study: Study, one: Evidence, upto: float) -> Null:
    """Return what shuffled outcomes come to in one target, up to a p-value."""
    matrix = LabelMatrix.build(one.labels, one.triage, one.target)
    proposed = [row for row in study.store.read(ProposedFinding) if row.target == one.target]
    settings = study.settings
    findings = Findings.of_tables(matrix, proposed, one.capabilities, settings.discovery)
    return chance_null(matrix, findings, settings.contrast, settings.selection, upto)


def _check_overrides(study: Study) -> None:
    known = {name for row in study.store.read(Capability) for name in (row.capability_id, row.name)}
    for name in study.settings.selection.overrides:
        if name not in known:
            raise InputError(
                f"selection.overrides names '{name}', which is neither the id nor the name of a candidate; "
                "`trace sql gap_table` lists them."
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


@asset(
    "capability_spec",
    group="diagnosis",
    records=(CapabilitySpec,),
    deps=["selected_capabilities", "capability_dictionary"],
    partitions="capability",
    light=True,
)
def write_spec(study: Study, capability_id: str) -> StageResult:
    """The cut-off: all that one capability's environment and adapter may depend on.

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
